package mail

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"drawbridge/bridge"
)

// Bounds of what one call returns: messages, and bytes of their texts.
const (
	maxInbox   = 50
	maxUnread  = 1000
	maxQuery   = 100
	usualQuery = 10
	maxTexts   = 256 << 10
)

// fitting returns those of some messages, from the first on, that one call
// returns: what counts as fetched must not be too large for whoever fetches it.
func fitting(all []bridge.Message) []bridge.Message {
	room := maxTexts
	for i, m := range all {
		if room -= len(m.Text); room < 0 && i > 0 {
			return all[:i]
		}
	}
	return all
}

// Inbox returns what waits for the agent, oldest first, marks it read, and binds
// it to the turn that the agent is in, so that it does not come again; when
// that turn fails, it waits again. Outside of a turn nothing is bound, and it
// comes again with the next one. At most 50 at a time, and 256 KiB of text.
func (s *Service) Inbox(ctx context.Context, agent bridge.AgentID) (all []bridge.Message, err error) {
	err = s.change(ctx, agent, func(p *post) error {
		all, err = s.fetch(p, (*post).inbox)
		return err
	})
	return all, err
}

// inbox takes what waits for the agent.
func (p *post) inbox() (all []bridge.Message, err error) {
	waiting, err := p.WaitingMail(p.from.ID, maxInbox)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(waiting, func(a, b bridge.Notice) int { return cmp.Compare(a.ID, b.ID) })
	for _, n := range waiting {
		m, err := p.Message(n.Message)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	all = fitting(all)
	return all, p.take(waiting[:len(all)])
}

// fetch fetches messages, or those that the same request fetched before: they do not come again by themselves. Messages that the agent
// may not see any more are left out.
func (s *Service) fetch(p *post, fn func(*post) ([]bridge.Message, error)) (all []bridge.Message, err error) {
	earlier, err := s.once.Earlier(p.Scene, p.from.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range strings.Fields(earlier) {
		m, err := p.Message(bridge.MessageID(id))
		if err == nil {
			err = p.sees(m)
		}
		switch {
		case err == nil:
			all = append(all, m)
		case !errors.Is(err, bridge.ErrNoRow):
			return nil, err
		}
	}
	if earlier != "" {
		return all, nil
	}
	if all, err = fn(p); err != nil || len(all) == 0 {
		return all, err // none changed anything
	}
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = string(m.ID)
	}
	return all, s.once.Keep(p.Scene, p.from.ID, strings.Join(ids, " "), p.Now())
}

// take marks what waits as read, and binds it to the turn that the agent is in.
func (p *post) take(waiting []bridge.Notice) error {
	for _, n := range waiting {
		l, err := p.Letter(n.Message, p.from.ID)
		if err != nil {
			return err
		}
		if l.ReadAt.IsZero() {
			l.ReadAt = p.Now()
		}
		if p.open {
			l.Offered = p.turn
			if err := p.CarryNotices([]bridge.NoticeID{n.ID}, p.turn); err != nil {
				return err
			}
		}
		if err := p.UpdateLetter(l); err != nil {
			return err
		}
	}
	return nil
}

// Messages returns what was written to the agent, or a conversation of which it
// is a member whole, newest first and at most 256 KiB of text, and marks it read
// as Inbox does.
func (s *Service) Messages(ctx context.Context, agent bridge.AgentID, q Query) (all []bridge.Message, err error) {
	if q.Limit < 0 {
		return nil, bridge.Errorf(bridge.Invalid, "limit %d: use 1 to %d", q.Limit, maxQuery)
	}
	f := bridge.MessageFilter{Conversation: q.Thread, Since: q.Since, Limit: min(or(q.Limit, usualQuery), maxQuery)}
	err = s.change(ctx, agent, func(p *post) error {
		all, err = s.fetch(p, func(p *post) ([]bridge.Message, error) {
			if q.Thread == "" {
				f.To = agent
			} else if _, err := p.conversation(string(q.Thread)); err != nil {
				return nil, err
			}
			all, err := p.seen(f)
			if err != nil {
				return nil, err
			}
			all = fitting(all)
			return all, p.read(all)
		})
		return err
	})
	return all, err
}

// maxPages bounds how far seen looks behind messages that the agent may not see any more.
const maxPages = 20

// seen returns messages that the agent may read, without those of conversations that
// it is not in any more.
func (p *post) seen(f bridge.MessageFilter) (all []bridge.Message, err error) {
	limit := f.Limit
	for range maxPages {
		page, err := p.Change.Messages(f)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if err := p.sees(m); err == nil {
				all = append(all, m)
			} else if !errors.Is(err, bridge.ErrNoRow) {
				return nil, err
			}
		}
		if len(all) >= limit {
			return all[:limit], nil
		}
		if len(page) < f.Limit {
			break
		}
		f.Before, f.Limit = page[len(page)-1].ID, maxQuery
	}
	return all, nil
}

