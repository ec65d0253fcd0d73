package engine

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// toolOrdinal is where the commands of tool calls begin in a turn; those of its
// text come before, so that neither can take the other's place.
const toolOrdinal = 1000

// maxAsked bounds the commands of one turn, refused ones too; the ordinals of
// tool calls are counted in as many.
const maxAsked = 1000

// askOnce judges a command that an agent asked for by a tool call and returns it as
// it was recorded; see Engine.Ask.
func (c *change) askOnce(id bridge.AgentID, once bridge.Once, cmd parser.Command) (m bridge.Command, err error) {
	if before, err := once.Earlier(c.Scene, id); err != nil {
		return m, err
	} else if before != "" {
		return c.Command(bridge.CommandID(before))
	}
	m, err = c.ask(id, cmd)
	if err != nil || m.State == bridge.CommandRefused {
		return m, err // it may be asked for again under its key
	}
	return m, once.Keep(c.Scene, id, string(m.ID), c.now)
}

func (c *change) ask(id bridge.AgentID, cmd parser.Command) (m bridge.Command, err error) {
	by, err := c.asking(id)
	if err != nil {
		return m, err
	}
	earlier, err := c.Commands(bridge.CommandFilter{Turn: by.Turn.ID, Limit: maxAsked})
	if err != nil {
		return m, err
	}
	if len(earlier) >= maxAsked { // refused ones count: each is on record
		return m, bridge.Errorf(bridge.RateLimited, "you asked for %d commands in this turn, and the limit is %d; end your turn, and ask in the next one", len(earlier), maxAsked)
	}
	r, err := c.request(by, []parser.Command{cmd})
	if err != nil {
		return m, err
	}
	r.Earlier = earlierIn(earlier)
	return c.recordAs(by, toolOrdinal+len(earlier), cmd, c.judgement(by.Agent, r).Verdicts[0])
}

// asking loads the turn that an agent's tool calls belong to.
func (c *change) asking(id bridge.AgentID) (*asker, error) {
	a, err := c.Agent(id)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.MayAct(), c.notStopped(a.Root)); err != nil {
		return nil, err
	}
	t, err := c.heard(id)
	if errors.Is(err, bridge.ErrNoRow) {
		err = bridge.Errorf(bridge.Conflict, "agent %s never had a turn, so it cannot ask for anything", a.Name)
	}
	if err != nil {
		return nil, err
	}
	if t.Stopped {
		return nil, bridge.Errorf(bridge.Conflict, "%s; end your answer, and wait for the next turn", words.TurnStopped)
	}
	names, err := c.Lineage(a)
	return &asker{Agent: a, Turn: &t, Names: names, silent: true}, err
}

// heard returns the turn that an agent is in or was last in. Its first one counts
// while it is still queued: who holds the agent's token may call before that.
func (c *change) heard(id bridge.AgentID) (bridge.Turn, error) {
	head, err := c.CurrentTurn(id)
	if errors.Is(err, bridge.ErrNoRow) {
		return c.OpenTurn(id)
	}
	if err != nil {
		return bridge.Turn{}, err
	}
	t, err := c.Turn(head.ID)
	if err != nil {
		return t, fmt.Errorf("load turn %q: %w", head.ID, err)
	}
	return t, nil
}

// earlierIn are the commands that a turn's tool calls asked for before.
func earlierIn(all []bridge.Command) []parser.Command {
	var earlier []parser.Command
	for _, m := range all {
		if m.Ordinal >= toolOrdinal && m.Parsed.Verb != bridge.VerbPermission && m.State != bridge.CommandRefused && m.Code != string(policy.CodeOverCap) {
			earlier = append(earlier, m.Parsed)
		}
	}
	return earlier
}

// Ask takes a command that an agent asked for by a tool call through the gate, in
// one transaction, and returns it as it was recorded: the same policy, caps
// and ledger as for its text. It belongs to the turn that the agent is in, or else to its
// last one. What is refused or held is said in the answer and not in the next
// turn; what comes of the rest comes as a turn. Twice under one key is once, and
// returns the command as it stands now; without a key it is two requests, and
// the policy holds the second for a person. NotFound for an unknown agent,
// Conflict for one that never had a turn, whose tree was stopped or that used the
// key for something else, RateLimited when a turn asked for too many.
func (e *Engine) Ask(ctx context.Context, id bridge.AgentID, once bridge.Once, cmd parser.Command) (m bridge.Command, err error) {
	err = e.update(ctx, func(c *change) (err error) {
		m, err = c.askOnce(id, once, cmd)
		return err
	})
	return m, notFound(err, "agent", string(id))
}
