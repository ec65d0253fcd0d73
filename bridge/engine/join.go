package engine

import (
	"context"
	"time"

	"drawbridge/bridge"
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
		f, err := c.FamilyOf(t.ID)
		if err != nil {
			return err
		}
		return c.releaseResults(t, f, "the deadline has passed")
	})
}
