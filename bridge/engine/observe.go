package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/bridge/words"
)

// observe looks at the run. The API's own answer is the only authority: a
// webhook or an event in a stream just makes us look sooner.
func (e *Engine) observe(ctx context.Context, j job) error {
	call, cancel := lanes.Repeatable(ctx)
	defer cancel()
	if j.tree.Stopped() {
		e.cancelRun(call, j)
	}
	obs, err := e.watch(call, j)
	switch {
	case err != nil && call.Err() != nil:
		return e.putBack(ctx, j.work, 0)
	case err != nil && bridge.KindOf(err) == bridge.TooLarge:
		// A result is there only when the run is over, so there is nothing to wait for.
		obs.State = bridge.RunFinished
		return e.accept(ctx, j, output{obs: obs, oversize: bridge.SafeMessage(err), evidence: e.inspect(call, j)})
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
	out := output{obs: obs, evidence: e.inspect(call, j)}
	if call.Err() != nil {
		return e.putBack(ctx, j.work, 0)
	}
	return e.accept(ctx, j, out)
}

// watch reads the state of a run. Traces hear of it when the run is over, or when the look fails with new trouble.
func (e *Engine) watch(ctx context.Context, j job) (bridge.Observation, error) {
	look, end := bridge.LookFor(ctx, j.turn.ID)
	obs, err := e.o.Runtime.Observe(look, runOf(j))
	end(obs.State.Terminal() || newTrouble(j, err))
	return obs, err
}

// newTrouble reports whether an error says something else than the turn's last one.
func newTrouble(j job, err error) bool {
	return err != nil && bridge.SafeMessage(err) != j.turn.Trouble
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

// fail ends a turn and lets go of what it carried.
func (c *change) fail(j *job, reason string) error {
	j.turn.Trouble, j.agent.Trouble = reason, reason
	fields, err := c.endWithoutRun(j)
	if err != nil {
		return err
	}
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return err
	}
	if err := c.uncarry(j.turn.ID); err != nil {
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
	next, lost := bridge.AgentFailed, j.agent.External == "" || j.agent.Quarantined
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
