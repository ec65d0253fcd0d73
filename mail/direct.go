package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// check returns an error unless a draft may be sent.
func (d Draft) check() error {
	if d.Within < 0 || d.Within > bridge.MaxJoinWithin {
		return bridge.Errorf(bridge.Invalid, "joined answers may be waited for at most %s", bridge.MaxJoinWithin)
	}
	return checkText(d.Text)
}

// Send writes to the parent, a child or a sibling; a root may write to "USER".
func (s *Service) Send(ctx context.Context, from bridge.AgentID, d Draft) (Sent, error) {
	if err := d.check(); err != nil {
		return Sent{}, err
	}
	d.Joined = false // there is nothing to join
	return s.send(ctx, from, func(p *post) (Sent, error) {
		if d.To == string(bridge.User) {
			return p.toUser(d)
		}
		to, err := p.neighbor(d.To)
		if err != nil {
			return Sent{}, err
		}
		return p.direct(d, []bridge.Agent{to})
	})
}

// Complete reports the result of an agent's work to its parent, or to the operator
// when it has none. While the agent's task is open, this is the task's one result;
// later it is a message like others.
func (s *Service) Complete(ctx context.Context, from bridge.AgentID, text string) (Sent, error) {
	if err := checkText(text); err != nil {
		return Sent{}, err
	}
	return s.send(ctx, from, func(p *post) (Sent, error) {
		if p.from.Parent == "" {
			return p.toUser(Draft{Text: text})
		}
		parent, err := p.Agent(p.from.Parent)
		if err != nil {
			return Sent{}, err
		}
		if err := receives(parent); err != nil {
			return Sent{}, err
		}
		return p.direct(Draft{Text: text, result: p.from.Task != bridge.TaskDone}, []bridge.Agent{parent})
	})
}

// Broadcast writes to all siblings, under one message id. Conflict without any.
func (s *Service) Broadcast(ctx context.Context, from bridge.AgentID, d Draft) (Sent, error) {
	if err := d.check(); err != nil {
		return Sent{}, err
	}
	return s.send(ctx, from, func(p *post) (Sent, error) {
		siblings, err := p.siblings()
		if err != nil {
			return Sent{}, err
		}
		return p.direct(d, siblings)
	})
}

func (p *post) siblings() ([]bridge.Agent, error) {
	var all []bridge.Agent
	if p.from.Parent != "" {
		var err error
		if all, err = p.Agents(bridge.AgentFilter{Parent: p.from.Parent, Limit: bridge.MaxMembers + 2}); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(a bridge.Agent) bool { return a.ID == p.from.ID || receives(a) != nil })
	switch {
	case len(all) == 0:
		return nil, bridge.Errorf(bridge.Conflict, "you have no siblings to broadcast to; write to one agent instead")
	case len(all) > bridge.MaxMembers:
		return nil, bridge.Errorf(bridge.Conflict, "you have more than %d siblings, too many for a broadcast; write to the agents concerned", bridge.MaxMembers)
	}
	slices.Reverse(all) // oldest first
	return all, nil
}

// SendTo writes one message to several agents of the same tree, or with whom
// the sender shares a channel (AGSLAG's send_message and broadcast_message).
func (s *Service) SendTo(ctx context.Context, from bridge.AgentID, to []string, d Draft) (Sent, error) {
	if err := d.check(); err != nil {
		return Sent{}, err
	}
	if len(to) == 0 {
		return Sent{}, bridge.Errorf(bridge.Invalid, "no recipient is named; name at least one agent")
	}
	return s.send(ctx, from, func(p *post) (Sent, error) {
		all, err := p.withinAll(to)
		if err != nil {
			return Sent{}, err
		}
		return p.direct(d, all)
	})
}

