package mail

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// checkTitle returns an error unless an agent may give a thread the title.
func checkTitle(title string) error {
	switch {
	case strings.TrimSpace(title) == "":
		return bridge.Errorf(bridge.Invalid, "the title is empty; say what the thread is about")
	case len(title) > bridge.MaxTitle:
		return bridge.Errorf(bridge.TooLarge, "the title has %d bytes; at most %d are allowed", len(title), bridge.MaxTitle)
	case !utf8.ValidString(title) || strings.ContainsFunc(title, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bridge.Errorf(bridge.Invalid, "the title holds line breaks or characters that cannot be shown; write it in one line")
	}
	return nil
}

// conversation loads one by id, or a channel by name, for a member or the operator.
func (p *post) conversation(which string) (bridge.Conversation, error) {
	c, err := findConversation(p.Change.Scene, which)
	member := p.byUser()
	if err == nil && !member {
		member, err = p.IsMember(c.ID, p.from.ID)
	}
	if err == nil && !member {
		err = bridge.ErrNoRow
	}
	return c, noRow(err, bridge.Errorf(bridge.NotFound, "you are not in conversation %+.60q. To enter a thread, join it or ask a member. To enter a channel, ask the operator", which))
}

func findConversation(tx *bridge.Scene, which string) (bridge.Conversation, error) {
	if len(which) > 300 {
		return bridge.Conversation{}, bridge.ErrNoRow
	}
	c, err := tx.Conversation(bridge.ConversationID(which))
	if errors.Is(err, bridge.ErrNoRow) {
		return tx.FindChannel(which)
	}
	return c, err
}

// thread loads a thread of which the caller is a member.
func (p *post) thread(id bridge.ConversationID) (bridge.Conversation, error) {
	c, err := p.conversation(string(id))
	if err == nil && c.Kind != bridge.MailThread {
		err = bridge.Errorf(bridge.Invalid, "%s is a %s, not a thread; only the operator can change its members", c.ID, c.Kind)
	}
	return c, err
}

// isOpen returns a Conflict for a conversation that takes no messages any more.
func isOpen(c bridge.Conversation) error {
	if c.Status != bridge.ConversationActive {
		return bridge.Errorf(bridge.Conflict, "%s is %s and takes no messages; use another one", c.ID, c.Status)
	}
	return nil
}

// view returns a conversation with its members. Whatever happens in it, also to
// its members, is a message there, so that the latest says when it changed.
func view(tx *bridge.Scene, c bridge.Conversation) (Conversation, error) {
	v := Conversation{Conversation: c}
	latest, err := tx.Messages(bridge.MessageFilter{Conversation: c.ID, Limit: 1})
	if err != nil {
		return v, err
	}
	for _, m := range latest {
		if v.Latest = m; m.CreatedAt.After(v.UpdatedAt) {
			v.UpdatedAt = m.CreatedAt
		}
	}
	members, err := tx.Members(c.ID)
	if err != nil {
		return v, err
	}
	for _, id := range members {
		a, err := tx.Agent(id)
		if err != nil {
			return v, err
		}
		v.Members = append(v.Members, Participant{ID: id, Name: a.Name})
	}
	return v, nil
}

// CreateThread makes a thread; its creator is a member. Participants are told,
// with the first message, whose id is returned; without a text it is one that
// the bridge writes. It counts as a message to each of them.
func (s *Service) CreateThread(ctx context.Context, creator bridge.AgentID, d ThreadDraft) (v Conversation, id bridge.MessageID, err error) {
	err = checkTitle(d.Title)
	if d.Text != "" {
		err = errors.Join(err, checkText(d.Text))
	}
	if len(d.Participants) >= bridge.MaxMembers {
		err = errors.Join(err, bridge.Errorf(bridge.Invalid, "a thread has at most %d members", bridge.MaxMembers))
	}
	if err != nil {
		return v, "", err
	}
	sent, err := s.send(ctx, creator, func(p *post) (Sent, error) {
		// Naming oneself is fine: the creator is added anyway (seed: create_thread).
		others, err := p.withinAll(slices.DeleteFunc(slices.Clone(d.Participants), p.isSelf))
		if err != nil {
			return Sent{}, err
		}
		c := bridge.Conversation{ID: bridge.ConversationID(p.NewID("thr_")), Kind: bridge.MailThread, Title: d.Title, Creator: p.from.ID,
			Status: bridge.ConversationActive, CreatedAt: p.Now(), UpdatedAt: p.Now()}
		m, err := p.openThread(c, others, d.Text)
		if err != nil {
			return Sent{}, err
		}
		v, err = view(p.Change.Scene, c)
		return Sent{Message: m}, err
	})
	if err == nil && v.ID != sent.Message.Conversation { // it was made before
		err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
			c, err := tx.Conversation(sent.Message.Conversation)
			if err != nil {
				return err
			}
			v, err = view(tx, c)
			return err
		})
	}
	return v, sent.Message.ID, err
}

