package engine

import (
	"context"
	"errors"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// toolOrdinal is where the commands of tool calls begin in a turn; those of its
// text come before, so that neither can take the other's place.
const toolOrdinal = 1000

// maxAsked bounds the commands of one turn, refused ones too; the ordinals of
// tool calls are counted in as many.
const maxAsked = 1000

// Ask takes commands that an agent asked for by a tool call through the gate, in
// one transaction, and returns each as it was recorded: the same policy, caps
// and ledger as for its text. They belong to the turn that the agent is in, or else to its
// last one. What is refused or held is said in the answer and not in the next
// turn; what comes of the rest comes as a turn. Twice is two requests, of which
// the policy holds the second for a person. NotFound for an unknown agent,
// Conflict for one that never had a turn or whose tree was stopped, RateLimited
// when a turn asked for too many.
func (e *Engine) Ask(ctx context.Context, id bridge.AgentID, commands ...parser.Command) ([]bridge.Command, error) {
	var asked []bridge.Command
	err := e.update(ctx, func(c *change) error {
		j, err := c.asking(id)
		if err != nil {
			return err
		}
		earlier, err := c.Commands(bridge.CommandFilter{Turn: j.turn.ID, Limit: maxAsked})
		if err != nil {
			return err
		}
		if len(earlier)+len(commands) > maxAsked { // refused ones count: each is on record
			return bridge.Errorf(bridge.RateLimited, "%d commands were asked for in this turn, and the limit is %d; end your turn, and ask in the next one", len(earlier), maxAsked)
		}
		r, err := c.request(j, commands)
		if err != nil {
			return err
		}
		r.Earlier = earlierIn(earlier)
		judged := e.o.Policy().Judge(r)
		for i, cmd := range commands {
			m, err := c.recordAs(j, toolOrdinal+len(earlier)+i, cmd, judged.Verdicts[i])
			if err != nil {
				return err
			}
			asked = append(asked, m)
		}
		return nil
	})
	return asked, notFound(err, "agent", string(id))
}

// asking loads the turn that an agent's tool calls belong to.
func (c *change) asking(id bridge.AgentID) (*job, error) {
	a, err := c.Agent(id)
	if err != nil {
		return nil, err
	}
	if err := c.stopped(a.Root); err != nil {
		return nil, err
	}
	t, err := c.OpenTurn(id)
	if errors.Is(err, bridge.ErrNoRow) || (err == nil && t.State == bridge.TurnQueued) {
		var last []bridge.Turn
		if last, err = c.Turns(bridge.TurnFilter{Agent: id, Limit: 1}); err == nil && len(last) == 0 {
			err = bridge.Errorf(bridge.Conflict, "agent %s never had a turn, so it cannot ask for anything", a.Name)
		}
		if err == nil {
			t = last[0]
		}
	}
	if err != nil {
		return nil, err
	}
	j, err := loadJob(c.Tx, bridge.Work{Ref: string(t.ID)})
	j.silent = true
	return &j, err
}

// earlierIn are the commands that a turn's tool calls asked for before.
func earlierIn(all []bridge.Command) []parser.Command {
	var earlier []parser.Command
	for _, m := range all {
		if m.Ordinal >= toolOrdinal && m.State != bridge.CommandRefused && m.Code != string(policy.CodeOverCap) {
			earlier = append(earlier, m.Parsed)
		}
	}
	return earlier
}

// Change implements bridge.Desk.
func (e *Engine) Change(ctx context.Context, fn func(bridge.Change) error) error {
	return e.update(ctx, func(c *change) error { return fn(c.Change) })
}
