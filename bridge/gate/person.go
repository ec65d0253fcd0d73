package gate

import (
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/desk"
	"drawbridge/bridge/kin"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Approve lets a held command pass. It passes the gate once more: what the
// allowlist does not hold any more stays refused. Conflict when it waits for
// nobody or its tree was stopped, Denied when the policy says no.
func (g Gate) Approve(tx *desk.Change, id bridge.CommandID) (m bridge.Command, err error) {
	c := change{tx, g}
	a, err := c.held(id, &m)
	if err != nil {
		return m, err
	}
	if err := c.NotStopped(a.Root); err != nil {
		return m, err
	}
	names, err := kin.Lineage(c.Tx, a)
	if err != nil {
		return m, err
	}
	v := c.Policy().Grant(names, m.Parsed, true)
	if !v.Grant.Valid() {
		return m, bridge.Errorf(bridge.Denied, "%s (deny it, or change the allowlist)", v.Reason)
	}
	if m.Parsed.Verb == parser.Subagent {
		used, err := c.used(a)
		if err != nil {
			return m, err
		}
		if refused := c.Policy().ApprovalRefused(names, used); refused != "" {
			return m, bridge.Errorf(bridge.Denied, "%s (deny it, wait, or raise the limit)", refused)
		}
	}
	m.Approved, m.Canonical, m.API, m.Relay = true, v.Canonical, v.API, v.Relay
	if err := c.remember(a, m); err != nil {
		return m, err
	}
	if err := c.Event(bridge.EventApproved, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Approved(m)}); err != nil {
		return m, err
	}
	m.Code, m.Reason = "", "" // what held it does so no longer
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return m, err
	}
	if err := c.start(Asker{Agent: a, Turn: &turn}, &m); err != nil || m.State != bridge.CommandRefused {
		return m, err
	}
	return m, c.Pump(&a) // a reminder that cannot be set any more
}

// remember keeps a "once per" approval for as long as its rule says.
func (c change) remember(a bridge.Agent, m bridge.Command) error {
	if m.Code != string(policy.CodeNeedsApproval) || m.PolicyKey() == "" {
		return nil
	}
	span := c.approvalSpan(m)
	if span <= 0 {
		return nil
	}
	return c.PutApproval(a.Root, m.PolicyKey(), c.At.Add(span))
}

// approvalSpan is how long one approval of the command's rule lasts; 0 for "each".
func (c change) approvalSpan(m bridge.Command) time.Duration {
	approval := c.Policy().Grant(nil, m.Parsed, false).Approval
	if approval.Mode != policy.ApprovalOnce {
		return 0
	}
	return approval.For
}

// Deny refuses a held command; the agent is told, with the reason when there is
// one. Conflict when the command waits for nobody.
func (g Gate) Deny(tx *desk.Change, id bridge.CommandID, reason string) (m bridge.Command, err error) {
	c := change{tx, g}
	a, err := c.held(id, &m)
	if err != nil {
		return m, err
	}
	m.Code, m.Reason = "denied", "a person denied it"
	if reason = words.SafeLine(reason, 300); reason != "" {
		m.Reason += ": " + reason
	}
	if err := c.Event(bridge.EventDenied, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason}); err != nil {
		return m, err
	}
	if err := c.SetCommand(&m, bridge.CommandRefused); err != nil {
		return m, err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return m, err
	}
	return m, c.Tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Commands: []bridge.CommandID{m.ID},
		Text: fmt.Sprintf("%s (%s): refused: %s", words.OfTurn(m.Parsed.Line), m.Parsed.Verb, m.Reason)})
}

// held loads a command that waits for a person, and its agent.
func (c change) held(id bridge.CommandID, m *bridge.Command) (bridge.Agent, error) {
	var err error
	if *m, err = c.Command(id); err != nil {
		return bridge.Agent{}, err
	}
	if m.State == bridge.CommandUncertain {
		return bridge.Agent{}, bridge.Errorf(bridge.Conflict, "command %s is uncertain: look whether it happened, then use `drawbridge resolve`", m.ID)
	}
	if m.State != bridge.CommandHeld {
		return bridge.Agent{}, bridge.Errorf(bridge.Conflict, "command %s is %s and waits for nobody; see `drawbridge commands --state held`", m.ID, m.State)
	}
	return c.Agent(m.Agent)
}
