package engine

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// approve lets a held command pass and ends those that are identical to it as
// repeats. hash is that of the Question which the person was shown. The command
// passes the gate once more: what the allowlist does not hold any more stays
// refused. Invalid without a hash, Conflict when a yes would do something else by
// now, when the command waits for nobody or its tree was stopped, Denied when the policy says no, Unavailable when the launch's
// runtime is away; then the command stays held.
func (c *change) approve(id bridge.CommandID, hash string) (m bridge.Command, err error) {
	a, err := c.held(id, &m)
	if err != nil {
		return m, err
	}
	if err := c.notStopped(a.Root); err != nil {
		return m, err
	}
	q, err := c.question(a, m)
	if err != nil {
		return m, err
	}
	if m.Parsed.Verb == bridge.VerbPermission {
		if err := sameHash(m, q, hash); err != nil {
			return m, err
		}
		return c.decidePermission(a, m, true, "")
	}
	e, err := c.mayPass(a, m, q, hash)
	if err != nil {
		return m, err
	}
	if err := c.sayYes(a, &m, q, e); err != nil {
		return m, err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return m, err
	}
	if err := c.start(asker{Agent: a, Turn: &turn}, &m); err != nil {
		return m, err
	}
	if m.State != bridge.CommandRefused {
		return m, c.endRepeats(a, m, q.Same)
	}
	return m, c.pump(&a) // a reminder that cannot be set any more
}

// mayPass checks that the person saw what a yes does now, and that the gate lets it pass.
func (c *change) mayPass(a bridge.Agent, m bridge.Command, q bridge.Question, hash string) (effect, error) {
	e, err := c.effect(a, m)
	switch {
	case err != nil:
		return e, err
	case e.verdict.Code == policy.CodeRuntimeAway:
		return e, bridge.Errorf(bridge.Unavailable, "%s stays held: %s", m.ID, bridge.SafeMessage(c.reachable(a, e.verdict)))
	case !e.verdict.Grant.Valid():
		return e, bridge.Errorf(bridge.Denied, "%s (deny it, or change the allowlist)", e.verdict.Reason)
	}
	if err := sameHash(m, q, hash); err != nil || m.Parsed.Verb != parser.Subagent {
		return e, err
	}
	used, err := c.used(a, true)
	if err != nil {
		return e, err
	}
	if refused := c.policy().ApprovalRefused(e.names, used); refused != "" {
		return e, bridge.Errorf(bridge.Denied, "%s (deny it, wait, or raise the limit)", refused)
	}
	return e, nil
}

// sameHash checks that the person saw what a yes does now.
func sameHash(m bridge.Command, q bridge.Question, hash string) error {
	switch hash {
	case q.Hash:
		return nil
	case "":
		return bridge.Errorf(bridge.Invalid, "the command's hash is missing; send the hash that `drawbridge commands --state held` or GET /v1/commands/%s shows", m.ID)
	default:
		return bridge.Errorf(bridge.Conflict, "a yes to %s would not do what you were shown: its hash is %s now, not %+.40q; look at it again (`drawbridge commands --state held`) and send the new hash", m.ID, q.Hash, hash)
	}
}

// sayYes records a person's yes on the command, with what was shown.
func (c *change) sayYes(a bridge.Agent, m *bridge.Command, q bridge.Question, e effect) error {
	v := e.verdict
	m.Approved, m.Canonical, m.Runtime, m.API, m.Relay = true, v.Canonical, v.Runtime, v.API, v.Relay
	if e.lasts > 0 {
		m.ApprovalKey = v.ApprovalKey
		if err := c.PutApproval(a.Root, v.ApprovalKey, c.now.Add(e.lasts)); err != nil {
			return err
		}
	}
	if e.definition != "" {
		m.BindDefinition(e.definition)
	}
	if err := c.PutYes(bridge.Yes{Root: a.Root, Target: target(*m), Effect: e.facts, At: c.now}); err != nil {
		return err
	}
	err := c.event(bridge.EventApproved, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Approved(*m, e.shown), Fields: map[string]string{"hash": q.Hash, "verb": string(m.Parsed.Verb)}})
	m.Code, m.Reason = "", "" // what held it does so no longer
	return err
}

