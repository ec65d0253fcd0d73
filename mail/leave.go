package mail

import (
	"context"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// Leave ends the agent's membership. The creator cannot leave.
func (s *Service) Leave(ctx context.Context, agent bridge.AgentID, thread bridge.ConversationID) (Conversation, error) {
	return s.RemoveParticipant(ctx, agent, thread, string(agent))
}

// RemoveParticipant takes an agent out of a thread: itself, or anyone when by is
// the creator, who cannot be removed. The agent is notified with its next turn, and
// gets nothing of the thread afterwards, nor what waited for it.
func (s *Service) RemoveParticipant(ctx context.Context, by bridge.AgentID, thread bridge.ConversationID, who string) (v Conversation, err error) {
	err = s.write(ctx, by, func(p *post) error {
		id, err := s.do(p, func() (string, error) { return string(thread), p.removeFrom(thread, who) })
		if err != nil {
			return err
		}
		c, err := p.Conversation(bridge.ConversationID(id))
		if err != nil {
			return err
		}
		v, err = view(p.Change.Scene, c)
		return err
	})
	return v, err
}

func (p *post) removeFrom(thread bridge.ConversationID, who string) error {
	c, err := p.thread(thread)
	if err != nil {
		return err
	}
	a, err := p.member(c, who)
	if err != nil {
		return err
	}
	switch {
	case a.ID != p.from.ID && !p.byUser() && c.Creator != p.from.ID:
		return bridge.Errorf(bridge.Denied, "only the creator of %s may remove others; you may leave it yourself", c.ID)
	case a.ID == c.Creator:
		return bridge.Errorf(bridge.Denied, "the creator of %s cannot be removed", c.ID)
	}
	return p.leaveThread(c, a)
}

// member finds a member of a conversation. Another agent is not found in the same
// words as one that never was.
func (p *post) member(c bridge.Conversation, who string) (bridge.Agent, error) {
	a, err := p.find(who)
	if err == nil {
		var here bool
		if here, err = p.IsMember(c.ID, a.ID); err == nil && !here {
			err = bridge.ErrNoRow
		}
	}
	lists := "get_thread_details lists its members"
	if c.Kind == bridge.MailChannel {
		lists = "`drawbridge channels` lists members"
	}
	return a, noRow(err, bridge.Errorf(bridge.NotFound, "%+.60q is not a member of %s; %s", who, or(c.Name, string(c.ID)), lists))
}

// leaveThread ends a membership and says so in the thread and to the agent.
func (p *post) leaveThread(c bridge.Conversation, a bridge.Agent) error {
	if err := p.expel(c, a); err != nil {
		return err
	}
	if a.ID == p.from.ID {
		return p.system(c, string(words.Say("%s left thread %s", a.Name, c.ID)))
	}
	if err := p.mention(a, words.Say("%s removed you from thread %s. You get no more of its messages, not even those that you have not read.", p.from.Name, c.ID)); err != nil {
		return err
	}
	return p.system(c, string(words.Say("%s removed %s from thread %s", p.from.Name, a.Name, c.ID)))
}

// expel ends a membership. What waits for the agent from there is withdrawn.
func (p *post) expel(c bridge.Conversation, a bridge.Agent) error {
	if _, err := p.RemoveMember(c.ID, a.ID); err != nil {
		return err
	}
	return p.WithdrawFrom(a.ID)
}

// mention tells an agent something with its next turn; it wakes nobody.
func (p *post) mention(a bridge.Agent, text bridge.Words) error {
	_, err := p.Notify(bridge.Notice{Agent: a.ID, Cause: bridge.CauseMessage, Quiet: true, Depth: p.depth, Text: text})
	return err
}
