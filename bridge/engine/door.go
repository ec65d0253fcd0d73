package engine

import (
	"context"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// Ask takes a command that an agent asked for by a tool call through the gate, in
// one transaction, and returns it as it was recorded: the same policy, caps
// and ledger as for its text. It belongs to the turn that the agent is in, or else to its
// last one. What is refused or held is said in the answer and not in the next
// turn; what comes of the rest comes as a turn. Twice under one key is once, and
// returns the command as it stands now; without a key it is two requests, of which
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

// Approve lets a held command pass whose Question a person saw under this hash,
// and ends those that are identical to it as repeats. It passes the gate
// once more: Denied when the policy says no, Conflict when a yes would do something else by now.
func (e *Engine) Approve(ctx context.Context, id bridge.CommandID, hash string) (m bridge.Command, err error) {
	err = e.update(ctx, func(c *change) (err error) {
		m, err = c.approve(id, hash)
		return err
	})
	return m, notFound(err, "command", string(id))
}

// Question says what a yes to a held command would do now. Conflict when the command waits for nobody.
func (e *Engine) Question(ctx context.Context, id bridge.CommandID) (q bridge.Question, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) (err error) {
		q, err = e.look(tx).questionOf(id)
		return err
	})
	return q, notFound(err, "command", string(id))
}

// Questions returns what waits for a person, the newest first; of one agent, or of
// all when agent is empty. Identical commands of one agent are one question.
func (e *Engine) Questions(ctx context.Context, agent bridge.AgentID) (all []bridge.Question, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) (err error) {
		all, err = e.look(tx).questions(agent)
		return err
	})
	return all, err
}

// look is a transaction in which nothing is written.
func (e *Engine) look(tx *bridge.Scene) *change {
	return &change{Scene: tx, e: e, now: e.o.Now(), ids: e.o.NewID}
}

// Deny refuses a held command and those that are identical to it; the agent hears it once, with the reason when there is one.
func (e *Engine) Deny(ctx context.Context, id bridge.CommandID, reason string) (m bridge.Command, err error) {
	err = e.update(ctx, func(c *change) (err error) {
		m, err = c.deny(id, reason)
		return err
	})
	return m, notFound(err, "command", string(id))
}

// CancelReminder ends a reminder that has not come back yet. The agent reads of
// it in its next turn. Conflict when the command is no reminder that waits.
func (e *Engine) CancelReminder(ctx context.Context, id bridge.CommandID) (m bridge.Command, err error) {
	err = e.update(ctx, func(c *change) (err error) {
		m, err = cancelReminder(c, id)
		return err
	})
	return m, notFound(err, "command", string(id))
}
