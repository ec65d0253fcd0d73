package engine

import (
	"context"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/kin"
	"drawbridge/bridge/words"
)

// SetJoin says how the results of the subagents that one turn launches come
// back to an agent. It holds for turns that end from now on. A within of 0 is
// bridge.DefaultJoinWithin.
func (e *Engine) SetJoin(ctx context.Context, id bridge.AgentID, join bridge.Join, within time.Duration) (bridge.Agent, error) {
	within, err := join.Within(within)
	if err != nil {
		return bridge.Agent{}, err
	}
	var a bridge.Agent
	err = e.update(ctx, func(c *change) (err error) {
		if a, err = c.Agent(id); err != nil {
			return err
		}
		a.Join, a.JoinWithin, a.UpdatedAt = join, within, c.now
		return c.UpdateAgent(a)
	})
	return a, notFound(err, "agent", string(id))
}

// beginJoin makes a turn that launched several subagents wait for them, if its
// agent's policy says so. A held launch counts: a person may let it pass.
func (c *change) beginJoin(j *job) error {
	need, _ := j.agent.Join.Need()
	if need == 0 {
		return nil
	}
	f, err := kin.FamilyOf(c.Tx, j.turn.ID)
	if err != nil || len(f.Launched)+f.Held < 2 {
		return err
	}
	j.turn.Joining = need
	if err := c.UpdateTurn(j.turn); err != nil {
		return err
	}
	return c.Enqueue(bridge.Work{Lane: "join/" + string(j.turn.ID), Kind: bridge.WorkJoin, Ref: string(j.turn.ID), Due: c.now.Add(j.agent.JoinWithin)})
}

// gather tells the agent of joined results once enough subagents have ended.
func (c *change) gather(t bridge.Turn) error {
	f, err := kin.FamilyOf(c.Tx, t.ID)
	if err != nil {
		return err
	}
	ended := len(f.Launched) - len(f.Open)
	if len(f.Open) > 0 && (t.Joining < 0 || ended < t.Joining) {
		return nil
	}
	return c.release(t, f, "")
}

// release lets go of what is there and says what is missing. What ends later
// comes by itself.
func (c *change) release(t bridge.Turn, f kin.Family, why string) error {
	t.Joining = 0
	if err := c.UpdateTurn(t); err != nil {
		return err
	}
	if _, err := c.ReleaseNotices(t.ID); err != nil || len(f.Launched) == 0 {
		return err // of nothing but held launches there is no news
	}
	a, err := c.Agent(t.Agent)
	if err != nil {
		return err
	}
	text := words.Joined(words.Results{Seq: t.Seq, Launched: len(f.Launched), Open: f.Open, Held: f.Held, Why: why})
	if err := c.event(bridge.EventJoined, a, bridge.Event{Turn: t.ID, Text: strings.SplitN(text, "\n", 2)[0]}); err != nil {
		return err
	}
	return c.notify(bridge.Notice{Agent: a.ID, Cause: bridge.CauseCompletion, Depth: t.Depth, Text: text})
}

// joinWork ends the wait for joined results at its deadline.
func (e *Engine) joinWork(ctx context.Context, w bridge.Work) error {
	return e.update(ctx, func(c *change) error {
		if err := c.FinishWork(w); err != nil {
			return err
		}
		t, err := c.Turn(bridge.TurnID(w.Ref))
		if err != nil || t.Joining == 0 {
			return err
		}
		f, err := kin.FamilyOf(c.Tx, t.ID)
		if err != nil {
			return err
		}
		return c.release(t, f, "the deadline has passed")
	})
}