// toUser writes to the operator, who gets no turns.
func (p *post) toUser(d Draft) (Sent, error) {
	if p.from.Parent != "" {
		return Sent{}, bridge.Errorf(bridge.Denied, "only agents without a parent may write to USER; write to your parent")
	}
	user := bridge.Agent{ID: bridge.User, Name: string(bridge.User)}
	if err := p.pairLimit(user); err != nil {
		return Sent{}, err
	}
	answered, err := p.answers(d, []bridge.Agent{user})
	if err != nil {
		return Sent{}, err
	}
	m := p.message(bridge.MailDirect, d.Text)
	m.To, m.Urgent, m.Sync, m.ReplyTo = []bridge.AgentID{bridge.User}, d.Urgent, d.Sync, answered.ID
	sent, err := p.deliver(m, "", []target{{agent: user, direct: true, awaited: d.Sync}})
	if err != nil {
		return Sent{}, err
	}
	return sent, p.settle(answered, m)
}

// direct writes one message to agents that were found to be within reach.
func (p *post) direct(d Draft, to []bridge.Agent) (Sent, error) {
	m := p.message(bridge.MailDirect, d.Text)
	m.Urgent = d.Urgent
	if d.Joined {
		m.JoinBy = p.Now().Add(or(d.Within, p.o.JoinWithin))
	}
	targets := make([]target, len(to))
	var mute []string
	for i, a := range to {
		if err := p.pairLimit(a); err != nil {
			return Sent{}, err
		}
		m.To = append(m.To, a.ID)
		targets[i] = target{agent: a, loud: true, direct: true, result: d.result}
		if !d.Sync && !d.Joined {
			continue
		}
		_, why, err := p.silent(a.ID)
		if err != nil {
			return Sent{}, err
		}
		if targets[i].awaited = why == ""; why != "" {
			mute = append(mute, fmt.Sprintf("%s cannot answer now: %s", a.Name, why))
		}
	}
	m.Sync = d.Sync && len(mute) < len(to)
	answered, err := p.answers(d, to)
	if err != nil {
		return Sent{}, err
	}
	m.ReplyTo = answered.ID
	if answered.Sync || !answered.JoinBy.IsZero() {
		targets[0].answers = answered.ID
	}
	if answered.JoinBy.After(p.Now()) {
		targets[0].held = answered.ID
	}
	sent, err := p.deliver(m, directHead(m), targets)
	if err != nil {
		return Sent{}, err
	}
	sent.Mute = strings.Join(mute, "; ")
	if err := p.settle(answered, m); err != nil {
		return Sent{}, err
	}
	return sent, p.awaitJoined(m)
}

// directHead is how the bridge announces a direct message. Names cannot hold
// anything but letters, digits, dots, dashes and underscores.
func directHead(m bridge.Message) bridge.Words {
	switch {
	case m.ReplyTo != "" && m.Sync:
		return words.Say("Reply from %s (to message %s), who waits for your reply (message %s):", m.FromName, m.ReplyTo, m.ID)
	case m.ReplyTo != "":
		return words.Say("Reply from %s (to message %s):", m.FromName, m.ReplyTo)
	}
	head := bridge.Words("Message")
	if m.Urgent {
		head = "Urgent message"
	}
	if m.Sync || !m.JoinBy.IsZero() {
		return words.Say("%s from %s, who waits for your reply (message %s):", head, m.FromName, m.ID)
	}
	return words.Say("%s from %s (message %s):", head, m.FromName, m.ID)
}

// answers returns the message that a draft to one agent answers, or the zero
// one: what the draft names, or else the oldest that the agent waits for an
// answer to and that the sender was shown. What crossed in the mail is no answer.
func (p *post) answers(d Draft, to []bridge.Agent) (bridge.Message, error) {
	if len(to) != 1 {
		if d.ReplyTo != "" {
			return bridge.Message{}, bridge.Errorf(bridge.Invalid, "a reply goes to one agent; leave out reply_to, or name only the sender of that message")
		}
		return bridge.Message{}, nil
	}
	if d.ReplyTo != "" {
		l, err := p.Letter(d.ReplyTo, p.from.ID)
		if errors.Is(err, bridge.ErrNoRow) || (err == nil && l.From != to[0].ID) {
			return bridge.Message{}, bridge.Errorf(bridge.Invalid, "%s did not send you a message %+.60q to reply to", to[0].Name, d.ReplyTo)
		}
		if err != nil {
			return bridge.Message{}, err
		}
		return p.Message(l.Message)
	}
	l, err := p.AwaitedLetter(to[0].ID, p.from.ID)
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Message{}, nil
	}
	if err != nil {
		return bridge.Message{}, err
	}
	return p.Message(l.Message)
}

