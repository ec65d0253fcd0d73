package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
)

// A person has three words for a turn that ended badly: continue, say again and give up.

// Continue gives a failed or uncertain turn another try, and nothing that its agent has is said a second time. An agent at a relay goes on with the
// failed turn itself, which is queued again: the relay looks whether the agent has the turn. Any other failed turn leads to a new turn with the same
// words and all that waits for the agent. If such a turn waits already, it goes now. An uncertain turn of an agent in the cloud is sent again as it
// is, because a person has looked. Conflict when the turn did not fail. For an agent at a relay also when it has had another turn since, and when
// nobody knows whether it got this one.
func (e *Engine) Continue(ctx context.Context, id bridge.TurnID) (bridge.Turn, error) {
	return e.ContinueFor(ctx, "", bridge.Once{}, id)
}

// ContinueFor is Continue on behalf of an agent. Twice under one key is once, and returns the turn of the first call.
func (e *Engine) ContinueFor(ctx context.Context, by bridge.AgentID, once bridge.Once, id bridge.TurnID) (t bridge.Turn, err error) {
	return e.onTurn(ctx, id, func(c *change) (bridge.Turn, error) {
		made, err := once.Earlier(c.Scene, by)
		switch {
		case err != nil:
			return bridge.Turn{}, err
		case made != "":
			return c.Turn(bridge.TurnID(made))
		}
		t, a, err := c.endedBadly(id)
		if err != nil {
			return t, err
		}
		hosted := e.hosted(a)
		switch {
		case hosted && t.State == bridge.TurnUncertain:
			err = bridge.Errorf(bridge.Conflict, "the bridge does not know whether the agent got turn %s; look at the agent's workspace; if the agent got the turn, run `drawbridge give-up %s`, otherwise run `drawbridge say-again %s`", id, id, id)
		case hosted && t.Run != "" && t.Run == a.LastRun && !moving.Is(a): // the session that has the turn is there
			err = c.goOn(&t, a)
		default:
			t, err = c.sayAgain(t, a)
		}
		if err != nil {
			return t, err
		}
		return t, once.Keep(c.Scene, by, string(t.ID), c.now)
	})
}

// SayAgain says the words of a failed or uncertain turn again, in a new turn with all that waits for the agent, whether the agent has them or not.
func (e *Engine) SayAgain(ctx context.Context, id bridge.TurnID) (bridge.Turn, error) {
	return e.onTurn(ctx, id, func(c *change) (bridge.Turn, error) {
		t, a, err := c.endedBadly(id)
		if err != nil {
			return t, err
		}
		return c.sayAgain(t, a)
	})
}

// GiveUp ends the matter of a failed turn, or of an uncertain one of an agent at a relay: nothing that the turn told is told again. An agent that
// waited for a person's word about it waits no more.
func (e *Engine) GiveUp(ctx context.Context, id bridge.TurnID) (bridge.Turn, error) {
	return e.onTurn(ctx, id, func(c *change) (bridge.Turn, error) {
		j, err := c.e.loadJob(c.Scene, bridge.Work{Ref: string(id)})
		if err != nil {
			return j.turn, err
		}
		switch {
		case j.turn.State == bridge.TurnUncertain && e.hosted(j.agent) && j.launch == nil:
			if err = c.giveUpSaid(&j); err == nil {
				err = c.rests(j.agent.ID)
			}
		case j.turn.State == bridge.TurnUncertain:
			err = bridge.Errorf(bridge.Conflict, "the bridge does not know whether turn %s had its effect; find out, then settle the turn with `drawbridge resolve %s`", id, id)
		case j.turn.State != bridge.TurnFailed:
			err = bridge.Errorf(bridge.Conflict, "turn %s is %s; give-up takes only a failed or uncertain turn", id, j.turn.State)
		case strings.HasPrefix(j.turn.Trouble, givenUp) || j.turn.Trouble == gotIt:
			err = bridge.Errorf(bridge.Conflict, "turn %s was settled with give-up already", id)
		default:
			err = c.forgo(&j)
		}
		if err != nil {
			return j.turn, err
		}
		return c.Turn(id)
	})
}

// hosted reports whether an agent lives at a relay, which knows what the agent has of a turn.
func (e *Engine) hosted(a bridge.Agent) bool {
	_, _, is := e.hosts(a.Runtime)
	return is && !bridge.InCloud(a.Runtime)
}

// onTurn changes a turn in a transaction, and returns it or the one in its place.
func (e *Engine) onTurn(ctx context.Context, id bridge.TurnID, fn func(*change) (bridge.Turn, error)) (t bridge.Turn, err error) {
	err = e.update(ctx, func(c *change) error {
		t, err = fn(c)
		return err
	}, bridge.NeedStory{Turn: id})
	return t, notFound(err, "turn", string(id))
}

// endedBadly returns a turn that can have another try, and its agent.
func (c *change) endedBadly(id bridge.TurnID) (bridge.Turn, bridge.Agent, error) {
	t, err := c.Turn(id)
	if err != nil {
		return t, bridge.Agent{}, err
	}
	a, err := c.Agent(t.Agent)
	if err == nil {
		err = errors.Join(notForgotten(a), c.notStopped(a.Root))
	}
	switch {
	case err != nil:
	case a.External == "" && !moving.Is(a):
		err = bridge.Errorf(bridge.Conflict, "turn %s launched no agent that can get a turn; launch another agent, or resolve the turn's command", id)
	case a.Quarantined:
		err = bridge.Errorf(bridge.Conflict, "agent %s gets no turns: %s", a.Name, a.Trouble)
	case t.State == bridge.TurnUncertain && t.Run != "":
		err = bridge.Errorf(bridge.Conflict, "turn %s records a run that the database did not know. If that run told the agent what waits for it, run `drawbridge resolve %s --told`. Otherwise use `--tell` in place of `--told`", id, id)
	case t.State != bridge.TurnUncertain && t.State != bridge.TurnFailed:
		err = bridge.Errorf(bridge.Conflict, "turn %s is %s; only a failed or uncertain turn can have another try", id, t.State)
	}
	return t, a, err
}