func (p *post) isSelf(who string) bool { return who == p.from.Name || who == string(p.from.ID) }

// openThread records a thread with its members and tells them, at once: each of
// them was asked for.
func (p *post) openThread(c bridge.Conversation, others []bridge.Agent, text string) (bridge.Message, error) {
	if err := p.threadRoom(); err != nil {
		return bridge.Message{}, err
	}
	for _, a := range append([]bridge.Agent{p.from}, others...) {
		if err := p.memberRoom(a); err != nil {
			return bridge.Message{}, err
		}
	}
	if err := p.InsertConversation(c); err != nil {
		return bridge.Message{}, err
	}
	if _, err := p.AddMember(c.ID, p.from.ID, p.Now()); err != nil {
		return bridge.Message{}, err
	}
	targets := make([]target, len(others))
	for i, a := range others {
		if err := p.pairLimit(a); err != nil {
			return bridge.Message{}, err
		}
		if _, err := p.AddMember(c.ID, a.ID, p.Now()); err != nil {
			return bridge.Message{}, err
		}
		targets[i] = target{agent: a, loud: true, direct: true}
	}
	m := p.message(bridge.MailThread, text)
	m.Conversation = c.ID
	head := words.Say("%s made thread %s with you (message %s); its title and first message:", p.from.Name, c.ID, m.ID)
	if text == "" {
		m.Text, m.System = string(words.Say("%s made thread %s", p.from.Name, c.ID)), true
	}
	// The title is an agent's words and stands with the message's, not in the head.
	told := m
	told.System = false
	told.Text = withTitle(c.Title, text)
	if err := p.InsertMessage(m); err != nil {
		return bridge.Message{}, err
	}
	for _, t := range targets {
		if err := p.leave(told, head, t); err != nil {
			return bridge.Message{}, err
		}
	}
	return m, p.tell(bridge.EventMessageCreated, m)
}

// withTitle is a thread's first message as its members are told it.
func withTitle(title, text string) string {
	return strings.TrimSuffix("title: "+title+"\n"+text, "\n")
}

// toldOf is a message's text as its recipients are told it. What opened a thread
// was written with it, by its creator.
func (p *post) toldOf(m bridge.Message) (string, error) {
	if m.Kind != bridge.MailThread {
		return m.Text, nil
	}
	c, err := p.Conversation(m.Conversation)
	if err != nil || c.Creator != m.From || !c.CreatedAt.Equal(m.CreatedAt) {
		return m.Text, err
	}
	return withTitle(c.Title, m.Text), nil
}

// system writes into a conversation what an agent did there, for all members but
// those who know. loud ones are woken.
func (p *post) system(c bridge.Conversation, text string, loud ...bridge.AgentID) error {
	m := p.message(c.Kind, text)
	m.Conversation, m.System = c.ID, true
	targets, err := p.others(c, loud)
	if err != nil {
		return err
	}
	_, err = p.deliver(m, "", targets)
	return err
}

// others are the members of a conversation but for the sender.
func (p *post) others(c bridge.Conversation, loud []bridge.AgentID) ([]target, error) {
	members, err := p.Members(c.ID)
	if err != nil {
		return nil, err
	}
	var all []target
	for _, id := range members {
		if id == p.from.ID {
			continue
		}
		a, err := p.Agent(id)
		if err != nil {
			return nil, err
		}
		all = append(all, target{agent: a, loud: slices.Contains(loud, id)})
	}
	return all, nil
}

