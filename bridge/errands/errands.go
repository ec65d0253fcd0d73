// Package errands carries out what was granted and launches nobody: actions at a
// relay and reminders, from the grant to the outcome that the agent reads. It
// grants nothing; the policy is asked once more before every request. Rule of
// thumb: a request that may have left is asked about under its own id and never
// made anew.
package errands

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/desk"
	"drawbridge/bridge/kin"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Runner has the handlers of errands' work. They are safe for concurrent use, and
// twice for the same work is fine. All fields are required.
type Runner struct {
	Actions bridge.ActionRunner
	// Patience is how long a relay is asked what came of a request whose answer was lost, until that counts as uncertain.
	Patience time.Duration
	// Update runs a step about the work of a command.
	Update func(context.Context, bridge.Work, func(*desk.Change) error) error
	// Holds reports whether a handler still has its lease.
	Holds func(context.Context) bool
	// Backoff is the wait after an attempt, counted from 1; see lanes.Backoff.
	Backoff func(attempt int, base, limit time.Duration) time.Duration
	Log     zerolog.Logger
}

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

func load(tx *bridge.Scene, w bridge.Work) (r errand, err error) {
	r.work = w
	if r.command, err = tx.Command(bridge.CommandID(w.Ref)); err != nil {
		return r, fmt.Errorf("load command %q: %w", w.Ref, err)
	}
	if r.agent, err = tx.Agent(r.command.Agent); err != nil {
		return r, fmt.Errorf("load agent %q: %w", r.command.Agent, err)
	}
	r.names, err = kin.Lineage(tx, r.agent)
	return r, err
}

// Lane is where an action or a reminder waits for its turn.
func Lane(m bridge.Command) string {
	if m.Parsed.Verb == parser.Remind {
		return "remind/" + string(m.ID)
	}
	return bridge.ActionLane(m.Relay, m.Canonical)
}

// finish ends a command, removes its work and tells the agent. An agent hears of
// one end of a command, and besides of a doubt that came before it.
func finish(c *desk.Change, r errand, next bridge.CommandState, n bridge.Notice) error {
	fresh, err := c.Command(r.command.ID)
	if err != nil {
		return err
	}
	r.command.State = fresh.State
	if err := c.SetCommand(&r.command, next); err != nil {
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
	n.Item = c.Item(r.agent, what, r.command.OpKey)
	return c.Tell(n)
}
