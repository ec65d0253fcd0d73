package engine

import (
	"fmt"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// codeRelayApproval marks a command that a relay wants the operator's word for.
const codeRelayApproval = "relay_needs_approval"

// definitionKey is how an approval key names a definition at a relay, beside the policy's own keys.
const definitionKey = "definition:"

// request is what the relay is asked, with the operator's word when there is one for the relay.
func (r errand) request() bridge.ActionRequest {
	q := bridge.ActionRequest{Grant: r.grant, Request: r.command.OpKey, Agent: r.agent.Name, Line: string(r.command.Parsed.Verb) + ": " + r.command.Parsed.Action}
	if definition, bound := strings.CutPrefix(r.command.ApprovalKey, definitionKey); bound && r.command.Approved {
		q.Approved = &bridge.ActionApproval{Definition: definition, At: r.command.UpdatedAt}
	}
	return q
}

// holdForRelay holds a command because the relay wants the operator's word on one definition. The relay has said that nothing
// ran. A word that was given for this very definition and did not help is not asked for again.
func (c *change) holdForRelay(r errand, out bridge.ActionOutcome) (held bool, err error) {
	key := definitionKey + out.Wants
	if out.Wants == "" || (r.command.Approved && r.command.ApprovalKey == key) {
		return false, nil
	}
	r.command.Code, r.command.ApprovalKey, r.command.Approved = codeRelayApproval, key, false
	r.command.Reason = fmt.Sprintf("the relay wants your word for it (definition %.12s): %s", out.Wants, words.OneLine(out.Error, 300))
	if err := c.setCommand(&r.command, bridge.CommandHeld); err != nil {
		return false, err
	}
	if err := c.FinishWork(r.work); err != nil {
		return false, err
	}
	if err := c.event(bridge.EventHeld, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: r.command.Reason, Fields: words.Fields(r.command)}); err != nil {
		return false, err
	}
	turn, err := c.Turn(r.command.Turn)
	if err != nil {
		return false, err
	}
	return true, c.notify(bridge.Notice{Agent: r.agent.ID, Cause: bridge.CauseReport, Depth: turn.Depth,
		Text: fmt.Sprintf("%sheld as %s: a person has to approve it", errandLine(r), r.command.ID)})
}

// bindApproval ties a person's word to the definition that the relay offers now, where the relay lets the bridge approve, so
// that one word serves both gates. A command that a relay held is bound already, to what the person was shown.
func (c *change) bindApproval(m *bridge.Command) error {
	if m.Parsed.Verb != parser.LocalAction || strings.HasPrefix(m.ApprovalKey, definitionKey) {
		return nil
	}
	offers, err := c.OfferedBy(m.Canonical)
	if err != nil {
		return err
	}
	var found []bridge.RelayOffer
	for _, o := range offers {
		if m.Relay == "" || o.Relay == m.Relay {
			found = append(found, o)
		}
	}
	if len(found) == 1 && found[0].Bridge {
		m.ApprovalKey = definitionKey + found[0].Definition
	}
	return nil
}
