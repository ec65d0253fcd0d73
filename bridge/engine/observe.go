package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// observe looks at the run. The API's own answer is the only authority: a
// webhook or an event in a stream just makes us look sooner.
func (e *Engine) observe(ctx context.Context, j job) error {
	if j.tree.Stopped() {
		e.cancelRun(ctx, j)
	}
	obs, err := e.o.Runtime.Observe(ctx, runOf(j))
	switch {
	case err != nil && bridge.KindOf(err) == bridge.TooLarge:
		// A result is there only when the run is over, so there is nothing to wait for.
		obs.State = bridge.RunFinished
		return e.accept(ctx, j, output{obs: obs, oversize: bridge.SafeMessage(err)})
	case err != nil && bridge.KindOf(err) == bridge.NotFound:
		return e.accept(ctx, j, output{gone: true, obs: bridge.Observation{State: bridge.RunError, Detail: "the API does not know this agent any more"}})
	case err != nil:
		return e.lookAgain(ctx, j, err)
	case obs.Repo != "" && !sameRepo(obs.Repo, j.agent.Repo):
		return e.wrongRepoLater(ctx, j, obs)
	case !obs.State.Terminal():
		e.follow(j)
		return e.putBack(ctx, j.work, e.nextLook(j))
	}
	out := output{obs: obs, evidence: e.inspect(ctx, j)}
	if ctx.Err() != nil {
		return e.putBack(ctx, j.work, 0)
	}
	return e.accept(ctx, j, out)
}

// inspect asks what else the API knows of an agent whose run is over. What it
// cannot tell now is said to be unchecked: a completion never waits for it.
func (e *Engine) inspect(ctx context.Context, j job) *bridge.Evidence {
	i, ok := e.o.Runtime.(bridge.Inspector)
	if !ok {
		return nil
	}
	found, err := i.Inspect(ctx, runOf(j))
	if err != nil {
		return &bridge.Evidence{Unread: "artifacts and usage: " + bridge.SafeMessage(err)}
	}
	return &found
}

func runOf(j job) bridge.RunRef {
	r := bridge.RunRef{API: j.agent.API, Agent: j.agent.External, Run: j.turn.Run}
	if j.turn.Seq > 1 {
		r.Marker = j.turn.Marker()
	}
	return r
}

// nextLook grows from PollMin to PollMax with the age of the run.
func (e *Engine) nextLook(j job) time.Duration {
	return e.agedWait(j.turn.SentAt, e.o.PollMin, e.o.PollMax)
}

// lookAgain records why a look failed, when that is news, and tries later.
func (e *Engine) lookAgain(ctx context.Context, j job, cause error) error {
	if ctx.Err() != nil {
		return e.putBack(ctx, j.work, 0)
	}
	e.o.Log.Warn().Err(cause).Str("turn", string(j.turn.ID)).Msg("look at run")
	wait := max(bridge.RetryAfter(cause), e.nextLook(j))
	return e.step(ctx, j, func(c *change, j *job) error {
		if text := bridge.SafeMessage(cause); text != j.turn.Trouble {
			j.turn.Trouble = text
			if err := c.UpdateTurn(j.turn); err != nil {
				return err
			}
		}
		return c.PutBack(j.work, c.now.Add(wait))
	})
}

// wrongRepoLater handles a repository that turns out to be another one only
// after the launch was confirmed (a rename or transfer that redirects).
func (e *Engine) wrongRepoLater(ctx context.Context, j job, obs bridge.Observation) error {
	return e.wrongRepo(ctx, j, bridge.Started{Agent: j.agent.External, Run: j.turn.Run, Repo: obs.Repo, URL: j.agent.URL})
}

// failTurn ends a turn that will have no reply: nothing of it runs, whoever
// waits for it is told, and what it carried waits for another turn.
func (c *change) failTurn(j *job, reason string) error {
	// A launch never gets further than its first turn without an external agent.
	launch := j.turn.Seq == 1
	c.e.streams.Ended(j.turn.ID)
	j.turn.Trouble, j.agent.Trouble = reason, reason
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return err
	}
	if err := c.uncarry(j.turn.ID); err != nil {
		return err
	}
	if err := c.setAgent(&j.agent, bridge.AgentFailed); err != nil {
		return err
	}
	if err := c.event(bridge.EventTurnFailed, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.command.ID, Text: reason}); err != nil {
		return err
	}
	if launch && j.command.ID != "" {
		if err := c.failCommand(&j.command, reason); err != nil {
			return err
		}
	}
	if err := c.tellParent(*j, bridge.Notice{Cause: bridge.CauseCompletion, Text: words.Failure(j.agent, j.command, launch, reason), Commands: commandIDs(launch, j.command)}); err != nil {
		return err
	}
	if err := c.FinishWork(j.work); err != nil {
		return err
	}
	return c.failQueued(j)
}

// failQueued ends what waits behind a turn that leaves the agent unable to get
// any: one that was never launched, or that runs where it must not.
func (c *change) failQueued(j *job) error {
	if j.agent.External != "" && !j.agent.Quarantined {
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
		if err := c.setTurn(&t, bridge.TurnFailed); err != nil { // its work finds it over
			return err
		}
		if err := c.event(bridge.EventTurnFailed, j.agent, bridge.Event{Turn: t.ID, Text: t.Trouble}); err != nil {
			return err
		}
	}
}

func commandIDs(first bool, m bridge.Command) []bridge.CommandID {
	if !first || m.ID == "" {
		return nil
	}
	return []bridge.CommandID{m.ID}
}

