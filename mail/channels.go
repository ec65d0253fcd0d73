package mail

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// PostChannel writes into a channel, by name or id, of which from is a member. It
// wakes nobody. The id of a DM is fine and does what DM does.
func (s *Service) PostChannel(ctx context.Context, from bridge.AgentID, channel, text string) (Sent, error) {
	if err := checkText(text); err != nil {
		return Sent{}, err
	}
	return s.send(ctx, from, func(p *post) (Sent, error) {
		c, err := p.conversation(channel)
		if err != nil {
			return Sent{}, err
		}
		switch c.Kind {
		case bridge.MailThread:
			return Sent{}, bridge.Errorf(bridge.Invalid, "%s is a thread; send a message with its thread_id instead", c.ID)
		case bridge.MailDM:
			return p.intoDM(c, text)
		}
		if err := errors.Join(isOpen(c), p.postLimit(c)); err != nil {
			return Sent{}, err
		}
		m := p.message(bridge.MailChannel, text)
		m.Conversation = c.ID
		return p.toGroup(m, c, nil)
	})
}

// DM writes to one agent of the same tree, or with whom a channel is shared. It
// wakes it while the chain of turns is short; see Options.ChainDepth. A root may
// write to "USER".
func (s *Service) DM(ctx context.Context, from bridge.AgentID, to, text string) (Sent, error) {
	if err := checkText(text); err != nil {
		return Sent{}, err
	}
	return s.send(ctx, from, func(p *post) (Sent, error) {
		if to == string(bridge.User) {
			return p.toUser(Draft{Text: text})
		}
		other, err := p.within(to)
		if err != nil {
			return Sent{}, err
		}
		c, err := p.dm(other)
		if err != nil {
			return Sent{}, err
		}
		return p.intoDM(c, text)
	})
}

// dm returns the DM of the sender and another agent, and makes it when there is
// none. Its id is made of both names in order (seed-semantics: The office). When
// a name went over to another agent, that one gets a DM of its own.
func (p *post) dm(other bridge.Agent) (bridge.Conversation, error) {
	first, second := p.from, other
	if first.Name > second.Name {
		first, second = second, first
	}
	id := bridge.ConversationID("dm:" + first.Name + ":" + second.Name)
	for _, id := range []bridge.ConversationID{id, id + ":" + bridge.ConversationID(first.ID) + ":" + bridge.ConversationID(second.ID)} {
		c, err := p.Conversation(id)
		if errors.Is(err, bridge.ErrNoRow) {
			return p.newDM(id, first, second)
		}
		if err != nil {
			return c, err
		}
		one, err := p.IsMember(id, first.ID)
		if err != nil {
			return c, err
		}
		if two, err := p.IsMember(id, second.ID); err != nil || (one && two) {
			return c, err
		}
	}
	return bridge.Conversation{}, fmt.Errorf("DM %q has other members", id)
}

func (p *post) newDM(id bridge.ConversationID, members ...bridge.Agent) (bridge.Conversation, error) {
	c := bridge.Conversation{ID: id, Kind: bridge.MailDM, Creator: p.from.ID, Status: bridge.ConversationActive, CreatedAt: p.Now(), UpdatedAt: p.Now()}
	if err := p.InsertConversation(c); err != nil {
		return c, err
	}
	for _, a := range members {
		if _, err := p.AddMember(id, a.ID, p.Now()); err != nil {
			return c, err
		}
	}
	return c, nil
}

// intoDM writes into a DM. It wakes the other while the turn that this starts
// would stand low enough in its chain; deeper ones are read with its next turn.
func (p *post) intoDM(c bridge.Conversation, text string) (Sent, error) {
	if err := isOpen(c); err != nil {
		return Sent{}, err
	}
	targets, err := p.others(c, nil)
	if err != nil {
		return Sent{}, err
	}
	for i := range targets {
		if err := errors.Join(receives(targets[i].agent), p.pairLimit(targets[i].agent)); err != nil {
			return Sent{}, err
		}
		targets[i].direct, targets[i].loud = true, p.depth+1 < p.o.ChainDepth
	}
	m := p.message(bridge.MailDM, text)
	m.Conversation = c.ID
	return p.deliver(m, words.Say("DM from %s (message %s):", m.FromName, m.ID), targets)
}