// read marks messages as read; those that still wait are taken.
func (p *post) read(all []bridge.Message) error {
	waiting, err := p.WaitingMail(p.from.ID, maxUnread)
	if err != nil {
		return err
	}
	var taken []bridge.Notice
	for _, m := range all {
		if i := slices.IndexFunc(waiting, func(n bridge.Notice) bool { return n.Message == m.ID }); i >= 0 {
			taken = append(taken, waiting[i])
			continue
		}
		l, err := p.Letter(m.ID, p.from.ID)
		if errors.Is(err, bridge.ErrNoRow) {
			continue // its own, or older than its membership
		}
		if err != nil {
			return err
		}
		if !l.ReadAt.IsZero() {
			continue
		}
		l.ReadAt = p.Now()
		if err := p.UpdateLetter(l); err != nil {
			return err
		}
	}
	return p.take(taken)
}

// Unread counts what the agent neither fetched nor found in a prompt, up to 1000.
func (s *Service) Unread(ctx context.Context, agent bridge.AgentID) (n int, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		n, err = tx.CountUnread(agent, maxUnread)
		return err
	})
	return n, err
}

// Receipts says how far a message has come at each recipient. Only its sender
// (and bridge.User) may see it.
func (s *Service) Receipts(ctx context.Context, sender bridge.AgentID, id bridge.MessageID) (all []bridge.Receipt, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		m, err := tx.Message(id)
		if err == nil && sender != bridge.User && m.From != sender {
			err = bridge.ErrNoRow
		}
		if err != nil {
			return noRow(err, bridge.Errorf(bridge.NotFound, "you sent no message %+.60q", id))
		}
		all, err = receipts(tx, id)
		return err
	})
	return all, err
}

func receipts(tx *bridge.Scene, id bridge.MessageID) ([]bridge.Receipt, error) {
	letters, err := tx.Letters(id)
	if err != nil {
		return nil, err
	}
	notices, err := tx.NoticesOf(id)
	if err != nil {
		return nil, err
	}
	all := make([]bridge.Receipt, len(letters))
	for i, l := range letters {
		r := bridge.Receipt{Agent: l.Agent, Name: string(l.Agent), State: bridge.ReceiptQueued, Answer: l.Answer, ReadAt: l.ReadAt}
		if l.Agent == bridge.User {
			if !l.ReadAt.IsZero() { // no turn carries it: the operator's word does
				r.State = bridge.ReceiptAcknowledged
			}
		} else {
			a, err := tx.Agent(l.Agent)
			if err != nil {
				return nil, err
			}
			r.Name = a.Name
		}
		if n := slices.IndexFunc(notices, func(n bridge.Notice) bool { return n.ID == l.Notice }); n >= 0 && notices[n].Turn != "" {
			t, err := tx.Turn(notices[n].Turn)
			if err != nil {
				return nil, err
			}
			r.State, r.Turn = receiptState(l, t), t.ID
		}
		all[i] = r
	}
	return all, nil
}

// receiptState reads how far a letter has come off the turn that carries it.
func receiptState(l bridge.Letter, t bridge.Turn) bridge.ReceiptState {
	switch {
	case t.State == bridge.TurnReplied:
		return bridge.ReceiptAcknowledged
	case t.State == bridge.TurnQueued, t.State == bridge.TurnFailed:
		return bridge.ReceiptQueued // it was sent without success and will be sent again
	case l.Offered == t.ID:
		return bridge.ReceiptOffered
	}
	return bridge.ReceiptInPrompt
}
