package engine

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/bridge"
)

// RelayAnswered lets a command go that a relay holds, because a person at the relay's machine has answered: the relay is asked again
// and says what the answer was. That is not the operator's word, so it lifts nothing that the allowlist wants it for; such a command,
// and one that does not wait for this relay, stays as it is.
func (e *Engine) RelayAnswered(ctx context.Context, relay, request string) error {
	return e.update(ctx, func(c *change) error { return c.relayAnswered(relay, request) })
}

func (c *change) relayAnswered(relay, request string) error {
	held, err := c.Commands(bridge.CommandFilter{State: bridge.CommandHeld, Limit: maxHeldLooked})
	if err != nil {
		return err
	}
	for _, m := range held {
		if m.OpKey != request || m.Code != bridge.CodeRelayApproval {
			continue
		}
		return c.askRelayAgain(relay, m)
	}
	return nil
}

// maxHeldLooked is how many held commands are looked through. Nobody has more before them.
const maxHeldLooked = 10_000

func (c *change) askRelayAgain(relay string, m bridge.Command) error {
	asked := m.Relay
	if asked == "" {
		var err error
		if asked, err = c.BoundRelay(m.OpKey); err != nil && !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
	}
	if asked != relay {
		return nil
	}
	a, err := c.Agent(m.Agent)
	if err != nil {
		return fmt.Errorf("load agent %q: %w", m.Agent, err)
	}
	names, err := c.Lineage(a)
	if err != nil {
		return err
	}
	if v := c.policy().Grant(names, m.Parsed, false); !v.Grant.Valid() {
		return nil
	}
	m.State, m.UpdatedAt, m.Code, m.Reason = bridge.CommandGranted, c.now, "", ""
	m.Approved, m.ApprovalKey = false, m.PolicyKey()
	if err := c.UpdateCommand(m); err != nil {
		return err
	}
	return c.Enqueue(bridge.Work{Kind: bridge.WorkAction, Ref: string(m.ID), Lane: bridge.ActionLane(m.Relay, m.Canonical), Due: c.now, Share: bridge.RelayShare(m.Relay)})
}
