package errands

import (
	"context"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/desk"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Remind brings a reminder back to the agent that asked for it.
func (x Runner) Remind(ctx context.Context, w bridge.Work) error {
	return x.Update(ctx, w, func(c *desk.Change) error {
		r, err := load(c.Scene, w)
		if err != nil {
			return err
		}
		if r.command.State != bridge.CommandGranted {
			return c.FinishWork(w)
		}
		if err := c.SetCommand(&r.command, bridge.CommandSending); err != nil {
			return err
		}
		if err := c.Event(bridge.EventReminder, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: words.OneLine(r.command.Parsed.Message, 300)}); err != nil {
			return err
		}
		return finish(c, r, bridge.CommandFinished, bridge.Notice{Cause: bridge.CauseReminder, Untrusted: r.command.Parsed.Message, Source: bridge.OriginTree, Author: r.agent.Name,
			Text: words.Say("reminder that you set for %s:", r.command.Parsed.When)})
	})
}

// codeReminders says that too many reminders of the agent wait already.
const codeReminders = "too_many_reminders"

// SetDue sets when a reminder is due, or why it cannot be set.
func SetDue(c *desk.Change, a bridge.Agent, m *bridge.Command) error {
	due, err := words.RemindAt(m.Parsed.When, c.At)
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
	if limit := c.Policy().Limits().Reminders; open >= limit {
		m.Code = codeReminders
		m.Reason = fmt.Sprintf("%d reminders of this agent wait and the limit is %d (limits.reminders); wait until one has come back", open, limit)
		return nil
	}
	m.Due = due.Truncate(time.Microsecond) // as the databases keep it, and as it is told again
	return nil
}

// Cancel ends a reminder that has not come back yet. The agent reads of it in its
// next turn. Conflict when the command is no reminder that waits.
func Cancel(c *desk.Change, id bridge.CommandID) (bridge.Command, error) {
	m, err := c.Command(id)
	if err != nil {
		return m, err
	}
	if m.Parsed.Verb != parser.Remind || m.State != bridge.CommandGranted {
		return m, bridge.Errorf(bridge.Conflict, "command %s (%s) is %s and no reminder that waits; see `drawbridge reminders`", m.ID, m.Parsed.Verb, m.State)
	}
	a, err := c.Agent(m.Agent)
	if err != nil {
		return m, err
	}
	if err := c.FailCommand(&m, "a person cancelled it"); err != nil {
		return m, err
	}
	if err := c.Event(bridge.EventCancelled, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(m)}); err != nil {
		return m, err
	}
	if err := c.WakeLane(Lane(m), c.At); err != nil { // its handler finds it over
		return m, err
	}
	return m, c.TellLater(a, m, words.Say("%s (REMIND %s): a person cancelled the reminder", words.OfTurn(m.Parsed.Line), m.Parsed.When))
}
