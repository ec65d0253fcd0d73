package mail

import (
	"context"
	"errors"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// CreateChannel makes a channel for the operator, with members by name or id.
// Conflict when the name is taken.
func (s *Service) CreateChannel(ctx context.Context, name string, members ...string) (v Conversation, err error) {
	if err := bridge.CheckChannelName(name); err != nil {
		return v, err
	}
	err = s.change(ctx, bridge.User, func(p *post) error {
		if _, err := p.find(name); err == nil || bridge.KindOf(err) == bridge.Conflict {
			return bridge.Errorf(bridge.Conflict, "an agent is named %q; choose another name for the channel, so that `drawbridge post` can tell them apart", name)
		} else if !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
		c := bridge.Conversation{ID: bridge.ConversationID(p.NewID("chn_")), Kind: bridge.MailChannel, Name: name, Creator: bridge.User,
			Status: bridge.ConversationActive, CreatedAt: p.Now(), UpdatedAt: p.Now()}
		if err := p.InsertConversation(c); err != nil {
			return err
		}
		v, err = p.enroll(c, members)
		return err
	})
	return v, err
}

// AddMembers adds agents to a channel for the operator; those who are members
// already stay it.
func (s *Service) AddMembers(ctx context.Context, channel string, members ...string) (v Conversation, err error) {
	err = s.change(ctx, bridge.User, func(p *post) error {
		c, err := p.channel(channel)
		if err != nil {
			return err
		}
		v, err = p.enroll(c, members)
		return err
	})
	return v, err
}

func (p *post) enroll(c bridge.Conversation, members []string) (Conversation, error) {
	for _, who := range members {
		a, err := p.find(who)
		if err != nil {
			return Conversation{}, noRow(err, bridge.Errorf(bridge.NotFound, "no agent %+.60q; list them with `drawbridge agents`", who))
		}
		if _, err := p.admitQuietly(c, a); err != nil {
			return Conversation{}, err
		}
	}
	return view(p.Change.Scene, c)
}

// admitQuietly makes an agent a member of a channel. It learns of it with its
// next turn; the others see it in what it writes.
func (p *post) admitQuietly(c bridge.Conversation, a bridge.Agent) (bool, error) {
	members, err := p.Members(c.ID)
	if err != nil {
		return false, err
	}
	if len(members) >= bridge.MaxMembers {
		return false, bridge.Errorf(bridge.Conflict, "channel %s has %d members, which is the limit", c.Name, len(members))
	}
	added, err := p.AddMember(c.ID, a.ID, p.Now())
	if err != nil || !added {
		return added, err
	}
	return true, p.mention(a, words.Say("The operator made you a member of channel %s (%s).", c.Name, c.ID))
}

// RemoveMembers takes agents out of a channel for the operator. They are notified with
// their next turns and get nothing of it afterwards.
func (s *Service) RemoveMembers(ctx context.Context, channel string, members ...string) (v Conversation, err error) {
	err = s.change(ctx, bridge.User, func(p *post) error {
		c, err := p.channel(channel)
		if err != nil {
			return err
		}
		for _, who := range members {
			a, err := p.member(c, who)
			if err == nil {
				err = p.expel(c, a)
			}
			if err == nil {
				err = p.mention(a, words.Say("The operator took you out of channel %s (%s). You get no more of its messages, not even those that you have not read.", c.Name, c.ID))
			}
			if err != nil {
				return err
			}
		}
		v, err = view(p.Change.Scene, c)
		return err
	})
	return v, err
}

// SetStatus closes a channel or a thread, or opens it again, for the operator.
func (s *Service) SetStatus(ctx context.Context, which string, status bridge.ConversationStatus) (v Conversation, err error) {
	if status != bridge.ConversationActive && status != bridge.ConversationClosed {
		return v, bridge.Errorf(bridge.Invalid, "status %+.40q: use active or closed", status)
	}
	err = s.change(ctx, bridge.User, func(p *post) error {
		c, err := findConversation(p.Change.Scene, which)
		if err != nil {
			return noRow(err, unknownConversation(which))
		}
		c.Status, c.UpdatedAt = status, p.Now()
		if err := p.UpdateConversation(c); err != nil {
			return err
		}
		v, err = view(p.Change.Scene, c)
		return err
	})
	return v, err
}

// Acknowledge notes that the operator read messages that agents wrote to it, and
// returns how many were new. Nobody is woken for it; the sender sees it in its
// receipts. Twice is fine. NotFound, and nothing is noted, when one was not
// written to the operator.
func (s *Service) Acknowledge(ctx context.Context, ids ...bridge.MessageID) (news int, err error) {
	if len(ids) == 0 || len(ids) > maxAcknowledged {
		return 0, bridge.Errorf(bridge.Invalid, "%d messages are named; name 1 to %d", len(ids), maxAcknowledged)
	}
	err = s.change(ctx, bridge.User, func(p *post) error {
		news = 0
		for _, id := range ids {
			l, err := p.Letter(id, bridge.User)
			if err != nil {
				return noRow(err, bridge.Errorf(bridge.NotFound, "no agent wrote you a message %+.60q; list them with `drawbridge mail USER`", id))
			}
			if !l.ReadAt.IsZero() {
				continue
			}
			l.ReadAt = p.Now()
			if err := p.UpdateLetter(l); err != nil {
				return err
			}
			news++
		}
		return nil
	})
	return news, err
}

// maxAcknowledged bounds one Acknowledge: as many as one page of a list may hold.
const maxAcknowledged = 1000

func unknownConversation(which string) *bridge.Error {
	return bridge.Errorf(bridge.NotFound, "no channel or thread %+.60q; list them with `drawbridge channels`", which)
}

// channel loads one for the operator. Members of threads are the agents' own affair.
func (p *post) channel(which string) (bridge.Conversation, error) {
	c, err := findConversation(p.Change.Scene, which)
	if err == nil && c.Kind != bridge.MailChannel {
		return c, bridge.Errorf(bridge.Invalid, "%s is a %s; only channels have members that you choose", c.ID, c.Kind)
	}
	return c, noRow(err, unknownConversation(which))
}

// Conversations lists conversations for the operator, newest first.
func (s *Service) Conversations(ctx context.Context, f bridge.ConversationFilter) (all []Conversation, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		found, err := tx.Conversations(f)
		if err != nil {
			return err
		}
		for _, c := range found {
			v, err := view(tx, c)
			if err != nil {
				return err
			}
			all = append(all, v)
		}
		return nil
	})
	return all, err
}