// Join makes the agent a member of a thread of its tree, or whose creator shares
// a channel with it. joined is false when it is one already.
func (s *Service) Join(ctx context.Context, agent bridge.AgentID, thread bridge.ConversationID) (v Conversation, joined bool, err error) {
	err = s.write(ctx, agent, func(p *post) error {
		v, joined, err = s.admitOnce(p, thread, func() (bool, error) {
			c, err := p.joinable(thread)
			if err != nil {
				return false, err
			}
			return p.admit(c, p.from, string(words.Say("%s joined thread %s", p.from.Name, c.ID)))
		})
		return err
	})
	return v, joined, err
}

// The results that admitOnce keeps.
const (
	admitted  = "a new member"
	wasMember = "a member before"
)

// admitOnce runs admit once, and shows the thread as it is afterwards.
func (s *Service) admitOnce(p *post, thread bridge.ConversationID, admit func() (bool, error)) (v Conversation, added bool, err error) {
	result, err := s.do(p, func() (string, error) {
		if added, err := admit(); err != nil || !added {
			return wasMember, err
		}
		return admitted, nil
	})
	if err != nil {
		return v, false, err
	}
	c, err := p.thread(thread)
	if err != nil {
		return v, false, err
	}
	v, err = view(p.Change.Scene, c)
	return v, result == admitted, err
}

// joinable loads a thread that the agent may join.
func (p *post) joinable(id bridge.ConversationID) (bridge.Conversation, error) {
	unknown := bridge.Errorf(bridge.NotFound, "there is no thread %+.60q that you may join; ask a member to add you", id)
	c, err := p.Conversation(id)
	if err == nil && c.Kind != bridge.MailThread {
		err = bridge.ErrNoRow
	}
	if err != nil {
		return c, noRow(err, unknown)
	}
	if member, err := p.IsMember(id, p.from.ID); err != nil || member {
		return c, err
	}
	creator, err := p.Agent(c.Creator)
	if err != nil {
		return c, noRow(err, unknown)
	}
	ok, err := p.reaches(creator)
	if err == nil && !ok {
		err = unknown
	}
	return c, err
}

// admit makes an agent a member and says so to all. An agent that another one added
// is woken; everybody else reads it with the next turn. It returns false for a member.
func (p *post) admit(c bridge.Conversation, a bridge.Agent, text string) (bool, error) {
	if err := isOpen(c); err != nil {
		return false, err
	}
	members, err := p.Members(c.ID)
	if err != nil {
		return false, err
	}
	if slices.Contains(members, a.ID) {
		return false, nil
	}
	if len(members) >= bridge.MaxMembers {
		return false, bridge.Errorf(bridge.Conflict, "%s has %d members, which is the limit", c.ID, len(members))
	}
	if err := errors.Join(p.postLimit(c), p.memberRoom(a)); err != nil {
		return false, err
	}
	if _, err := p.AddMember(c.ID, a.ID, p.Now()); err != nil {
		return false, err
	}
	if a.ID == p.from.ID { // the message goes to all but its author
		if err := p.mention(a, words.Say("You joined thread %s. get_messages with its thread_id shows what was written before.", c.ID)); err != nil {
			return false, err
		}
	}
	return true, p.system(c, text, a.ID)
}

// AddParticipant adds an agent to a thread of which by is a member. Adding a
// member again changes nothing and is no error; added is false then.
func (s *Service) AddParticipant(ctx context.Context, by bridge.AgentID, thread bridge.ConversationID, who string) (v Conversation, added bool, err error) {
	err = s.write(ctx, by, func(p *post) error {
		v, added, err = s.admitOnce(p, thread, func() (bool, error) {
			c, err := p.thread(thread)
			if err != nil {
				return false, err
			}
			a := p.from
			if !p.isSelf(who) { // who invites itself is a member already
				if a, err = p.within(who); err != nil {
					return false, err
				}
			}
			return p.admit(c, a, string(words.Say("%s added %s to thread %s", p.from.Name, a.Name, c.ID)))
		})
		return err
	})
	return v, added, err
}

