package mail

import (
	"context"
	"slices"

	"drawbridge/bridge"
)

// Listed is a thread as an agent may see it in a list. Members is empty unless the
// agent is one of them.
type Listed struct {
	Conversation
	Member bool
}

// ThreadPage is a part of a list of threads. Next, when it is not empty, asks for the
// older ones.
type ThreadPage struct {
	Threads []Listed
	Next    bridge.ConversationID
}

// maxScanned bounds how many threads one call looks through.
const maxScanned = 2000

// Threads lists the threads that the agent is in, and the open ones that it may join,
// newest first and older than before ("" for the newest). A page may be short, or
// empty, and still have a Next: the other threads are not the agent's to see.
func (s *Service) Threads(ctx context.Context, agent bridge.AgentID, before bridge.ConversationID, limit int) (page ThreadPage, err error) {
	err = s.change(bridge.Forgettable(ctx), agent, func(p *post) error {
		page = ThreadPage{}
		all, err := p.Change.Conversations(bridge.ConversationFilter{Kind: bridge.MailThread, Before: before, Limit: maxScanned + 1})
		if err != nil {
			return err
		}
		members := make([]bridge.Need, len(all))
		for i, c := range all {
			members[i] = bridge.NeedMembers{In: c.ID}
		}
		if err := p.Want(members...); err != nil {
			return err
		}
		within := map[bridge.AgentID]bool{}
		for i, c := range all {
			if len(page.Threads) == limit || i == maxScanned {
				page.Next = all[i-1].ID
				return nil
			}
			l, ok, err := p.listed(c, within)
			if err != nil {
				return err
			}
			if ok {
				page.Threads = append(page.Threads, l)
			}
		}
		return nil
	})
	return page, err
}

// listed returns a thread as the agent may see it; ok is false for one that it neither
// is in nor may join. within remembers which creators are in its reach.
func (p *post) listed(c bridge.Conversation, within map[bridge.AgentID]bool) (l Listed, ok bool, err error) {
	members, err := p.Members(c.ID)
	if err != nil {
		return l, false, err
	}
	l.Member = slices.Contains(members, p.from.ID)
	if !l.Member && (c.Status != bridge.ConversationActive || len(members) >= bridge.MaxMembers) {
		return l, false, nil
	}
	if !l.Member {
		reach, known := within[c.Creator]
		if !known {
			creator, err := p.Agent(c.Creator)
			if err != nil {
				return l, false, err
			}
			if reach, err = p.reaches(creator); err != nil {
				return l, false, err
			}
			within[c.Creator] = reach
		}
		l.Conversation = Conversation{Conversation: c}
		return l, reach, nil
	}
	l.Conversation, err = view(p.Change.Scene, c)
	return l, true, err
}
