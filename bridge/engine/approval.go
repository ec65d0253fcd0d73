package engine

import (
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// holdForRelay holds a command because the relay wants the operator's word on one definition. The relay has said that nothing
// ran. A word that was given for this very definition and did not help is not asked for again.
func (c *change) holdForRelay(r errand, out bridge.ActionOutcome) (held bool, err error) {
	m := &r.command
	if out.Wants == "" || (m.Approved && m.DefinitionToApprove() == out.Wants) {
		return false, nil
	}
	m.Code, m.ApprovalKey, m.Approved, m.Reason = bridge.CodeRelayApproval, bridge.DefinitionKey(out.Wants), false, words.RelayAsks(out)
	if err := c.SetCommand(m, bridge.CommandHeld); err != nil {
		return false, err
	}
	if err := c.FinishWork(r.work); err != nil {
		return false, err
	}
	if err := c.Event(bridge.EventHeld, r.agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: words.Fields(*m)}); err != nil {
		return false, err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return false, err
	}
	text := words.Errand(r.command) + "held as " + string(m.ID) + ": a person has to approve it"
	return true, c.Tell(bridge.Notice{Agent: r.agent.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Text: text})
}

// bindApproval ties a person's word to the definition that the relay offers, where the relay lets the bridge approve, so that
// one word serves both gates. It does so when the command is held, and only to what the reason shows: a relay that had nothing
// to show, or shows something else by the time of the word, asks for itself.
func (c *change) bindApproval(m *bridge.Command) error {
	if m.Parsed.Verb != parser.LocalAction {
		return nil
	}
	offers, err := c.OfferedBy(m.Canonical)
	if offer := bridge.ApprovableAt(offers, m.Relay); offer.Shows != "" {
		m.BindDefinition(offer.Definition)
		m.Reason += "; " + words.Offered(offer)
	}
	return err
}