// Say is the operator's own word to a channel, a thread or a DM (by name or id),
// or to an agent. It starts a chain again and wakes all who get it, the members
// of a conversation one after another.
func (s *Service) Say(ctx context.Context, to, text string) (sent Sent, err error) {
	if err := checkText(text); err != nil {
		return Sent{}, err
	}
	err = s.change(ctx, bridge.User, func(p *post) error {
		c, err := findConversation(p.Change.Scene, to)
		if errors.Is(err, bridge.ErrNoRow) {
			sent, err = p.sayTo(to, text)
			return err
		}
		if err != nil {
			return err
		}
		if err := isOpen(c); err != nil {
			return err
		}
		group, err := p.Members(c.ID)
		if err != nil {
			return err
		}
		if len(group) == 0 {
			return bridge.Errorf(bridge.Conflict, "%s has no members; add one with `drawbridge channels add`", c.ID)
		}
		m := p.message(c.Kind, text)
		m.Conversation = c.ID
		sent, err = p.toGroup(m, c, group)
		return err
	})
	return sent, err
}

func (p *post) sayTo(who, text string) (Sent, error) {
	a, err := p.find(who)
	if err != nil {
		return Sent{}, noRow(err, bridge.Errorf(bridge.NotFound, "no channel and no agent %+.60q; list them with `drawbridge channels` and `drawbridge agents`", who))
	}
	if err := receives(a); err != nil {
		return Sent{}, err
	}
	if a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return Sent{}, bridge.Errorf(bridge.Conflict, "agent %s is %s, so a message does not start a turn; use `drawbridge say %s` instead", a.Name, a.State, a.Name)
	}
	m := p.message(bridge.MailDirect, text)
	m.To = []bridge.AgentID{a.ID}
	head := words.Say("The operator wrote to you (message %s):", m.ID)
	answered, err := p.answers(Draft{}, []bridge.Agent{a})
	if err != nil {
		return Sent{}, err
	}
	if answered.ID != "" {
		m.ReplyTo = answered.ID
		head = directHead(m)
	}
	sent, err := p.deliver(m, head, []target{{agent: a, loud: true, direct: true}})
	if err != nil {
		return Sent{}, err
	}
	return sent, p.settle(answered, m)
}

// checkEmoji returns an Invalid error unless a text is short enough for one and
// shows as itself: an emoji, or a short code such as :+1:.
func checkEmoji(emoji string) error {
	if emoji == "" || !(shortCode.MatchString(emoji) || symbols(emoji)) || len(emoji) > 64 || utf8.RuneCountInString(emoji) > 24 || !utf8.ValidString(emoji) ||
		strings.ContainsFunc(emoji, func(r rune) bool {
			// The joiner and the variation selector hold an emoji together.
			return unicode.IsSpace(r) || (!unicode.IsGraphic(r) && r != '\u200d' && r != '\ufe0f')
		}) {
		return bridge.Errorf(bridge.Invalid, "%+.80q is not an emoji; use one such as 👍 or a short code such as :+1:", emoji)
	}
	return nil
}

var shortCode = regexp.MustCompile(`^:[A-Za-z0-9_+-]{1,40}:$`)

// symbols reports whether a text is more than letters, digits and signs of ASCII:
// those would be words under a message that nobody checks as words.
func symbols(text string) bool {
	beyond := false
	for _, r := range text {
		if r < utf8.RuneSelf && unicode.IsLetter(r) {
			return false
		}
		beyond = beyond || r >= utf8.RuneSelf
	}
	return beyond
}

// visible loads a message that the caller wrote or got. One in a conversation is
// visible to its present members alone.
func (p *post) visible(id bridge.MessageID) (bridge.Message, error) {
	m, err := p.Message(id)
	if err == nil {
		err = p.sees(m)
	}
	return m, noRow(err, bridge.Errorf(bridge.NotFound, "there is no message %+.60q that you can see", id))
}

// sees returns ErrNoRow for a message that the caller may not read.
func (p *post) sees(m bridge.Message) error {
	if p.byUser() {
		return nil
	}
	may, err := bridge.MayRead(p.Change.Scene, m, p.from.ID)
	if err == nil && !may {
		err = bridge.ErrNoRow
	}
	return err
}

// React puts an emoji on a message that the agent may see. false says that it
// was there already, which is fine. It wakes nobody.
func (s *Service) React(ctx context.Context, agent bridge.AgentID, id bridge.MessageID, emoji string) (bool, error) {
	return s.react(ctx, agent, reaction{id, emoji, bridge.EventReactionAdded, (*bridge.Scene).AddReaction})
}

// Unreact takes a reaction away; false says that there was none, which is fine.
func (s *Service) Unreact(ctx context.Context, agent bridge.AgentID, id bridge.MessageID, emoji string) (bool, error) {
	return s.react(ctx, agent, reaction{id, emoji, bridge.EventReactionRemoved, (*bridge.Scene).RemoveReaction})
}

// reaction is a change of one, and the event that tells of it.
type reaction struct {
	message bridge.MessageID
	emoji   string
	event   string
	change  func(*bridge.Scene, bridge.Reaction) (bool, error)
}

