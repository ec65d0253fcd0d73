package engine

import (
	"context"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// remindWork brings a reminder back to the agent that asked for it.
func (e *Engine) remindWork(ctx context.Context, w bridge.Work) error {
	return e.onErrand(ctx, w, func(c *change) error {
		r, err := loadErrand(c.Scene, w)
		if err != nil {
			return err
		}
		if r.command.State != bridge.CommandGranted {
			return c.FinishWork(w)
		}
		if err := c.setCommand(&r.command, bridge.CommandSending); err != nil {
			return err
		}
		if err := c.event(bridge.EventReminder, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: words.OneLine(r.command.Parsed.Message, 300)}); err != nil {
			return err
		}
		return finishErrand(c, r, bridge.CommandFinished, bridge.Notice{Cause: bridge.CauseReminder, Untrusted: r.command.Parsed.Message, Source: bridge.OriginTree, Author: r.agent.Name,
			Text: words.Say("reminder that you set for %s:", r.command.Parsed.When)})
	})
}

// codeReminders says that too many reminders of the agent wait already.
const codeReminders = "too_many_reminders"

// setDue sets when a reminder is due, or why it cannot be set.
func setDue(c *change, a bridge.Agent, m *bridge.Command) error {
	due, err := words.RemindAt(m.Parsed.When, c.now)
	if err != nil {
		m.Code, m.Reason = string(policy.CodeMalformed), err.Error()
		return nil
	}
	open, err := c.CountOpenCommands(a.ID, parser.Remind)
	if err != nil {
		return err
	}
	if m.State == bridge.CommandHeld {
		open-- // itself
	}
	if limit := c.policy().Limits().Reminders; open >= limit {
		m.Code = codeReminders
		m.Reason = fmt.Sprintf("this agent has %s waiting and the limit is %d (limits.reminders); wait until one of them is due", words.Count(open, "reminder"), limit)
		return nil
	}
	m.Due = due.Truncate(time.Microsecond) // as the databases keep it, and as it is told again
	return nil
}

// cancelReminder ends a reminder that has not come back yet. The agent reads of it in its
// next turn. Conflict unless the command is a reminder that waits.
func cancelReminder(c *change, id bridge.CommandID) (bridge.Command, error) {
	m, err := c.Command(id)
	if err != nil {
		return m, err
	}
	if m.Parsed.Verb != parser.Remind || m.State != bridge.CommandGranted {
		return m, bridge.Errorf(bridge.Conflict, "command %s (%s, %s) is not a waiting reminder; see `drawbridge reminders`", m.ID, m.Parsed.Verb, m.State)
	}
	a, err := c.Agent(m.Agent)
	if err != nil {
		return m, err
	}
	if err := c.failCommand(&m, "a person cancelled it"); err != nil {
		return m, err
	}
	if err := c.event(bridge.EventCancelled, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(m)}); err != nil {
		return m, err
	}
	if err := c.WakeLane(errandLane(m), c.now); err != nil { // its handler finds it over
		return m, err
	}
	return m, c.tellLater(a, m, words.Say("%s (REMIND %s): a person cancelled the reminder", words.OfTurn(m.Parsed.Line), m.Parsed.When))
}

// CancelReminder ends a reminder that has not come back yet. The agent reads of
// it in its next turn. Conflict unless the command is a reminder that waits.
func (e *Engine) CancelReminder(ctx context.Context, id bridge.CommandID) (m bridge.Command, err error) {
	err = e.update(ctx, func(c *change) (err error) {
		m, err = cancelReminder(c, id)
		return err
	})
	return m, notFound(err, "command", string(id))
}
