package engine

import (
	"context"
	"time"

	"drawbridge/bridge"
)

// takeUsage counts what an agent used when a run of it has ended. An API tells what the agent used since its launch; a machine tells what the run took.
// A run that never reached the agent took nothing. names are the agent's and its ancestors'.
func takeUsage(c *change, a *bridge.Agent, names []string, out output) error {
	switch {
	case out.obs.Unsaid():
		return nil
	case out.obs.Cause == "":
		var told *bridge.Usage
		if out.evidence != nil {
			told = out.evidence.Usage
		}
		return setUsage(c, a, names, told)
	}
	spent := bridge.Spent{}
	if told := out.spent(); told != nil {
		spent = *told
	}
	was, bound := *a, c.policy().Budget(names)
	noTokens, noCost := spent.Tokens == nil, spent.CostMicros == nil
	a.Unmetered = noTokens && noCost || noTokens && bound.Tokens > 0 || noCost && bound.CostUSD > 0
	addSpent(a, &spent)
	return c.putUsage(was, a)
}

// addSpent adds what is known of a run to what its agent used.
func addSpent(a *bridge.Agent, s *bridge.Spent) {
	if s != nil && s.Tokens != nil {
		a.Tokens += s.Tokens.All()
	}
	if s != nil && s.CostMicros != nil {
		a.CostMicros += *s.CostMicros
	}
}

// setUsage takes over what an agent has used since its launch, nil when it is unknown. Where a budget needs a number
// that is unknown, the agent counts as unmetered, and the tree may do no more
// (fail closed).
func setUsage(c *change, a *bridge.Agent, names []string, told *bridge.Usage) error {
	if told != nil && !told.CostKnown && c.policy().Budget(names).CostUSD > 0 {
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
	return c.putUsage(was, a)
}

// putUsage records what an agent and its tree used, if that changed.
func (c *change) putUsage(was bridge.Agent, a *bridge.Agent) error {
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

// maxUsageAsked bounds how many agents are asked about at one look.
const maxUsageAsked = 10

// askUnknownUsage asks again what agents of a tree used when the API did not tell
// when their runs ended: a cost may lag behind (facts: 4.5), and a tree that is
// gated for it has no run whose end would ask.
func (e *Engine) askUnknownUsage(ctx context.Context, root bridge.AgentID) error {
	if e.inspector == nil {
		return nil
	}
	var ask []bridge.Agent
	err := e.View(ctx, func(tx *bridge.Scene) (err error) {
		ask, err = tx.UnmeteredAgents(root, maxUsageAsked)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range ask {
		found, err := e.inspector.Inspect(ctx, refOf(a))
		if err != nil || found.Usage == nil {
			continue // it stays unknown
		}
		if err := e.update(ctx, func(c *change) error { return retakeUsage(c, a.ID, found.Usage) }); err != nil {
			return err
		}
	}
	return nil
}

func refOf(a bridge.Agent) bridge.RunRef {
	return bridge.RunRef{Runtime: a.Runtime, API: a.API, Agent: a.External, Run: a.LastRun}
}

// retake is Take for an agent as it is now, of a number that the API tells. A missing one
// changes nothing: it was there when the run ended, or the agent counts as
// unmetered already.
func retakeUsage(c *change, id bridge.AgentID, told *bridge.Usage) error {
	a, err := c.Agent(id)
	if err != nil {
		return err
	}
	names, err := c.Lineage(a)
	if err != nil || (!told.CostKnown && c.policy().Budget(names).CostUSD > 0) {
		return err
	}
	return setUsage(c, &a, names, told)
}

// usageWaits are the waits before each further look at what an agent used, after the
// end of a run. Nobody says how far the API lags behind; three looks within half
// an hour are what a bound is worth to us.
var usageWaits = [...]time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute}

// usageLater plans to look again after the end of a turn's run, if the tree's budget
// has a bound that the numbers are held against. The v0 API never tells any.
func (e *Engine) usageLater(c *change, a bridge.Agent, names []string, t bridge.Turn) error {
	if e.inspector == nil || a.API != bridge.APIv1 || !usageBounded(c, names) {
		return nil
	}
	return c.Enqueue(bridge.Work{Lane: "usage/" + string(t.ID), Kind: bridge.WorkUsage, Ref: string(t.ID), Due: c.now.Add(usageWaits[0]), Share: bridge.TreeShare(bridge.WorkUsage, a.Root)})
}

func usageBounded(c *change, names []string) bool {
	b := c.policy().Budget(names)
	return b.Tokens > 0 || b.CostUSD > 0
}

// usageWork is the handler of what Later planned. An answer that is usageWaits, or lost, is
// waited for until the looks are used up: what is missing then comes with the
// next run's end.
func (e *Engine) usageWork(ctx context.Context, w bridge.Work) error {
	var a bridge.Agent
	wanted := false
	err := e.update(ctx, func(c *change) (err error) {
		if a, wanted, err = wantsUsage(c, w); err != nil || wanted {
			return err
		}
		return c.FinishWork(w)
	})
	if err != nil || !wanted {
		return err
	}
	found, asked := bridge.Evidence{}, error(nil)
	if e.inspector != nil {
		found, asked = e.inspector.Inspect(bridge.CallsFor(ctx, bridge.TurnID(w.Ref)), refOf(a))
	}
	return e.update(ctx, func(c *change) error {
		if ctx.Err() != nil {
			return c.PutBack(w, c.now) // the bridge stops
		}
		if asked == nil && found.Usage != nil {
			if err := retakeUsage(c, a.ID, found.Usage); err != nil {
				return err
			}
		}
		if next := w.Tries + 1; next < len(usageWaits) {
			return c.PutOff(w, c.now.Add(usageWaits[next]))
		}
		return c.FinishWork(w)
	})
}

// wants reports whether a look is still worth it: not when the bounds are gone,
// nor when a later run has ended, whose own looks read the same number.
func wantsUsage(c *change, w bridge.Work) (a bridge.Agent, wanted bool, err error) {
	t, err := c.Turn(bridge.TurnID(w.Ref))
	if err != nil {
		return a, false, err
	}
	if a, err = c.Agent(t.Agent); err != nil {
		return a, false, err
	}
	names, err := c.Lineage(a)
	if err != nil || !usageBounded(c, names) {
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
