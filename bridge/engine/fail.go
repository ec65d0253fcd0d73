package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
)

func endedOf(j job, out output) words.Ended {
	e := words.Ended{Line: j.command.Parsed.Line, Repo: j.agent.Repo, Name: j.agent.Name, External: j.agent.External,
		Observation: out.obs, Oversize: out.oversize, Evidence: out.evidence}
	if e.Silent = j.agent.Silent(); e.Silent {
		e.Observation.Reply = ""
	}
	return e
}

// lastWords is what other agents may read of a run that did not end well.
func lastWords(a bridge.Agent, obs bridge.Observation) string {
	if a.Silent() {
		return obs.Detail
	}
	return or(obs.Reply, obs.Detail)
}

// unfinished ends a turn whose run failed, was cancelled or expired: nothing
// of its text runs, the parent is told, and what it carried waits again, unless
// a person stopped it when the agent had it. What may go better another time is tried again; the rest is parked for a person.
func (c *change) unfinished(j *job, out output, cpl bridge.Completion) error {
	cut := j.turn.Stopped && out.obs.State == bridge.RunCancelled
	reason := words.Ending(out.obs).Failed(j.turn.ID)
	text := words.Completion(endedOf(*j, out))
	if cut {
		reason = words.Cut(j.turn.ID, !out.obs.Unsaid())
		text += "\n   " + words.TurnStopped
	}
	j.turn.Reply, j.turn.Trouble, j.agent.Trouble = out.obs.Reply, reason, reason
	if j.tree.Stopped() {
		j.agent.Trouble = words.Stopped(j.tree)
	}
	c.notBegun(j, out.obs.Cause)
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return err
	}
	release := func() error { return c.uncarry(j.turn.ID) }
	if cut && !out.obs.Unsaid() {
		release = func() error { return c.delivered(j) }
	}
	if err := release(); err != nil {
		return err
	}
	if err := c.event(bridge.EventTurnFailed, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.agent.Command, Text: reason, Fields: causeOf(j.turn)}); err != nil {
		return err
	}
	if err := c.endWork(j); err != nil {
		return err
	}
	if c.e.retries(*j, out) {
		return c.retry(j, out, cpl)
	}
	if err := c.park(j); err != nil {
		return err
	}
	return c.failTask(&j.agent, j.turn, bridge.Notice{Completion: cpl.ID, Text: text, Untrusted: lastWords(j.agent, out.obs)})
}

// maxRetries bounds how often a turn is tried again by itself.
const maxRetries = 3

// retries reports whether a turn is worth another try: its run broke or ran
// out of time, which says nothing about the next. What a person cancelled stays
// ended, and the first turn of a subagent is its parent's to judge.
func (e *Engine) retries(j job, out output) bool {
	broke := out.obs.State == bridge.RunError || out.obs.State == bridge.RunExpired
	return broke && !out.gone && !out.obs.Final && out.obs.Cause == "" && j.stopped() == "" && j.turn.Retry < maxRetries && (!j.turn.IsLaunch() || j.agent.Parent == "")
}

