package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
)

// job is a turn with everything that its handler needs.
type job struct {
	work  bridge.Work
	turn  bridge.Turn
	agent bridge.Agent
	// command made the agent; zero for one that a person launched.
	command bridge.Command
	// launch is nil for a follow-up, which goes to an external agent that is there.
	launch *launch
	// names are the agent's and its ancestors', root first.
	names []string
	// tree is that of the agent, with whether a person stopped it.
	tree bridge.Tree
	// fault is a word of ours for why the turn fails, for traces; "" when there is none.
	fault string
	// told says that the agent got what a failed turn carried.
	told bool
	// doubted is since when an earlier attempt has been in doubt, zero when none is.
	doubted time.Time
}

// stopped says why nothing more of the turn is to happen, "" when a person stopped neither the tree nor the turn.
func (j job) stopped() string {
	switch {
	case j.tree.Stopped():
		return words.Stopped(j.tree)
	case j.turn.Stopped:
		return words.TurnStopped
	}
	return ""
}

func (e *Engine) turnWork(ctx context.Context, w bridge.Work) error {
	var j job
	err := e.o.Store.View(ctx, func(tx *bridge.Scene) (err error) {
		j, err = e.loadJob(tx, w)
		return err
	}, bridge.NeedStory{Turn: bridge.TurnID(w.Ref), Brief: true})
	if err != nil {
		return err
	}
	ctx = bridge.CallsFor(ctx, j.turn.ID)
	switch j.turn.State {
	case bridge.TurnQueued:
		return e.deliver(ctx, j)
	case bridge.TurnUncertain:
		if j.turn.Run != "" {
			return e.unread(ctx, j)
		}
		return e.clearDoubt(ctx, j)
	case bridge.TurnDelivering:
		return e.clearDoubt(ctx, j)
	case bridge.TurnRunning:
		return e.observe(ctx, j)
	}
	return e.update(ctx, func(c *change) error { return c.FinishWork(w) }, bridge.NeedWork{ID: w.ID})
}

func (e *Engine) loadJob(tx *bridge.Scene, w bridge.Work) (j job, err error) {
	j.work = w
	if j.turn, err = tx.Turn(bridge.TurnID(w.Ref)); err != nil {
		return j, fmt.Errorf("load turn %q: %w", w.Ref, err)
	}
	if j.turn, err = foundFirst(tx, w, j.turn); err != nil {
		return j, fmt.Errorf("load the turn before %q: %w", w.Ref, err)
	}
	if j.agent, err = tx.Agent(j.turn.Agent); err != nil {
		return j, fmt.Errorf("load agent %q: %w", j.turn.Agent, err)
	}
	if j.agent.Command != "" {
		if j.command, err = tx.Command(j.agent.Command); err != nil {
			return j, fmt.Errorf("load command %q: %w", j.agent.Command, err)
		}
	}
	if j.tree, err = tx.Tree(j.agent.Root); err != nil {
		return j, fmt.Errorf("load tree %q: %w", j.agent.Root, err)
	}
	if j.names, err = tx.Lineage(j.agent); err != nil {
		return j, err
	}
	j.launch, err = e.loadLaunch(tx, j.agent, j.turn)
	return j, err
}

// foundFirst returns the turn that work is about: its own, or one of the same agent
// that was found at the Runtime and goes before it (goFirst).
func foundFirst(tx *bridge.Scene, w bridge.Work, own bridge.Turn) (bridge.Turn, error) {
	if w.Lane == "" || (own.State != bridge.TurnQueued && !own.State.Over()) {
		return own, nil
	}
	head, err := tx.CurrentTurn(own.Agent)
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return own, nil
	case err != nil:
		return own, err
	case head.ID == own.ID || head.State.Over():
		return own, nil
	}
	return tx.Turn(head.ID)
}

// deliver commits that the turn is on its way, sends it, and records the answer.
func (e *Engine) deliver(ctx context.Context, j job) error {
	if j.turn.Trouble != "" && j.tree.Unmetered > 0 {
		look, end := bridge.LookFor(ctx, j.turn.ID)
		err := e.askUnknownUsage(look, j.agent.Root)
		end(false) // a turn that waits asks again and again
		if err != nil {
			return err
		}
	}
	if waits, err := e.catchUp(ctx, j); waits || err != nil {
		return err
	}
	sent := false
	err := e.update(ctx, func(c *change) (err error) {
		sent, err = c.begin(&j)
		return err
	}, append(hintsOf(j), j.beginning(e.o.Now().UTC())...)...)
	if err != nil || !sent {
		return err
	}
	if j.launch != nil && j.agent.API == bridge.APIv0 {
		return e.launchUnlessThere(ctx, j)
	}
	return e.send(ctx, j)
}