// goOn queues a failed turn of an agent at a relay again, with the marker and the text that it had. The relay finds out whether the agent has it.
func (c *change) goOn(t *bridge.Turn, a bridge.Agent) error {
	if last, err := c.isLast(*t); err != nil || !last {
		return errors.Join(err, bridge.Errorf(bridge.Conflict, "agent %s got another turn after turn %s; to send the same text again anyway, run `drawbridge say-again %s`", a.Name, t.ID, t.ID))
	}
	if err := c.carryAgain(*t); err != nil {
		return err
	}
	t.Status, t.Trouble, t.Stopped, t.EndedAt, t.DoubtSince = or(t.Status, bridge.RunError), "", false, time.Time{}, time.Time{}
	if err := c.setTurn(t, bridge.TurnQueued); err != nil {
		return err
	}
	a.Trouble = ""
	if err := c.setAgent(&a, bridge.AgentBusy); err != nil {
		return err
	}
	return c.enqueueTurn(a, t.ID, c.now)
}

// isLast reports whether an agent has had no other turn since.
func (c *change) isLast(t bridge.Turn) (bool, error) {
	last, err := c.Turns(bridge.TurnFilter{Agent: t.Agent, Limit: 1})
	return len(last) == 0 || last[0].ID == t.ID, err
}

// carryAgain lets a failed turn carry what it told, as far as that waits still.
func (c *change) carryAgain(t bridge.Turn) error {
	told := words.ReadPrompt(t.Marker() + "\n" + t.Sent).Items
	waiting, err := c.WaitingNotices(t.Agent, maxToldLooked)
	if err != nil {
		return err
	}
	var ids []bridge.NoticeID
	for _, n := range waiting {
		if n.Item != "" && slices.Contains(told, n.Item) {
			ids = append(ids, n.ID)
		}
	}
	return c.CarryNotices(ids, t.ID)
}

// forgo tells an agent no more what its failed turn told.
func (c *change) forgo(j *job) error {
	if err := notForgotten(j.agent); err != nil {
		return err
	}
	if last, err := c.isLast(j.turn); err != nil || !last {
		return errors.Join(err, bridge.Errorf(bridge.Conflict, "agent %s got another turn after turn %s, and the later turn delivered everything that waited; give-up has nothing left to settle", j.agent.Name, j.turn.ID))
	}
	if err := c.carryAgain(j.turn); err != nil {
		return err
	}
	if err := c.delivered(j); err != nil {
		return err
	}
	j.turn.Trouble = givenUp + j.turn.Trouble
	if err := c.UpdateTurn(j.turn); err != nil {
		return err
	}
	return c.rests(j.agent.ID)
}

// givenUp begins the trouble of a turn that a person gave up, and gotIt is that of one of which a person says that its agent got it.
const (
	givenUp = "a person gave it up: "
	gotIt   = "a person says that the agent got it; its answer is lost"
)

// rests lets an agent go whose turn a person gave up: it waits for nobody's word any more.
func (c *change) rests(id bridge.AgentID) error {
	a, err := c.Agent(id)
	if err != nil || a.State != bridge.AgentFailed || a.Quarantined || a.External == "" {
		return err
	}
	a.Trouble = ""
	if err := c.UpdateAgent(a); err != nil {
		return err
	}
	if err := c.settle(&a); err != nil {
		return err
	}
	return c.pump(&a)
}

// sayAgain gives the words of a turn to a new one.
func (c *change) sayAgain(t bridge.Turn, a bridge.Agent) (bridge.Turn, error) {
	switch {
	case t.State == bridge.TurnUncertain && a.External != "" && !bridge.InCloud(a.Runtime):
		if err := c.sayInNewTurn(&t, a); err != nil {
			return t, err
		}
	case t.State == bridge.TurnUncertain:
		t.Stopped, t.DoubtSince = false, time.Time{} // the new attempt gets the whole settle time
		if err := c.setTurn(&t, bridge.TurnQueued); err != nil {
			return t, err
		}
		return t, c.WakeLane(agentLane(a.ID), c.now)
	}
	waiting, err := c.WaitingNotices(a.ID, maxJoined)
	if err != nil {
		return t, err
	}
	if t.Text == "" && len(waiting) == 0 {
		return t, bridge.Errorf(bridge.Conflict, "turn %s has nothing left to send: another turn delivered its content", t.ID)
	}
	if same, err := c.SaidAgain(t); err != nil {
		return t, err
	} else if same.ID != "" {
		return same, c.WakeLane(agentLane(a.ID), c.now)
	}
	if t.Trouble == saidAgain { // the old turn's work stands first in the lane
		if err := c.WakeLane(agentLane(a.ID), c.now); err != nil {
			return t, err
		}
	}
	again := bridge.Turn{ID: bridge.TurnID(c.NewID("trn_")), Cause: causeAgain(t, waiting), Text: t.Text, Said: t.Said, Depth: t.Depth}
	if err := c.addTurn(&a, again); err != nil {
		return t, err
	}
	return c.Turn(again.ID)
}

// causeAgain returns why a failed turn is said again. A turn without words of its own tells what waits for its agent now,
// which may be something else than what it carried when it failed.
func causeAgain(failed bridge.Turn, waiting []bridge.Notice) bridge.Cause {
	if cause, _, _ := bridge.Urgency(waiting); failed.Text == "" && cause != "" {
		return cause
	}
	return failed.Cause
}