func (s *Service) react(ctx context.Context, agent bridge.AgentID, r reaction) (changed bool, err error) {
	if err := checkEmoji(r.emoji); err != nil {
		return false, err
	}
	err = s.write(ctx, agent, func(p *post) error {
		_, err = s.do(p, func() (string, error) {
			changed, err = p.react(r)
			return string(r.message), err
		})
		return err
	})
	return changed, err
}

func (p *post) react(r reaction) (changed bool, err error) {
	m, err := p.visible(r.message)
	if err != nil {
		return false, err
	}
	if changed, err = r.change(p.Change.Scene, bridge.Reaction{Message: m.ID, Agent: p.from.ID, Emoji: r.emoji, CreatedAt: p.Now()}); err != nil || !changed {
		return false, err
	}
	if err := p.reactionRoom(m.ID); err != nil {
		return false, err
	}
	return true, p.record(r.event, bridge.Event{Text: words.SafeWord(r.emoji), Fields: map[string]string{
		"message": string(m.ID), "conversation": string(m.Conversation), "emoji": r.emoji, "from": string(p.from.ID)}})
}

// Edit changes the text of an own message (any, for bridge.User), also where it
// still waits to be read. Who read it already is not told.
func (s *Service) Edit(ctx context.Context, by bridge.AgentID, id bridge.MessageID, text string) (m bridge.Message, err error) {
	if err := checkText(text); err != nil {
		return m, err
	}
	err = s.write(ctx, by, func(p *post) error {
		if m, err = p.own(id); err != nil {
			return err
		}
		if !m.DeletedAt.IsZero() {
			return bridge.Errorf(bridge.Conflict, "message %s was withdrawn; write another one", m.ID)
		}
		if err := p.sees(m); err != nil { // new words are a post, which only members make
			return noRow(err, bridge.Errorf(bridge.NotFound, "you are not in the conversation of message %s any more, so you can only delete the message", m.ID))
		}
		m.Text, m.EditedAt = text, p.Now()
		return p.rewrite(m, bridge.EventMessageUpdated)
	})
	return m, err
}

// Delete withdraws the text of an own message (any, for bridge.User), also where
// it still waits to be read. Twice is fine.
func (s *Service) Delete(ctx context.Context, by bridge.AgentID, id bridge.MessageID) (m bridge.Message, err error) {
	err = s.write(ctx, by, func(p *post) error {
		if m, err = p.own(id); err != nil || !m.DeletedAt.IsZero() {
			return err
		}
		m.Text, m.Files, m.DeletedAt = "", nil, p.Now()
		if err := p.stopAwaiting(m); err != nil {
			return err
		}
		return p.rewrite(m, bridge.EventMessageDeleted)
	})
	return m, err
}

// stopAwaiting ends the wait for answers to a message that its sender withdrew.
func (p *post) stopAwaiting(m bridge.Message) error {
	letters, err := p.Letters(m.ID)
	if err != nil {
		return err
	}
	for _, l := range letters {
		if !l.Awaited {
			continue
		}
		l.Awaited = false
		if err := errors.Join(p.UpdateLetter(l), p.WakeLane(bridge.MailLane(m.ID), p.Now())); err != nil {
			return err
		}
	}
	return nil
}

// own loads a message that the caller may change. What the bridge wrote stays.
func (p *post) own(id bridge.MessageID) (bridge.Message, error) {
	m, err := p.Message(id)
	if err == nil && (m.System || (len(m.Files) > 0 && !p.byUser())) {
		return m, bridge.Errorf(bridge.Denied, "the bridge wrote message %s, so you cannot change or delete it; write a new message", m.ID)
	}
	if err == nil && !p.byUser() && m.From != p.from.ID {
		err = bridge.ErrNoRow
	}
	if p.byUser() {
		return m, noRow(err, bridge.Errorf(bridge.NotFound, "there is no message %+.60q; `drawbridge mail` and `drawbridge channels show` list ids", id))
	}
	return m, noRow(err, bridge.Errorf(bridge.NotFound, "you wrote no message %+.60q", id))
}

// rewrite records a message's new text, also where it still waits.
func (p *post) rewrite(m bridge.Message, event string) error {
	if err := p.UpdateMessage(m); err != nil {
		return err
	}
	text, untrusted := bridge.Words(""), "(this message was withdrawn)"
	if m.DeletedAt.IsZero() {
		var err error
		if untrusted, err = p.toldOf(m); err != nil {
			return err
		}
	}
	if m.From == bridge.User {
		text, untrusted = words.Say("The operator wrote (message %s):\n\n%s", m.ID, words.Person(or(m.Text, "(this message was withdrawn)"))), ""
	}
	if _, err := p.RewriteNotices(m.ID, text, untrusted); err != nil {
		return err
	}
	return p.tell(event, m)
}