// Conversation returns a conversation by id or name, for the operator.
func (s *Service) Conversation(ctx context.Context, which string) (v Conversation, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		c, err := findConversation(tx, which)
		if err != nil {
			return noRow(err, unknownConversation(which))
		}
		v, err = view(tx, c)
		return err
	})
	return v, err
}

// Peeked is a message as the operator sees it.
type Peeked struct {
	bridge.Message
	Receipts  []bridge.Receipt
	Reactions []Reacted
}

// Reacted is a reaction with the name of the agent that it is from, or USER.
type Reacted struct {
	bridge.Reaction
	Name string
}

// Peek is PeekAgent or PeekConversation: newest first, from before on, at most limit.
type Peek func(ctx context.Context, which string, before bridge.MessageID, limit int) ([]Peeked, error)

// PeekAgent returns what was written to an agent, by name or id, or to "USER",
// newest first, for the operator. Nothing is marked as read.
func (s *Service) PeekAgent(ctx context.Context, who string, before bridge.MessageID, limit int) (all []Peeked, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		f := bridge.MessageFilter{To: bridge.User, Before: before, Limit: limit}
		if who != string(bridge.User) {
			a, err := find(tx, who)
			if err != nil {
				return noRow(err, bridge.Errorf(bridge.NotFound, "no agent %+.60q; list them with `drawbridge agents`", who))
			}
			f.To = a.ID
		}
		all, err = peek(tx, f)
		return err
	})
	return all, err
}

// PeekConversation returns what stands in a conversation, by id or name, newest first.
func (s *Service) PeekConversation(ctx context.Context, which string, before bridge.MessageID, limit int) (all []Peeked, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		c, err := findConversation(tx, which)
		if err != nil {
			return noRow(err, unknownConversation(which))
		}
		all, err = peek(tx, bridge.MessageFilter{Conversation: c.ID, Before: before, Limit: limit})
		return err
	})
	return all, err
}

func peek(tx *bridge.Scene, f bridge.MessageFilter) ([]Peeked, error) {
	found, err := tx.Messages(f)
	if err != nil {
		return nil, noRow(err, bridge.Errorf(bridge.NotFound, "the list cannot continue from message %+.60q, which does not exist; start again without it", f.Before))
	}
	all := make([]Peeked, len(found))
	for i, m := range found {
		all[i].Message = m
		if all[i].Receipts, err = receipts(tx, m.ID); err != nil {
			return nil, err
		}
		if all[i].Reactions, err = reactions(tx, m.ID); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// reactions returns a message's reactions with names, oldest first.
func reactions(tx *bridge.Scene, id bridge.MessageID) (all []Reacted, err error) {
	found, err := tx.Reactions(id)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		name := string(r.Agent)
		if r.Agent != bridge.User {
			a, err := tx.Agent(r.Agent)
			if err != nil {
				return nil, err
			}
			name = a.Name
		}
		all = append(all, Reacted{r, name})
	}
	return all, nil
}
