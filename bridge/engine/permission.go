package engine

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

const (
	// permissionOrdinal is where the questions of a turn begin, behind its commands.
	permissionOrdinal = 1_000_000
	// maxPermissions bounds the questions of one turn.
	maxPermissions = 1000
)

// PermissionAsked records a question of an agent that a relay hosts as a command that waits for a person, or notes how far it has come.
// Twice is fine. The error is a *bridge.Error: Denied unless p.Relay hosts the agent under p.Entry, Unavailable while the agent is not
// known yet, Conflict when the id was used for another question. A question on record stays its agent's when the agent gets another session.
func (e *Engine) PermissionAsked(ctx context.Context, p bridge.Permission) error {
	return e.update(ctx, func(c *change) error { return c.permissionAsked(p) })
}

func (c *change) permissionAsked(p bridge.Permission) error {
	m, err := c.Command(bridge.PermissionCommand(p.Relay, p.ID))
	var a bridge.Agent
	switch {
	case err == nil:
		a, err = c.asker(m, p)
	case errors.Is(err, bridge.ErrNoRow):
		a, m, err = c.newPermission(p)
	}
	if err != nil || !p.State.Over() {
		return err
	}
	return c.permissionOver(a, m, p)
}

// asker returns the agent of a question on record. The agent may have left the session that asked, or the relay: the record says whose the
// question is, and its id holds the relay's name.
func (c *change) asker(m bridge.Command, p bridge.Permission) (bridge.Agent, error) {
	known, ok := m.Asks()
	if !ok || known.Hash != p.Hash || known.Session != p.Session || known.Entry != p.Entry {
		return bridge.Agent{}, bridge.Errorf(bridge.Conflict, "question %q of relay %q differs from the question on record", p.ID, p.Relay)
	}
	a, err := c.Agent(m.Agent)
	if err == nil && a.Forgotten() {
		err = bridge.Errorf(bridge.Denied, "agent %s of question %q was forgotten", a.ID, p.ID)
	}
	return a, err
}

// hostedBy reports whether a relay hosts the agent under an entry of its file.
func (c *change) hostedBy(a bridge.Agent, relay, entry string) bool {
	if c.e.o.Hosts == nil || a.Forgotten() {
		return false
	}
	host, name, is := c.e.o.Hosts(a.Runtime)
	return is && host == relay && name == entry
}

// newPermission records the question in the turn of the run in which it was asked.
func (c *change) newPermission(p bridge.Permission) (a bridge.Agent, m bridge.Command, err error) {
	a, err = c.FindAgent(bridge.ByExternal, p.Session)
	if errors.Is(err, bridge.ErrNoRow) {
		return a, m, bridge.Errorf(bridge.Unavailable, "the bridge does not know the agent of question %q yet", p.ID)
	}
	if err != nil {
		return a, m, err
	}
	if !c.hostedBy(a, p.Relay, p.Entry) {
		return a, m, bridge.Errorf(bridge.Denied, "relay %q does not host agent %s as %q", p.Relay, a.ID, p.Entry)
	}
	turn, err := c.turnOfRun(a, p.Run)
	if err != nil {
		return a, m, err
	}
	earlier, err := c.Commands(bridge.CommandFilter{Turn: turn.ID, Verb: bridge.VerbPermission, Limit: maxPermissions})
	if err != nil {
		return a, m, err
	}
	if len(earlier) >= maxPermissions {
		return a, m, bridge.Errorf(bridge.RateLimited, "turn %s asked %d questions, which is the limit; the bridge records no more of them", turn.ID, len(earlier))
	}
	cmd, err := p.Command()
	if err != nil {
		return a, m, err
	}
	m = bridge.Command{
		ID: bridge.PermissionCommand(p.Relay, p.ID), Turn: turn.ID, Agent: a.ID, Ordinal: permissionOrdinal + len(earlier), Parsed: cmd, State: bridge.CommandParsed,
		OpKey: "permission/" + p.Relay + "/" + p.ID, Canonical: p.Kind, Relay: p.Relay, Runtime: a.Runtime, Reason: "the relay asks: " + words.SafeLine(p.Reason, 300),
		CreatedAt: c.now, UpdatedAt: c.now,
	}
	if err := c.InsertCommand(m); err != nil {
		return a, m, err
	}
	if err := c.setCommand(&m, bridge.CommandHeld); err != nil {
		return a, m, err
	}
	return a, m, c.event(bridge.EventHeld, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(m) + ": " + m.Reason, Fields: map[string]string{"verb": string(bridge.VerbPermission), "relay": p.Relay}})
}

// turnOfRun returns the agent's turn of a run, or its last one.
func (c *change) turnOfRun(a bridge.Agent, run string) (bridge.Turn, error) {
	turns, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Limit: 20})
	if err != nil {
		return bridge.Turn{}, err
	}
	for _, t := range turns {
		if t.Run == run {
			return t, nil
		}
	}
	if len(turns) == 0 {
		return bridge.Turn{}, bridge.Errorf(bridge.Unavailable, "agent %s has no turn yet", a.ID)
	}
	return turns[0], nil
}