// endRepeats refuses the commands that are identical to one that a person let
// pass. Their agent hears of all of them at once, with the next news that it gets.
func (c *change) endRepeats(a bridge.Agent, m bridge.Command, same []bridge.CommandID) error {
	reason := fmt.Sprintf("it repeats %s, which a person approved; one approval runs one command", m.ID)
	ended, err := c.refuseAll(same, m.ID, bridge.CodeRepeat, reason)
	if err != nil || len(ended) == 0 {
		return err
	}
	text := words.Say("%s (%s): a person approved %s; %s", words.OfTurn(m.Parsed.Line), m.Parsed.Verb, m.ID, words.Repeats(ended))
	if err := c.event(bridge.EventRefused, a, bridge.Event{Turn: m.Turn, Command: ended[0], Text: string(text)}); err != nil {
		return err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	return c.tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Quiet: true, Commands: ended, Text: text})
}

// refuseAll refuses held commands but for one, and returns which.
func (c *change) refuseAll(ids []bridge.CommandID, but bridge.CommandID, code, reason string) (ended []bridge.CommandID, err error) {
	for _, id := range ids {
		if id == but {
			continue
		}
		m, err := c.Command(id)
		if err != nil {
			return ended, err
		}
		m.Code, m.Reason = code, reason
		if err := c.setCommand(&m, bridge.CommandRefused); err != nil {
			return ended, err
		}
		ended = append(ended, id)
	}
	return ended, nil
}

// deny refuses a held command and those that are identical to it; the agent hears
// it once, with the reason when there is one. Conflict when the command waits for nobody.
func (c *change) deny(id bridge.CommandID, reason string) (m bridge.Command, err error) {
	a, err := c.held(id, &m)
	if err != nil {
		return m, err
	}
	if m.Parsed.Verb == bridge.VerbPermission {
		return c.decidePermission(a, m, false, reason)
	}
	q, err := c.question(a, m)
	if err != nil {
		return m, err
	}
	m.Code, m.Reason = "denied", "a person denied it"
	if reason = words.SafeLine(reason, 300); reason != "" {
		m.Reason += ": " + reason
	}
	if err := c.event(bridge.EventDenied, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: map[string]string{"hash": q.Hash, "verb": string(m.Parsed.Verb)}}); err != nil {
		return m, err
	}
	if err := c.setCommand(&m, bridge.CommandRefused); err != nil {
		return m, err
	}
	ended, err := c.refuseAll(q.Same, m.ID, m.Code, m.Reason)
	if err != nil {
		return m, err
	}
	return m, c.tellDenied(m, ended)
}

func (c *change) tellDenied(m bridge.Command, repeats []bridge.CommandID) error {
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	a, err := c.Agent(m.Agent)
	if err != nil {
		return err
	}
	text := words.Say("%s (%s): refused: %s", words.OfTurn(m.Parsed.Line), m.Parsed.Verb, words.Own(m.Reason))
	if len(repeats) > 0 {
		text += "; " + words.Repeats(repeats)
	}
	return c.tell(bridge.Notice{Agent: m.Agent, Cause: bridge.CauseReport, Depth: turn.Depth, Commands: append([]bridge.CommandID{m.ID}, repeats...), Text: text,
		Item: c.item(a, "denied", m.OpKey), Asked: m.Turn})
}

// held loads a command that waits for a person, and its agent.
func (c *change) held(id bridge.CommandID, m *bridge.Command) (bridge.Agent, error) {
	var err error
	if *m, err = c.Command(id); err != nil {
		return bridge.Agent{}, err
	}
	if m.State == bridge.CommandUncertain {
		return bridge.Agent{}, bridge.Errorf(bridge.Conflict, "command %s is uncertain: look whether it happened, then use `drawbridge resolve`", m.ID)
	}
	if m.State != bridge.CommandHeld {
		return bridge.Agent{}, bridge.Errorf(bridge.Conflict, "command %s is %s and does not wait for an answer; see `drawbridge commands --state held`", m.ID, m.State)
	}
	return c.Agent(m.Agent)
}

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

// Deny refuses a held command and those that are identical to it; the agent hears it once, with the reason when there is one.
func (e *Engine) Deny(ctx context.Context, id bridge.CommandID, reason string) (m bridge.Command, err error) {
	err = e.update(ctx, func(c *change) (err error) {
		m, err = c.deny(id, reason)
		return err
	})
	return m, notFound(err, "command", string(id))
}