// begin takes a queued turn to delivering: what waits for the agent is joined
// into it, and a launch passes the gate once more, because the allowlist may
// have changed since. It reports whether there is something to send.
func (c *change) begin(j *job) (bool, error) {
	fresh, err := c.e.loadJob(c.Scene, j.work)
	if err != nil {
		return false, err
	}
	*j = fresh
	if j.turn.State != bridge.TurnQueued {
		return false, c.PutBack(j.work, c.now)
	}
	switch {
	case j.agent.NotBefore.After(c.now) && j.stopped() == "":
		return false, c.PutBack(j.work, j.agent.NotBefore)
	case j.stopped() != "":
		return false, c.failStopped(j)
	case j.agent.Quarantined:
		return false, c.failTurn(j, j.agent.Trouble)
	case j.agent.External == "" && j.launch == nil:
		return false, c.failTurn(j, "the agent was never launched: "+j.agent.Trouble)
	}
	if j.launch != nil {
		if ok, err := c.regrant(j); !ok || err != nil {
			return false, err
		}
	}
	if hollow, err := c.hollow(j); hollow || err != nil {
		return false, err
	}
	if away := c.e.away(j.agent.Runtime); away != nil {
		return false, c.waitFor(j, away)
	}
	if refused, err := c.spend(j); err != nil {
		return false, err
	} else if refused != "" {
		return false, c.broke(j, refused)
	}
	goesOn := j.turn.GoesOn()
	if !goesOn {
		j.turn.Sent = j.turn.Text
	}
	switch {
	case goesOn:
	case j.launch == nil:
		if err := c.carryWaiting(j); err != nil {
			return false, err
		}
	case j.launch.moved:
		if ok, err := c.beginMoved(j); !ok || err != nil {
			return false, err
		}
	}
	if err := c.hearTurn(*j); err != nil {
		return false, err
	}
	j.agent.NotBefore = time.Time{}
	j.turn.SentAt, j.turn.DoubtSince = c.now, time.Time{} // a person may have settled an earlier doubt
	j.turn.Attempts++
	if err := c.setTurn(&j.turn, bridge.TurnDelivering); err != nil {
		return false, err
	}
	if err := c.setAgent(&j.agent, bridge.AgentBusy); err != nil {
		return false, err
	}
	if err := c.setLaunch(j, bridge.CommandSending); err != nil {
		return false, err
	}
	text := words.Again[goesOn] + j.turn.Sent
	return true, c.event(bridge.EventTurn, j.agent, bridge.Event{Turn: j.turn.ID, Text: words.OneLine(text, 300), Fields: map[string]string{
		"cause": string(j.turn.Cause), "seq": fmt.Sprint(j.turn.Seq), "text": words.Clip(text, words.Shown)}})
}

// join binds all that waits for the agent to this turn and builds its text.
func (c *change) carryWaiting(j *job) error {
	// An earlier try may have carried posts of a thread that the agent was removed from since.
	if err := c.withdrawCarried(j.turn.ID); err != nil {
		return err
	}
	before, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return err
	}
	waiting, err := c.WaitingNotices(j.agent.ID, maxJoined)
	if err != nil {
		return err
	}
	if waiting, err = c.notTold(waiting); err != nil {
		return err
	}
	waiting = fitting(before, waiting)
	ids := make([]bridge.NoticeID, len(waiting))
	for i, n := range waiting {
		ids[i] = n.ID
		j.turn.Depth = max(j.turn.Depth, n.Depth+1)
	}
	if err := c.CarryNotices(ids, j.turn.ID); err != nil {
		return err
	}
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return err
	}
	if j.turn.Cause == bridge.CauseUser {
		j.turn.Depth = 0
	}
	j.turn.Sent = words.Compose(j.turn, carried)
	return c.recall(j)
}

