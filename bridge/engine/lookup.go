package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

const (
	// lookAgain is when a journal is asked again that did not know, or could not be asked. A relay that connects is asked at once.
	lookAgain = time.Minute
	// lookOpen is when a journal is asked again that says that the action still runs.
	lookOpen = 5 * time.Second
	// lookFor is how long journals are asked about an action. They keep a request for a day after its end.
	lookFor = 48 * time.Hour
)

// enqueueLookup makes the bridge ask the relay's journal about a command. All look-ups at one relay share a lane, which the relay
// wakes when it connects.
func enqueueLookup(c *change, m bridge.Command, due time.Time) error {
	relay := m.Relay
	if relay == "" {
		tied, err := c.BoundRelay(m.OpKey)
		if err != nil && !errors.Is(err, bridge.ErrNoRow) {
			return fmt.Errorf("find the relay of %q: %w", m.ID, err)
		}
		relay = tied
	}
	return c.Enqueue(bridge.Work{Kind: bridge.WorkLookup, Ref: string(m.ID), Lane: bridge.LookupLane(relay), Due: due})
}

// lookupOf is the question to a journal about a command.
func lookupOf(r errand) bridge.ActionLookup {
	return bridge.ActionLookup{Request: r.command.OpKey, Relay: r.command.Relay, Action: r.command.Canonical, Agent: r.agent.Name, Line: lineOf(r.command)}
}

// lineOf is the agent's line as a relay gets it. It is part of what a journal knows a request by.
func lineOf(m bridge.Command) string { return string(m.Parsed.Verb) + ": " + m.Parsed.Action }

// lookupWork asks a relay's journal about an action that became uncertain. It never runs anything.
func (e *Engine) lookupWork(ctx context.Context, w bridge.Work) error {
	var r errand
	err := e.onErrand(ctx, w, func(c *change) (err error) { r, err = loadErrand(c.Scene, w); return err })
	if err != nil {
		return err
	}
	found, cause := e.o.Actions.LookUp(ctx, lookupOf(r))
	return e.onErrand(ctx, w, func(c *change) (err error) {
		if r, err = loadErrand(c.Scene, w); err != nil {
			return err
		}
		return lookedUp(c, r, found, cause)
	})
}

// lookUpJournal asks the relay's journal about a command, for a person who wants to settle it. It changes nothing.
func (e *Engine) lookUpJournal(ctx context.Context, m bridge.Command, a bridge.Agent) (bridge.ActionFinding, error) {
	return e.o.Actions.LookUp(ctx, lookupOf(errand{command: m, agent: a}))
}

// lookedUp records what a journal said. What it does not know yet is asked again later, behind the other look-ups at that relay.
func lookedUp(c *change, r errand, found bridge.ActionFinding, cause error) error {
	switch {
	case cause == nil && (found.Known == bridge.JournalOver || found.Known == bridge.JournalNever):
		if err := journalSays(c, r.command, found); err != nil {
			return err
		}
		return c.FinishWork(r.work)
	case c.now.Sub(r.command.UpdatedAt) > lookFor:
		return c.FinishWork(r.work) // no journal knows it any more
	case bridge.KindOf(cause) == bridge.Unavailable:
		return c.PutBack(r.work, c.now.Add(lookAgain)) // nor can the others in this lane be asked
	}
	wait := lookAgain
	if cause == nil && found.Known == bridge.JournalOpen {
		wait = lookOpen
	}
	if err := c.FinishWork(r.work); err != nil {
		return err
	}
	return enqueueLookup(c, r.command, c.now.Add(wait))
}

// journalSays settles a command by what a relay's journal says of it. An answer that comes after a person's word changes nothing: it is
// recorded, and told to the agent as a correction when it contradicts that word.
func journalSays(c *change, m bridge.Command, found bridge.ActionFinding) error {
	a, err := c.Agent(m.Agent)
	if err != nil {
		return fmt.Errorf("load agent %q: %w", m.Agent, err)
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return fmt.Errorf("load turn %q: %w", m.Turn, err)
	}
	says := says(found)
	n := bridge.Notice{Agent: a.ID, Cause: bridge.CauseActionOutcome, Depth: turn.Depth, Commands: []bridge.CommandID{m.ID},
		Item: c.item(a, "end", m.OpKey), Asked: turn.ID, Source: bridge.OriginOutside, Author: m.Relay,
		Text: words.Errand(m) + says + "; the bridge was not certain of this before", Untrusted: words.Outputs(found.Outcome)}
	if m.State != bridge.CommandUncertain {
		return afterWord(c, errand{command: m, agent: a}, found, n)
	}
	next, kind := bridge.CommandFailed, bridge.EventFailed
	m.Reason = string(says)
	if ran(found) {
		next, kind = bridge.CommandFinished, bridge.EventExecuted
		m.Reason, m.Outcome = "", outcomeOf(found.Outcome)
	}
	if err := c.setCommand(&m, next); err != nil {
		return err
	}
	if err := c.event(kind, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Canonical + " " + string(says), Fields: fieldsOf(m, found)}); err != nil {
		return err
	}
	return c.tell(n)
}

// ran reports whether a journal says that the action began.
func ran(found bridge.ActionFinding) bool {
	return found.Known == bridge.JournalOver && found.Outcome.Status != bridge.ActionRefused
}

func says(found bridge.ActionFinding) bridge.Words {
	if found.Known == bridge.JournalNever {
		return words.Say("it did not run: relay %s never got the request", found.Relay)
	}
	return words.Action(found.Outcome) + words.Say(" (from the journal of relay %s)", found.Relay)
}

func fieldsOf(m bridge.Command, found bridge.ActionFinding) map[string]string {
	fields := words.Fields(m)
	fields["journal"] = string(found.Known)
	if out := found.Outcome; found.Known == bridge.JournalOver {
		fields["status"], fields["exit_code"] = string(out.Status), strconv.Itoa(out.ExitCode)
		fields["duration_ms"], fields["output"] = strconv.FormatInt(out.Duration.Milliseconds(), 10), words.Clip(out.Stdout, 1000)
	}
	return fields
}

// afterWord records a journal's answer about a command that a person has settled.
func afterWord(c *change, r errand, found bridge.ActionFinding, n bridge.Notice) error {
	m := r.command
	said := m.Outcome != nil
	agrees := said == ran(found)
	if said && agrees && m.Outcome.ExitCode != bridge.NoExitCode {
		agrees = m.Outcome.ExitCode == found.Outcome.ExitCode
	}
	text := "the relay's journal says: " + string(says(found))
	if !agrees {
		text += "; a person had said otherwise"
	}
	if err := c.event(bridge.EventJournal, r.agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: text, Fields: fieldsOf(m, found)}); err != nil || agrees {
		return err
	}
	n.Item = c.item(r.agent, "correction", m.OpKey)
	n.Text = words.Errand(m) + "correction: " + says(found) + "; a person had said otherwise"
	return c.tell(n)
}
