// Package meter keeps what agents have used, as the API tells it, and asks again
// for what it told too little of or may tell late. It decides nothing on it:
// what a tree may still do is the policy's business. Rule of thumb: where no
// bound needs a number, nobody is asked for it twice.
package meter

import (
	"context"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/desk"
	"drawbridge/bridge/kin"
)

// Meter asks a Runtime what agents have used. Its methods are safe for concurrent use.
type Meter struct {
	// Inspector is nil when nobody can be asked.
	Inspector bridge.Inspector
	View      func(context.Context, func(*bridge.Scene) error) error
	Update    func(context.Context, func(*desk.Change) error) error
}

// Take takes over what the API says that an agent has used, nil when it does not
// tell. names are the agent's and its ancestors'. Where a budget needs a number
// that nobody tells, the agent counts as unmetered, and the tree may do no more
// (fail closed).
func Take(c *desk.Change, a *bridge.Agent, names []string, told *bridge.Usage) error {
	if told != nil && !told.CostKnown && c.Policy().Budget(names).CostUSD > 0 {
		told = nil
	}
	was := *a
	a.Unmetered = told == nil
	if told != nil {
		a.Tokens = told.Tokens
		if told.CostKnown { // what was told before stays, when it lags behind now
			a.CostMicros = told.CostMicros
		}
	}
	if was.Tokens == a.Tokens && was.CostMicros == a.CostMicros && was.Unmetered == a.Unmetered {
		return nil
	}
	if err := c.UpdateAgent(*a); err != nil {
		return err
	}
	tree, err := c.Tree(a.Root)
	if err != nil {
		return err
	}
	tree.Tokens += a.Tokens - was.Tokens
	tree.CostMicros += a.CostMicros - was.CostMicros
	tree.Unmetered += one(a.Unmetered) - one(was.Unmetered)
	return c.PutTree(tree)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxAsked bounds how many agents are asked about at one look.
const maxAsked = 10

// Unknown asks again what agents of a tree used of which the API did not tell
// when their runs ended: a cost may lag behind (facts: 4.5), and a tree that is
// gated for it has no run whose end would ask.
func (m Meter) Unknown(ctx context.Context, root bridge.AgentID) error {
	if m.Inspector == nil {
		return nil
	}
	var ask []bridge.Agent
	err := m.View(ctx, func(tx *bridge.Scene) (err error) {
		ask, err = kin.Unmetered(tx, root, maxAsked)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range ask {
		found, err := m.Inspector.Inspect(ctx, refOf(a))
		if err != nil || found.Usage == nil {
			continue // it stays unknown
		}
		if err := m.Update(ctx, func(c *desk.Change) error { return retake(c, a.ID, found.Usage) }); err != nil {
			return err
		}
	}
	return nil
}

func refOf(a bridge.Agent) bridge.RunRef {
	return bridge.RunRef{API: a.API, Agent: a.External, Run: a.LastRun}
}

// retake is Take for an agent as it is now, of a number that is told. That one is
// missing is no news: it was there when the run ended, or the agent counts as
// unmetered already.
func retake(c *desk.Change, id bridge.AgentID, told *bridge.Usage) error {
	a, err := c.Agent(id)
	if err != nil {
		return err
	}
	names, err := kin.Lineage(c.Scene, a)
	if err != nil || (!told.CostKnown && c.Policy().Budget(names).CostUSD > 0) {
		return err
	}
	return Take(c, &a, names, told)
}

// late are the waits before each further look at what an agent used, after the
// end of a run. Nobody says how far the API lags behind; three looks within half
// an hour are what a bound is worth to us.
var late = [...]time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute}

// Later plans to look again after the end of a turn's run, if the tree's budget
// has a bound that the numbers are held against. The v0 API never tells any.
func (m Meter) Later(c *desk.Change, a bridge.Agent, names []string, t bridge.Turn) error {
	if m.Inspector == nil || a.API != bridge.APIv1 || !bounded(c, names) {
		return nil
	}
	return c.Enqueue(bridge.Work{Lane: "usage/" + string(t.ID), Kind: bridge.WorkUsage, Ref: string(t.ID), Due: c.At.Add(late[0]), Share: bridge.TreeShare(bridge.WorkUsage, a.Root)})
}

func bounded(c *desk.Change, names []string) bool {
	b := c.Policy().Budget(names)
	return b.Tokens > 0 || b.CostUSD > 0
}

// Look is the handler of what Later planned. An answer that is late, or lost, is
// waited for until the looks are used up: what is missing then comes with the
// next run's end.
func (m Meter) Look(ctx context.Context, w bridge.Work) error {
	var a bridge.Agent
	wanted := false
	err := m.Update(ctx, func(c *desk.Change) (err error) {
		if a, wanted, err = wants(c, w); err != nil || wanted {
			return err
		}
		return c.FinishWork(w)
	})
	if err != nil || !wanted {
		return err
	}
	found, asked := bridge.Evidence{}, error(nil)
	if m.Inspector != nil {
		found, asked = m.Inspector.Inspect(bridge.CallsFor(ctx, bridge.TurnID(w.Ref)), refOf(a))
	}
	return m.Update(ctx, func(c *desk.Change) error {
		if ctx.Err() != nil {
			return c.PutBack(w, c.At) // the bridge stops
		}
		if asked == nil && found.Usage != nil {
			if err := retake(c, a.ID, found.Usage); err != nil {
				return err
			}
		}
		if next := w.Tries + 1; next < len(late) {
			return c.PutOff(w, c.At.Add(late[next]))
		}
		return c.FinishWork(w)
	})
}

// wants reports whether a look is still worth it: not when the bounds are gone,
// nor when a later run has ended, whose own looks read the same number.
func wants(c *desk.Change, w bridge.Work) (a bridge.Agent, wanted bool, err error) {
	t, err := c.Turn(bridge.TurnID(w.Ref))
	if err != nil {
		return a, false, err
	}
	if a, err = c.Agent(t.Agent); err != nil {
		return a, false, err
	}
	names, err := kin.Lineage(c.Scene, a)
	if err != nil || !bounded(c, names) {
		return a, false, err
	}
	turns, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Limit: 10})
	for _, later := range turns {
		if later.Seq > t.Seq && later.Status != "" {
			return a, false, err
		}
	}
	return a, true, err
}