// hollow ends a turn that has nothing left to tell, because runs that the bridge
// found have told it. It reports whether it did.
func (c *change) hollow(j *job) (bool, error) {
	if j.launch != nil && !j.launch.moved || j.turn.Text != "" {
		return false, nil
	}
	waiting, err := c.WaitingNotices(j.agent.ID, maxJoined)
	if err != nil {
		return false, err
	}
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return false, err
	}
	rest, err := c.notTold(append(carried, waiting...))
	if err != nil || len(rest) > 0 {
		return false, err
	}
	j.turn.Trouble = toldEarlier
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return false, err
	}
	if err := c.endWork(j); err != nil {
		return false, err
	}
	return true, c.pump(&j.agent)
}

// recall puts the agent's memory at the head of its turn. What stands in it is
// heard, or a block would launder a command that somebody planted.
func (c *change) recall(j *job) error {
	text, err := c.e.o.Preamble(c.Scene, j.agent.ID)
	if err != nil || text == "" {
		return err
	}
	j.turn.Sent = words.Memory(text) + j.turn.Sent
	return c.hear(*j, echo.Heard{Text: text, Source: bridge.EchoTree, Author: j.agent.Name, Place: "the memory blocks of " + j.agent.Name})
}

// send makes the one call that has the effect, and records what came of it.
func (e *Engine) send(ctx context.Context, j job) error {
	if !e.holds(ctx) {
		return bridge.ErrLeaseLost
	}
	call, cancel := e.callContext(ctx, j)
	defer cancel()
	started, err := e.call(call, j)
	switch {
	case err == nil:
		err = e.started(ctx, j, started)
		if err == nil && j.launch == nil { // a launch may have met an agent that had other turns since
			e.seen.put(j.agent.ID, j.turn.ID)
		}
		return err
	case call.Err() != nil:
		return e.doubt(ctx, j, 0)
	case bridge.IsUnclear(err):
		e.o.Log.Warn().Err(err).Str("turn", string(j.turn.ID)).Msg("answer lost; looking for the effect")
		return e.doubt(ctx, j, e.backoff(j.turn.Attempts, 500*time.Millisecond, time.Minute))
	}
	switch {
	case bridge.Passing(err) && j.doubted.IsZero():
		return e.requeue(ctx, j, err)
	case bridge.Passing(err):
		return e.doubtAsBefore(ctx, j, err)
	}
	if !j.doubted.IsZero() && e.o.Now().Sub(j.doubted) < e.o.Settle(j.agent.Runtime) {
		return e.doubtAsBefore(ctx, j, err)
	}
	return e.step(ctx, j, func(c *change, j *job) error {
		j.fault = string(bridge.KindOf(err))
		return c.failTurn(j, bridge.SafeMessage(err))
	})
}

// step runs fn in a transaction on the turn as it is now. When something else
// moved the turn on since the handler read it (a webhook, a person), the work
// goes back and the next handler sees the new state.
func (e *Engine) step(ctx context.Context, j job, fn func(*change, *job) error, more ...bridge.Need) error {
	_, err := e.stepped(ctx, j, fn, more...)
	return err
}

// stepped is step that says whether fn ran in what was recorded: a step may run
// several times, and what an earlier run set outside of the transaction holds no more.
func (e *Engine) stepped(ctx context.Context, j job, fn func(*change, *job) error, more ...bridge.Need) (ran bool, err error) {
	err = e.update(ctx, func(c *change) error {
		ran = false
		fresh, err := c.e.loadJob(c.Scene, j.work)
		if err != nil {
			return err
		}
		if fresh.turn.State != j.turn.State {
			return c.PutBack(j.work, c.now)
		}
		fresh.launch.keepGrant(j.launch)
		ran = true
		return fn(c, &fresh)
	}, append(hintsOf(j), more...)...)
	return ran && err == nil, err
}

func (e *Engine) call(ctx context.Context, j job) (bridge.Started, error) {
	if j.launch != nil {
		return e.o.Runtime.Launch(ctx, e.launchOf(j))
	}
	return e.o.Runtime.Send(ctx, followUpOf(j))
}

func followUpOf(j job) bridge.FollowUp {
	return bridge.FollowUp{Runtime: j.agent.Runtime, API: j.agent.API, Agent: j.agent.External, Owner: j.agent.ID, LastRun: j.agent.LastRun, Marker: runOf(j).Marker, Text: j.turn.Sent}
}

