package bridge

import (
	"errors"
	"time"

	"drawbridge/parser"
)

// MachineQuestion is a question to a person at a relay's machine: may this request run? The relay says which ones are open.
type MachineQuestion struct {
	// Request is the OpKey of the command.
	Request, Relay string
	// Since is when the person was asked. Until is when a missing answer becomes a no.
	Since, Until time.Time
	// Command and Agent are those of the request, and Action is what would run. Only [RelayTx.MachineQuestions] sets them.
	Command CommandID
	Agent   AgentID
	Action  string
	// AwaySince is since when the relay is not connected, the zero time while it is. Only [AskedAbout] and [AllAsked] set it.
	AwaySince time.Time
}

// String says who is asked, since when, and what no answer means. It is made of the bridge's own words.
func (q MachineQuestion) String() string {
	since := q.Since.UTC().Format(time.DateTime) + " UTC"
	if !q.AwaySince.IsZero() {
		return "relay " + q.Relay + " asked a person at " + since + "; " + q.Relay + " has not been connected since " + q.AwaySince.UTC().Format(time.TimeOnly)
	}
	return "relay " + q.Relay + " asked a person at " + since + "; no answer by " + q.Until.UTC().Format(time.TimeOnly) + " counts as no"
}

// asksMachine reports whether a command is in a state in which a person at its relay's machine may be asked about it. A relay
// may ask beside the operator (held), and while its connection was cut (uncertain).
func (c Command) asksMachine() bool {
	switch c.State {
	case CommandSending, CommandHeld, CommandUncertain:
		return c.Parsed.Verb == parser.LocalAction
	}
	return false
}

// AskedAbout returns the question that is open about a command at its relay's machine, or nil.
func AskedAbout(tx *Scene, c Command, now time.Time) (*MachineQuestion, error) {
	if !c.asksMachine() {
		return nil, nil
	}
	q, err := tx.MachineQuestion(c.OpKey)
	if errors.Is(err, ErrNoRow) || err == nil && !now.Before(q.Until) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	q.Command, q.Agent, q.Action = c.ID, c.Agent, c.Canonical
	return &q, q.look(tx)
}

// AllAsked returns the questions that are open at any machine, by agent.
func AllAsked(tx *Scene, now time.Time) (map[AgentID][]MachineQuestion, error) {
	all, err := tx.MachineQuestions()
	found := map[AgentID][]MachineQuestion{}
	for _, q := range all {
		if !now.Before(q.Until) {
			continue
		}
		if err := q.look(tx); err != nil {
			return nil, err
		}
		found[q.Agent] = append(found[q.Agent], q)
	}
	return found, err
}

// look notes whether the relay is connected.
func (q *MachineQuestion) look(tx *Scene) error {
	r, err := tx.Relay(q.Relay)
	if err == nil && r.Replica == "" {
		q.AwaySince = r.SeenAt
	}
	if errors.Is(err, ErrNoRow) {
		return nil
	}
	return err
}

// ShownWith is [Command.Shown], and the question that is open about the command, if there is one.
func (c Command) ShownWith(q *MachineQuestion) string {
	switch shown := c.Shown(); {
	case q == nil:
		return shown
	case shown == "":
		return q.String()
	default:
		return shown + "; " + q.String()
	}
}
