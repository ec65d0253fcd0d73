package desk

import (
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/kin"
	"drawbridge/policy"
)

// Answered lets a command go that a relay holds, because a person at the relay's machine has answered: the relay is asked again and
// says what the answer was. That is no word of the operator's, so it lifts nothing that the allowlist wants it for; such a command, and
// one that does not wait for this relay, stays as it is.
func Answered(tx bridge.Change, relay, request string, p *policy.Policy) error {
	held, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld, Limit: maxHeld})
	if err != nil {
		return err
	}
	for _, m := range held {
		if m.OpKey != request || m.Code != bridge.CodeRelayApproval {
			continue
		}
		return answered(tx, relay, m, p)
	}
	return nil
}

// maxHeld is how many held commands are looked through. Nobody has more before them.
const maxHeld = 10_000

func answered(tx bridge.Change, relay string, m bridge.Command, p *policy.Policy) error {
	asked := m.Relay
	if asked == "" {
		var err error
		if asked, err = tx.BoundRelay(m.OpKey); err != nil && !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
	}
	if asked != relay {
		return nil
	}
	a, err := tx.Agent(m.Agent)
	if err != nil {
		return fmt.Errorf("load agent %q: %w", m.Agent, err)
	}
	names, err := kin.Lineage(tx.Scene, a)
	if err != nil {
		return err
	}
	if v := p.Grant(names, m.Parsed, false); !v.Grant.Valid() {
		return nil
	}
	m.State, m.UpdatedAt, m.Code, m.Reason = bridge.CommandGranted, tx.Now(), "", ""
	m.Approved, m.ApprovalKey = false, m.PolicyKey()
	if err := tx.UpdateCommand(m); err != nil {
		return err
	}
	return tx.Enqueue(bridge.Work{Kind: bridge.WorkAction, Ref: string(m.ID), Lane: bridge.ActionLane(m.Relay, m.Canonical), Due: tx.Now(), Share: bridge.RelayShare(m.Relay)})
}