// permissionOver ends the command of a question that has its answer at the relay. Where the agent's process has ended, its next turn tells it.
func (c *change) permissionOver(a bridge.Agent, m bridge.Command, p bridge.Permission) error {
	waits := p.State == bridge.PermissionYes || p.State == bridge.PermissionNo
	switch {
	case (m.State == bridge.CommandRefused || m.State == bridge.CommandFailed) && waits && m.ApprovalKey != toldKey:
		// The operator's no, or the stop of the tree, came too late for the process. What the relay has counts.
		m.Approved = p.State.Allowed()
		return c.tellPermission(a, m, p)
	case !m.State.Open():
		return nil
	}
	door := words.SafeLine(p.By, 80)
	m.Code, m.Reason, m.Approved = "", "answered: "+door, p.State.Allowed()
	if !m.Approved {
		m.Code, m.Reason = "denied", "a person denied it ("+door+")"
	}
	steps := []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending, bridge.CommandFinished}
	if !m.Approved && m.State == bridge.CommandHeld {
		steps = []bridge.CommandState{bridge.CommandRefused}
	} else if m.State == bridge.CommandGranted {
		steps = steps[1:]
	}
	for _, next := range steps {
		if err := c.setCommand(&m, next); err != nil {
			return err
		}
	}
	kind := map[bool]string{true: bridge.EventApproved, false: bridge.EventDenied}[m.Approved]
	if err := c.event(kind, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(m) + ": " + m.Reason, Fields: map[string]string{"verb": string(m.Parsed.Verb)}}); err != nil {
		return err
	}
	if waits {
		return c.tellPermission(a, m, p)
	}
	return c.pump(&a) // the turn may have ended meanwhile, and its task have waited for this answer alone
}

// toldKey marks a question whose answer the agent has heard, so that it hears it once.
const toldKey = "told"

// tellPermission wakes an agent whose process ended while its question was open. The relay says in the turn what was asked. A session that
// did not ask hears it from the bridge.
func (c *change) tellPermission(a bridge.Agent, m bridge.Command, p bridge.Permission) error {
	m.ApprovalKey = toldKey
	if err := c.UpdateCommand(m); err != nil {
		return err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	word := bridge.Words("no")
	if m.Approved {
		word = "yes"
	}
	n := bridge.Notice{Agent: a.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Commands: []bridge.CommandID{m.ID}, Item: c.item(a, "permission", m.OpKey), Asked: m.Turn,
		Text: words.Say("your question %s has its answer: a person said %s", m.ID, word)}
	if p.Session != a.External {
		n.Text += words.Say("; your earlier session asked it, and the answer counted for that one call; ask again if you still need it")
		n.Untrusted, n.Source, n.Author = words.Clip(p.Tool+" "+p.Arguments, 1000), bridge.OriginTree, a.Name
	}
	return c.tell(n)
}

// decidePermission takes the operator's word on a question. The relay fetches it, checks it against its own hash, and says what came of it.
func (c *change) decidePermission(a bridge.Agent, m bridge.Command, allow bool, reason string) (bridge.Command, error) {
	p, ok := m.Asks()
	if !ok || !p.AtBridge {
		return m, bridge.Errorf(bridge.Denied, "%s can be answered only at the machine of relay %q (approve_by in the relay.yaml there); run `drawbridge-relay approve %s` there", m.ID, p.Relay, p.ID)
	}
	kind := bridge.EventApproved
	m.Approved, m.Code, m.Reason = allow, "", "a person approved it; the relay has not fetched the answer yet"
	if !allow {
		kind, m.Code, m.Reason = bridge.EventDenied, "denied", "a person denied it"
		if reason = words.SafeLine(reason, 300); reason != "" {
			m.Reason += ": " + reason
		}
	}
	next := map[bool]bridge.CommandState{true: bridge.CommandGranted, false: bridge.CommandRefused}[allow]
	if err := c.setCommand(&m, next); err != nil {
		return m, err
	}
	return m, c.event(kind, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(m), Fields: map[string]string{"hash": p.Hash, "verb": string(m.Parsed.Verb)}})
}

// PermissionWord returns the operator's words on those of a relay's questions that have one. What ended otherwise, because its tree was
// stopped, is a no.
func (e *Engine) PermissionWord(ctx context.Context, relay string, ids []string) (all []bridge.PermissionWord, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) error {
		all = nil
		for _, id := range ids {
			m, err := tx.Command(bridge.PermissionCommand(relay, id))
			if errors.Is(err, bridge.ErrNoRow) {
				continue
			}
			if err != nil {
				return fmt.Errorf("load question: %w", err)
			}
			p, ok := m.Asks()
			if !ok || p.Relay != relay || m.State == bridge.CommandHeld || m.State == bridge.CommandParsed {
				continue
			}
			all = append(all, bridge.PermissionWord{ID: id, Hash: p.Hash, Allow: m.Approved && m.State == bridge.CommandGranted})
		}
		return nil
	})
	return all, err
}