// failCommand ends a command in words, from whatever open state it is in.
func (c *change) failCommand(m *bridge.Command, reason string) error {
	m.Reason = reason
	next := bridge.CommandFailed
	if !m.State.CanBecome(next) {
		next = bridge.CommandRefused
	}
	return c.setCommand(m, next)
}

// uncarry lets the notices of a turn that did not run wait again.
func (c *change) uncarry(turn bridge.TurnID) error {
	carried, err := c.CarriedNotices(turn)
	if err != nil {
		return err
	}
	ids := make([]bridge.NoticeID, len(carried))
	for i, n := range carried {
		ids[i] = n.ID
	}
	return c.CarryNotices(ids, "")
}

// tellParent leaves a notice for the agent whose command made this one. The
// chain depth is that of the turn that asked.
func (c *change) tellParent(j job, n bridge.Notice) error {
	if j.agent.Parent == "" {
		return nil
	}
	asked, err := c.Turn(j.command.Turn)
	if err != nil {
		return fmt.Errorf("load the asking turn: %w", err)
	}
	n.Agent, n.Depth = j.agent.Parent, asked.Depth
	if asked.Joining == 0 || len(n.Commands) == 0 {
		return c.notify(n)
	}
	n.Join, n.Held = asked.ID, true
	if err := c.keep(n); err != nil {
		return err
	}
	return c.gather(asked)
}

// notify records a notice, remembers the commands that stand in its untrusted
// text, and gives the agent a turn when it is free.
func (c *change) notify(n bridge.Notice) error {
	if err := c.keep(n); err != nil {
		return err
	}
	if _, err := c.OpenTurn(n.Agent); !errors.Is(err, bridge.ErrNoRow) {
		return err // the turn that is open is joined, or followed by one that tells it
	}
	a, err := c.Agent(n.Agent)
	if err != nil {
		return err
	}
	return c.pump(&a)
}

// keep records a notice and remembers the commands that stand in its untrusted text.
func (c *change) keep(n bridge.Notice) error {
	n.ID, n.CreatedAt = or(n.ID, bridge.NoticeID(c.e.o.NewID("ntc_"))), c.now
	if err := c.InsertNotice(n); err != nil {
		return err
	}
	return c.AddEchoes(n.Agent, words.EchoKeys(n.Untrusted), c.now)
}

// pump gives a free agent a turn when something waits for it that is worth
// one, and sets its state to what it is doing now.
func (c *change) pump(a *bridge.Agent) error {
	if _, err := c.OpenTurn(a.ID); err == nil {
		return nil // it is joined when that turn ends
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	if a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return nil // a person speaks first; the notices keep
	}
	if tree, err := c.Tree(a.Root); err != nil || tree.Stopped() {
		return errors.Join(err, c.shut(a, stoppedText(tree)))
	}
	waiting, err := c.WaitingNotices(a.ID, maxJoined)
	if err != nil {
		return err
	}
	cause, depth, streak := urgency(waiting)
	switch {
	case cause == "":
		return c.settle(a)
	case depth >= c.e.o.Policy().Limits().TurnsPerChain:
		return c.gate(a, depth)
	}
	return c.addTurn(a, bridge.Turn{Cause: cause, Depth: depth, Streak: streak})
}

// urgency says what turn the waiting notices call for: none when all are quiet.
func urgency(waiting []bridge.Notice) (cause bridge.Cause, depth, streak int) {
	for _, n := range waiting {
		depth = max(depth, n.Depth+1)
		if !n.Quiet && (cause == "" || cause == bridge.CauseReport) {
			cause = n.Cause
		}
		streak = max(streak, n.Streak)
	}
	if cause != bridge.CauseReport {
		streak = 0
	}
	return cause, depth, streak
}

// gate stops a chain that goes on without a person.
func (c *change) gate(a *bridge.Agent, depth int) error {
	a.Trouble = fmt.Sprintf("gated: %d turns in a row without a person; say something to it to go on", depth)
	if err := c.setAgent(a, bridge.AgentGated); err != nil {
		return err
	}
	return c.event(bridge.EventGated, *a, bridge.Event{Text: a.Trouble})
}

// settle sets the state of an agent without an open turn.
func (c *change) settle(a *bridge.Agent) error {
	open, err := c.CountOpenCommands(a.ID, "")
	if err != nil {
		return err
	}
	next := bridge.AgentIdle
	switch {
	case open > 0:
		next = bridge.AgentWaiting
	case a.Parent != "":
		next = bridge.AgentDone
	}
	if a.State == next || !a.State.CanBecome(next) {
		return nil
	}
	return c.setAgent(a, next)
}

// addTurn queues a turn and the work that will deliver it.
func (c *change) addTurn(a *bridge.Agent, t bridge.Turn) error {
	return c.addTurnAt(a, t, c.now)
}

func (c *change) addTurnAt(a *bridge.Agent, t bridge.Turn, due time.Time) error {
	t.ID, t.Agent, t.State, t.CreatedAt = or(t.ID, bridge.TurnID(c.e.o.NewID("trn_"))), a.ID, bridge.TurnQueued, c.now
	if _, err := c.InsertTurn(t); err != nil {
		return err
	}
	if err := c.Enqueue(bridge.Work{Lane: agentLane(a.ID), Kind: bridge.WorkTurn, Ref: string(t.ID), Due: due}); err != nil {
		return err
	}
	return c.setAgent(a, bridge.AgentBusy)
}
