package engine

import (
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// errand is an action or reminder command with what its handler needs.
type errand struct {
	work    bridge.Work
	command bridge.Command
	agent   bridge.Agent
	names   []string
	grant   policy.Grant
	// wait is how long an action waits for a relay that is away.
	wait time.Duration
	// doubt says that an earlier request may have reached the relay.
	doubt bool
}

func loadErrand(tx *bridge.Scene, w bridge.Work) (r errand, err error) {
	r.work = w
	if r.command, err = tx.Command(bridge.CommandID(w.Ref)); err != nil {
		return r, fmt.Errorf("load command %q: %w", w.Ref, err)
	}
	if r.agent, err = tx.Agent(r.command.Agent); err != nil {
		return r, fmt.Errorf("load agent %q: %w", r.command.Agent, err)
	}
	r.names, err = tx.Lineage(r.agent)
	return r, err
}

// errandLane is where an action or a reminder waits for its turn.
func errandLane(m bridge.Command) string {
	if m.Parsed.Verb == parser.Remind {
		return "remind/" + string(m.ID)
	}
	return bridge.ActionLane(m.Relay, m.Canonical)
}

// finish ends a command, removes its work and tells the agent. An agent hears of
// one end of a command, and besides of a doubt that came before it.
func finishErrand(c *change, r errand, next bridge.CommandState, n bridge.Notice) error {
	fresh, err := c.Command(r.command.ID)
	if err != nil {
		return err
	}
	r.command.State = fresh.State
	if err := c.setCommand(&r.command, next); err != nil {
		return err
	}
	if err := c.FinishWork(r.work); err != nil {
		return err
	}
	turn, err := c.Turn(r.command.Turn)
	if err != nil {
		return err
	}
	what := "end"
	if next == bridge.CommandUncertain {
		what = "uncertain"
	}
	n.Agent, n.Depth, n.Commands, n.Asked = r.agent.ID, turn.Depth, []bridge.CommandID{r.command.ID}, turn.ID
	n.Item = c.item(r.agent, what, r.command.OpKey)
	return c.tell(n)
}
