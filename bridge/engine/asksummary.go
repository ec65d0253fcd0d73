package engine

import (
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// summarize answers a WEBHOOK_RESULT that an agent wrote: the agent's next turn
// tells what the bridge recorded of that subagent. The line proves nothing and
// starts nothing. A turn that asks for one subagent several times hears of it once.
func (c *change) summarize(by *asker, m bridge.Command) error {
	child, err := c.subagentOf(by.Agent, m.Parsed.AgentID)
	if err != nil || by.summed[child.ID] {
		return err
	}
	if by.summed == nil {
		by.summed = map[bridge.AgentID]bool{}
	}
	by.summed[child.ID] = true
	n := bridge.Notice{Text: words.NoSubagent(m.Parsed.Line)}
	if child.ID != "" {
		if n, err = c.summary(child, m.Parsed.Line); err != nil {
			return err
		}
	}
	return c.report(by, "summary "+string(child.ID), n)
}

// subagentOf finds a subagent of an agent by its id, its API's id or its name. It
// returns the zero agent for every other one, so that the answer tells nothing of
// other trees.
func (c *change) subagentOf(parent bridge.Agent, id string) (bridge.Agent, error) {
	for _, find := range []func() (bridge.Agent, error){
		func() (bridge.Agent, error) { return c.Agent(bridge.AgentID(id)) },
		func() (bridge.Agent, error) { return c.FindAgent(bridge.ByExternal, id) },
		func() (bridge.Agent, error) { return bridge.FindInTree(c.Scene, parent.Root, id) },
	} {
		a, err := find()
		switch {
		case err == nil && a.Parent == parent.ID:
			return a, nil
		case err != nil && !errors.Is(err, bridge.ErrNoRow) && bridge.KindOf(err) != bridge.NotFound && bridge.KindOf(err) != bridge.Conflict:
			return bridge.Agent{}, fmt.Errorf("find subagent %q: %w", id, err)
		}
	}
	return bridge.Agent{}, nil
}