// settle notes that a message was answered, and lets go of joined answers when
// this was the last one.
func (p *post) settle(answered, answer bridge.Message) error {
	if answered.ID == "" {
		return nil
	}
	l, err := p.Letter(answered.ID, p.from.ID)
	if err != nil {
		return err
	}
	if l.Answer != "" {
		return nil // the first answer counts
	}
	l.Awaited, l.Answer = false, answer.ID
	if err := p.UpdateLetter(l); err != nil {
		return err
	}
	if !answered.JoinBy.After(p.Now()) {
		return p.WakeLane(bridge.MailLane(answered.ID), p.Now()) // nothing is left to wait for
	}
	letters, err := p.Letters(answered.ID)
	if err != nil {
		return err
	}
	if waits, err := p.waits(answered, letters); err != nil || waits {
		return err
	}
	return p.release(answered, letters)
}

// awaitJoined ends the wait for joined answers at its deadline. It is looked at
// once now: perhaps nobody can answer.
func (p *post) awaitJoined(m bridge.Message) error {
	if m.JoinBy.IsZero() {
		return nil
	}
	return p.Enqueue(bridge.Work{Lane: bridge.MailLane(m.ID), Kind: bridge.WorkMail, Ref: refJoin + " " + string(m.ID), Due: p.Now()})
}

// awaitReply ends the wait for the replies to a message at its deadline.
func (p *post) awaitReply(m bridge.Message, to []target) error {
	awaited := slices.ContainsFunc(to, func(t target) bool { return t.awaited })
	if !awaited || !m.JoinBy.IsZero() {
		return nil
	}
	return p.Enqueue(bridge.Work{Lane: bridge.MailLane(m.ID), Kind: bridge.WorkMail, Ref: refReply + " " + string(m.ID), Due: p.Now().Add(p.o.ReplyWithin)})
}

// release brings the sender of a broadcast what answers there are, as one turn.
func (p *post) release(m bridge.Message, letters []bridge.Letter) error {
	early := m.JoinBy.After(p.Now())
	m.JoinBy = time.Time{}
	if err := p.UpdateMessage(m); err != nil {
		return err
	}
	if _, err := p.ReleaseNotices(bridge.HeldFor(m.ID)); err != nil {
		return err
	}
	sender, err := p.Agent(m.From)
	if err != nil {
		return err
	}
	var missing []string
	for _, l := range letters {
		if l.Answer != "" {
			continue
		}
		a, why, err := p.silent(l.Agent)
		if err != nil {
			return err
		}
		if why == "" && !l.Awaited {
			why = words.ReadOnly
		}
		l.Awaited = false
		if err := p.UpdateLetter(l); err != nil {
			return err
		}
		name := string(words.Name(a.Name))
		if why != "" {
			name += " (" + why + ")"
		}
		missing = append(missing, name)
	}
	text := words.Say("All %d answers to your broadcast %s are here.", len(letters), m.ID)
	if len(letters) == 1 {
		text = words.Say("The answer to your broadcast %s is here.", m.ID)
	}
	if len(missing) > 0 {
		over := "The time for answers to your broadcast %s is over"
		if early {
			over = "No other agent can answer your broadcast %s now"
		}
		text = words.Say(over+": %d of %d answers came; none from %s. Later answers reach you as separate messages.",
			m.ID, len(letters)-len(missing), len(letters), words.Own(strings.Join(missing, ", ")))
	}
	if err := p.Record(bridge.EventJoined, sender, bridge.Event{Turn: m.Turn, Text: string(text), Fields: map[string]string{"message": string(m.ID)}}); err != nil {
		return err
	}
	_, err = p.Notify(bridge.Notice{Agent: m.From, Cause: bridge.CauseMessage, Text: text, Depth: m.Depth, Join: bridge.HeldFor(m.ID)})
	return err
}