// Thread returns a thread of which the agent is a member.
func (s *Service) Thread(ctx context.Context, agent bridge.AgentID, thread bridge.ConversationID) (v Conversation, err error) {
	err = s.change(ctx, agent, func(p *post) error {
		c, err := p.thread(thread)
		if err != nil {
			return err
		}
		v, err = view(p.Change.Scene, c)
		return err
	})
	return v, err
}

// PostThread writes into a thread of which from is a member. It wakes the
// thread's creator and who wrote in it before, one after another; all of its
// members, at once, when it is urgent.
func (s *Service) PostThread(ctx context.Context, from bridge.AgentID, thread bridge.ConversationID, d Draft) (Sent, error) {
	if err := d.check(); err != nil {
		return Sent{}, err
	}
	return s.send(ctx, from, func(p *post) (Sent, error) {
		c, err := p.thread(thread)
		if err != nil {
			return Sent{}, err
		}
		if err := errors.Join(isOpen(c), p.postLimit(c)); err != nil {
			return Sent{}, err
		}
		group, err := p.repliers(c)
		if err != nil {
			return Sent{}, err
		}
		m := p.message(bridge.MailThread, d.Text)
		m.Conversation, m.Urgent, m.ReplyTo = c.ID, d.Urgent, d.ReplyTo
		if err := p.answersIn(m); err != nil {
			return Sent{}, err
		}
		return p.toGroup(m, c, group)
	})
}

// answersIn refuses a reply to something that does not stand in the conversation.
func (p *post) answersIn(m bridge.Message) error {
	if m.ReplyTo == "" {
		return nil
	}
	to, err := p.Message(m.ReplyTo)
	if err == nil && to.Conversation != m.Conversation {
		err = bridge.ErrNoRow
	}
	return noRow(err, bridge.Errorf(bridge.Invalid, "there is no message %+.60q in %s to reply to", m.ReplyTo, m.Conversation))
}

// repliers are the creator of a thread and those who wrote in it, but for the sender.
func (p *post) repliers(c bridge.Conversation) ([]bridge.AgentID, error) {
	posters, err := p.Posters(c.ID)
	if err != nil {
		return nil, err
	}
	if member, err := p.IsMember(c.ID, c.Creator); err != nil {
		return nil, err
	} else if member && !slices.Contains(posters, c.Creator) {
		posters = slices.Insert(posters, 0, c.Creator)
	}
	return slices.DeleteFunc(posters, func(id bridge.AgentID) bool { return id == p.from.ID }), nil
}

// toGroup writes into a conversation and wakes some of its members one after
// another; the rest reads it with their next turn. An urgent message wakes all at once.
func (p *post) toGroup(m bridge.Message, c bridge.Conversation, group []bridge.AgentID) (Sent, error) {
	targets, err := p.others(c, group[:min(len(group), 1)])
	if err != nil {
		return Sent{}, err
	}
	for i := range targets {
		targets[i].loud = targets[i].loud || m.Urgent
	}
	sent, err := p.deliver(m, groupHead(m, c), targets)
	if err != nil || m.Urgent {
		return sent, err
	}
	sent.Woken = len(group)
	return sent, p.startWave(m, group)
}

// groupHead is how the bridge announces a message in a conversation. A channel's
// name is a person's; a title, which is an agent's, never stands here.
func groupHead(m bridge.Message, c bridge.Conversation) bridge.Words {
	urgent := bridge.Words("")
	if m.Urgent {
		urgent = ", urgent"
	}
	where := words.Say("thread %s", c.ID)
	if c.Kind == bridge.MailChannel {
		where = words.Say("channel %s (%s)", c.Name, c.ID)
	}
	if m.ReplyTo != "" {
		return words.Say("%s in %s (message %s, in reply to %s%s):", m.FromName, where, m.ID, m.ReplyTo, urgent)
	}
	return words.Say("%s in %s (message %s%s):", m.FromName, where, m.ID, urgent)
}