// retry says the same again after a wait, with all that waits for the agent by
// then. The parent hears of it when it has another reason to be spoken to.
func (c *change) retry(j *job, out output, cpl bridge.Completion) error {
	wait := c.e.backoff(2*j.turn.Retry+1, c.e.o.RetryWait, time.Hour)
	text := fmt.Sprintf("%s; the bridge tries again in %s (%d of %d)", j.turn.Trouble, wait.Round(time.Second), j.turn.Retry+1, maxRetries)
	if err := c.event(bridge.EventRetry, j.agent, bridge.Event{Turn: j.turn.ID, Text: text}); err != nil {
		return err
	}
	if err := c.tellParent(j.agent, bridge.Notice{Cause: bridge.CauseCompletion, Completion: cpl.ID, Quiet: true, Untrusted: lastWords(j.agent, out.obs),
		Text: words.Say("subagent %s (%s): %s", j.agent.Name, j.agent.Repo, words.Own(text))}, "retried", j.turn.Name()); err != nil {
		return err
	}
	behind, err := c.nextTurn(j.agent.ID)
	if err == nil {
		if said, err := c.sayFirst(j.turn, behind, wait); said || err != nil {
			return errors.Join(err, c.UpdateAgent(j.agent))
		}
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	return c.addTurnAt(&j.agent, bridge.Turn{Cause: j.turn.Cause, Text: j.turn.Text, Said: j.turn.Said, Depth: j.turn.Depth, Streak: j.turn.Streak, Retry: j.turn.Retry + 1}, c.now.Add(wait))
}

// nextTurn is the open turn that an agent has, or gets first. A turn that a person stopped is none. ErrNoRow without one.
func (c *change) nextTurn(agent bridge.AgentID) (bridge.Turn, error) {
	t, err := c.OpenTurn(agent)
	if err != nil || !t.Stopped {
		return t, err
	}
	queued, err := c.Turns(bridge.TurnFilter{Agent: agent, State: bridge.TurnQueued, Limit: 1000})
	if err != nil {
		return t, err
	}
	for _, t := range slices.Backward(queued) { // oldest first
		if !t.Stopped {
			return t, nil
		}
	}
	return bridge.Turn{}, bridge.ErrNoRow
}

// sayFirst lets the turn that stands behind one that broke say its words, too, so
// that what a person said first is said first: words that came later go at once
// with those before them and share their tries, and news waits until the next try
// of the words is due. It carries what waits in any case. false when both together are too long.
func (c *change) sayFirst(broke, behind bridge.Turn, wait time.Duration) (bool, error) {
	if broke.Text == "" {
		return true, nil
	}
	news := behind.Text == ""
	if behind.State != bridge.TurnQueued || behind.GoesOn() || !behind.SayFirst(broke) {
		return false, nil
	}
	behind.Retry = max(behind.Retry, broke.Retry+1) // so that nothing is said more often than is due
	if !news {
		return true, c.UpdateTurn(behind)
	}
	behind.Cause, behind.Depth, behind.Streak = broke.Cause, broke.Depth, broke.Streak
	return true, errors.Join(c.UpdateTurn(behind), c.WakeLane(agentLane(behind.Agent), c.now.Add(wait)))
}

// park leaves an agent whose turn failed to a person, and says so once: what it
// carried waits, and any word to the agent or a replay takes it along.
func (c *change) park(j *job) error {
	if _, err := c.OpenTurn(j.agent.ID); err == nil {
		return c.UpdateAgent(j.agent) // another turn waits already, and takes along what this one carried
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	if err := c.fell(j); err != nil || j.agent.State == bridge.AgentGated {
		return err // Resume takes it along
	}
	return c.parked(j.agent, j.turn.ID)
}

// failTurn ends a turn that will have no reply: nothing of it runs, the
// parent hears of it, and what it carried waits for another turn.
func (c *change) failTurn(j *job, reason string) error {
	// A launch never gets further than its first turn without an external agent.
	launch := j.turn.IsLaunch()
	c.e.streams.ended(j.turn.ID)
	if err := c.fail(j, reason); err != nil {
		return err
	}
	if err := c.failTask(&j.agent, j.turn, bridge.Notice{Text: words.Failure(j.agent, j.command, launch, reason)}); err != nil {
		return err
	}
	if err := c.endWork(j); err != nil {
		return err
	}
	return c.failQueued(j)
}

// failStopped ends a turn that a person stopped and that is not on its way.
func (c *change) failStopped(j *job) error {
	why := j.stopped()
	j.fault = "stopped"
	if !j.tree.Stopped() {
		if j.told = j.turn.Got; !j.told {
			why = words.TurnUnsaid
		}
	}
	return c.failTurn(j, why)
}

// fail ends a turn and lets go of what it carried.
func (c *change) fail(j *job, reason string) error {
	j.turn.Trouble, j.agent.Trouble = reason, reason
	if moving.Is(j.agent) { // the next try begins another session, so that it never meets the words of this one
		j.agent.LastRun = c.NewID(moving.Prefix)
	}
	fields, err := c.endWithoutRun(j)
	if err != nil {
		return err
	}
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return err
	}
	release := func() error { return c.uncarry(j.turn.ID) }
	if j.told {
		release = func() error { return c.delivered(j) }
	}
	if err := release(); err != nil {
		return err
	}
	if err := c.fell(j); err != nil {
		return err
	}
	if err := c.event(bridge.EventTurnFailed, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.command.ID, Text: reason, Fields: fields}); err != nil {
		return err
	}
	if j.agent.State == bridge.AgentFailed {
		if err := c.parked(j.agent, j.turn.ID); err != nil {
			return err
		}
	}
	return nil
}

// endWithoutRun is what the event of a turn's failure says in the place of a completion, which
// will not come: how long the turn was out, 0 for one that is not, why it failed and what it came of.
func (c *change) endWithoutRun(j *job) (map[string]string, error) {
	took := time.Duration(0)
	if j.turn.State != bridge.TurnQueued {
		took = c.now.Sub(j.turn.SentAt)
	}
	after, err := c.causes(j)
	fields := causeOf(j.turn)
	fields["duration_ms"], fields["error"], fields["external"], fields["after"] = fmt.Sprint(took.Milliseconds()), j.fault, j.agent.External, after
	return fields, err
}

// causeOf is what each event of a turn's end says of its cause, for those who
// count: another replica may have sent the turn.
func causeOf(t bridge.Turn) map[string]string { return map[string]string{"cause": string(t.Cause)} }

// fell sets the state of an agent whose turn failed. While another turn is open
// it is busy; otherwise it waits for a person's word or, when a person stopped
// its tree, for Resume.
func (c *change) fell(j *job) error {
	next, lost := bridge.AgentFailed, j.agent.External == "" && !moving.Is(j.agent) || j.agent.Quarantined
	if !lost {
		if _, err := c.OpenTurn(j.agent.ID); err == nil {
			return c.UpdateAgent(j.agent)
		} else if !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
	}
	if !lost && j.tree.Stopped() {
		next = bridge.AgentGated
	}
	if !j.agent.State.CanBecome(next) {
		return c.UpdateAgent(j.agent)
	}
	return c.setAgent(&j.agent, next)
}

// failQueued ends what waits behind a turn that leaves the agent unable to get
// any: one that was never launched, or that runs where it must not.
func (c *change) failQueued(j *job) error {
	if (j.agent.External != "" || moving.Is(j.agent)) && !j.agent.Quarantined {
		return nil
	}
	for {
		t, err := c.OpenTurn(j.agent.ID)
		if errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		if err != nil {
			return err
		}
		t.Trouble = j.agent.Trouble
		fields, err := c.endWithoutRun(&job{turn: t, agent: j.agent, command: j.command, fault: j.fault})
		if err != nil {
			return err
		}
		if err := c.setTurn(&t, bridge.TurnFailed); err != nil { // its work finds it over
			return err
		}
		if err := c.event(bridge.EventTurnFailed, j.agent, bridge.Event{Turn: t.ID, Text: t.Trouble, Fields: fields}); err != nil {
			return err
		}
	}
}