// started records that the API accepted the turn. A launch whose reported
// repository is not the granted one is cancelled first and recorded as an alarm.
func (e *Engine) started(ctx context.Context, j job, s bridge.Started) error {
	if j.launch != nil && s.Repo != "" && !sameRepo(s.Repo, j.agent.Repo) {
		return e.wrongRepo(ctx, j, s)
	}
	bound := j
	ran, err := e.stepped(ctx, j, func(c *change, j *job) error {
		bound = *j
		if other, err := c.FindAgent(bridge.ByExternal, s.Agent); err == nil && other.ID != j.agent.ID {
			return c.alarm(j, fmt.Sprintf("the API reports agent %s, which is %s already", words.SafeWord(s.Agent), other.Name))
		}
		if err := c.bind(j, s); err != nil {
			return err
		}
		bound = *j
		if j.stopped() != "" {
			return c.PutBack(j.work, c.now) // to be cancelled
		}
		return c.PutBack(j.work, c.now.Add(e.firstLook()))
	}, bridge.NeedAgentBy{By: bridge.ByExternal, Value: s.Agent})
	if ran && bound.turn.State == bridge.TurnRunning {
		e.follow(bound)
	}
	return err
}

// firstLook is how long after its start a run is looked at first.
func (e *Engine) firstLook() time.Duration { return e.backoff(1, e.o.PollMin, e.o.PollMax) }

// bind takes a turn to running under the ids that the API gave.
func (c *change) bind(j *job, s bridge.Started) error {
	if j.launch != nil {
		j.agent.External, j.agent.URL = s.Agent, s.URL
	}
	j.agent.LastRun, j.turn.Run = s.Run, s.Run
	j.turn.Trouble, j.turn.DoubtSince, j.agent.Trouble = "", time.Time{}, ""
	if j.agent.Doing != "" { // its Runtime tells, and will say more at the first look
		j.agent.Doing, j.agent.DoingSince = bridge.DoingWorking, c.now
	}
	if err := c.setTurn(&j.turn, bridge.TurnRunning); err != nil {
		return err
	}
	if err := c.setAgent(&j.agent, bridge.AgentBusy); err != nil {
		return err
	}
	if j.launch == nil {
		return nil
	}
	j.command.Reason = "" // it may have been in doubt
	if err := c.setLaunch(j, bridge.CommandConfirmed); err != nil {
		return err
	}
	return c.event(bridge.EventLaunched, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.command.ID,
		Text:   fmt.Sprintf("launched %s on %s through %s", j.agent.Name, j.agent.Repo, bridge.Through(j.agent.Runtime, j.agent.API)),
		Fields: map[string]string{"repo": j.agent.Repo, "runtime": j.agent.Runtime, "api": bridge.Through(j.agent.Runtime, j.agent.API), "external": j.agent.External, "url": j.agent.URL, "prompt": words.Clip(j.turn.Text, words.Shown)}})
}

// waitFor leaves a turn in the queue while its runtime is away. Nothing is sent, and the first attempt is still to come.
func (c *change) waitFor(j *job, away error) error {
	wait := c.e.agedWait(j.turn.CreatedAt, time.Second, time.Minute)
	if text := bridge.SafeMessage(away); j.turn.Trouble != text || j.agent.Trouble != text {
		j.turn.Trouble, j.agent.Trouble = text, text // so that a person who looks at agents sees why nothing moves
		if err := errors.Join(c.UpdateTurn(j.turn), c.UpdateAgent(j.agent)); err != nil {
			return err
		}
	}
	return c.PutBack(j.work, c.now.Add(wait))
}

// requeue takes a turn back to the queue: it surely had no effect, and may have one later.
func (e *Engine) requeue(ctx context.Context, j job, cause error) error {
	wait := bridge.RetryAfter(cause)
	if wait <= 0 {
		wait = e.backoff(j.turn.Attempts, time.Second, time.Minute)
	}
	e.o.Log.Warn().Err(cause).Str("turn", string(j.turn.ID)).Dur("wait", wait).Msg("turn waits")
	return e.step(ctx, j, func(c *change, j *job) error {
		j.turn.Trouble = bridge.SafeMessage(cause)
		j.agent.Trouble = j.turn.Trouble // so that a person who looks at agents sees why nothing moves
		if err := errors.Join(c.setTurn(&j.turn, bridge.TurnQueued), c.UpdateAgent(j.agent)); err != nil {
			return err
		}
		if err := c.setLaunch(j, bridge.CommandGranted); err != nil {
			return err
		}
		return c.PutBack(j.work, c.now.Add(wait))
	})
}
