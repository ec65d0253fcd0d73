package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What look-ups of messages and letters need.
type (
	// NeedMessage is the message of an id.
	NeedMessage struct {
		needs
		ID MessageID
	}
	// NeedPosts is the messages of a conversation, newest first, behind the one that
	// was written At with the id Before; an empty Before is the start.
	NeedPosts struct {
		needs
		In     ConversationID
		At     time.Time
		Before MessageID
		Limit  int
	}
	// NeedMailTo is the letters to an agent in the order of NeedPosts, and their messages.
	NeedMailTo struct {
		needs
		To     AgentID
		At     time.Time
		Before MessageID
		Limit  int
	}
	// NeedLetter is the letter of a message to an agent.
	NeedLetter struct {
		needs
		Message MessageID
		Agent   AgentID
	}
	// NeedNoticedLetter is NeedLetter, and the letter's notice.
	NeedNoticedLetter struct {
		needs
		Message MessageID
		Agent   AgentID
	}
	// NeedLetters is the letters of a message.
	NeedLetters struct {
		needs
		Message MessageID
	}
	// NeedAwaited is the letters from one agent to another whose answers are awaited, and their notices.
	NeedAwaited struct {
		needs
		From, To AgentID
	}
	// NeedAwaitedFrom is the first letters to an agent whose answers are awaited, by sender and message.
	NeedAwaitedFrom struct {
		needs
		Agent AgentID
		Limit int
	}
	// NeedAwaitedBy is the first letters of a sender who awaits the answers, by message and recipient.
	NeedAwaitedBy struct {
		needs
		Sender AgentID
		Limit  int
	}
	// NeedUnread is the first notices that wait for an agent and bring a letter which it did not fetch, and these letters.
	NeedUnread struct {
		needs
		Agent AgentID
		Limit int
	}
	// NeedLettersBack is the newest direct letters from one agent to another.
	NeedLettersBack struct {
		needs
		From, To AgentID
		Limit    int
	}
	// NeedPostsBack is the newest messages of an agent in a conversation.
	NeedPostsBack struct {
		needs
		From  AgentID
		In    ConversationID
		Limit int
	}
)

func (n NeedPosts) limit() int       { return n.Limit }
func (n NeedMailTo) limit() int      { return n.Limit }
func (n NeedAwaitedFrom) limit() int { return n.Limit }
func (n NeedAwaitedBy) limit() int   { return n.Limit }
func (n NeedUnread) limit() int      { return n.Limit }
func (n NeedLettersBack) limit() int { return n.Limit }
func (n NeedPostsBack) limit() int   { return n.Limit }

// InsertMessage records a new message.
func (s *Scene) InsertMessage(m Message) error {
	if s.Rows.Messages.Row(m.ID) != nil {
		return fmt.Errorf("message %q exists already", m.ID)
	}
	return s.setMessage(m)
}

func (s *Scene) setMessage(m Message) error {
	m.JoinBy, m.CreatedAt, m.EditedAt, m.DeletedAt = stamp(m.JoinBy), stamp(m.CreatedAt), stamp(m.EditedAt), stamp(m.DeletedAt)
	m = m.own()
	return set(s, &s.Rows.Messages, m.ID, &m)
}

// own returns the message for a caller to keep; a list without elements is nil.
func (m Message) own() Message {
	m.To, m.Files = append([]AgentID(nil), m.To...), append([]Attachment(nil), m.Files...)
	return m
}

// UpdateMessage replaces the row of a message that is there.
func (s *Scene) UpdateMessage(m Message) error {
	if _, err := row(s, &s.Rows.Messages, NeedMessage{ID: m.ID}, m.ID); err != nil {
		return err
	}
	return s.setMessage(m)
}

// Message returns a message by its id, ErrNoRow when there is none.
func (s *Scene) Message(id MessageID) (Message, error) {
	m, err := row(s, &s.Rows.Messages, NeedMessage{ID: id}, id)
	if err != nil {
		return Message{}, err
	}
	return m.own(), nil
}

// Messages lists messages by the filter. What is older than Since is dropped behind the look-up, so
// that the rows come from an index and end with the last that is wanted.
func (s *Scene) Messages(f MessageFilter) (out []Message, err error) {
	if f.Conversation == "" && f.To == "" {
		return nil, errors.New("messages of a conversation or to an agent")
	}
	var before Message
	if f.Before != "" {
		if before, err = s.Message(f.Before); err != nil {
			return nil, err
		}
	}
	f.Limit, f.Since = limitOr(f.Limit), stamp(f.Since)
	found, err := s.posts(f, before)
	if f.Conversation == "" {
		found, err = s.mailTo(f, before)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if !m.CreatedAt.After(f.Since) {
			break
		}
		out = append(out, m.own())
	}
	return out, nil
}

// isBehind reports whether what was written at a time comes behind a message, newest first.
func (m *Message) isBehind(at time.Time, id MessageID) bool {
	return m.ID == "" || cmp.Or(at.Compare(m.CreatedAt), cmp.Compare(id, m.ID)) < 0
}

func (s *Scene) posts(f MessageFilter, before Message) ([]*Message, error) {
	if f.Conversation == "" {
		return nil, nil
	}
	return first(s, &s.Rows.Messages, look[Message]{
		need: func(limit int) Need {
			return NeedPosts{In: f.Conversation, At: before.CreatedAt, Before: before.ID, Limit: limit}
		},
		limit: f.Limit,
		match: func(m *Message) bool {
			return m.Conversation == f.Conversation && before.isBehind(m.CreatedAt, m.ID)
		},
		order: func(a, b *Message) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID)) },
	})
}

func (s *Scene) mailTo(f MessageFilter, before Message) (out []*Message, err error) {
	letters, err := first(s, &s.Rows.Letters, look[Letter]{
		need: func(limit int) Need {
			return NeedMailTo{To: f.To, At: before.CreatedAt, Before: before.ID, Limit: limit}
		},
		limit: f.Limit,
		match: func(l *Letter) bool { return l.Agent == f.To && before.isBehind(l.CreatedAt, l.Message) },
		order: func(a, b *Letter) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Message, a.Message))
		},
	})
	if err != nil {
		return nil, err
	}
	for _, l := range letters {
		m, err := row(s, &s.Rows.Messages, NeedMessage{ID: l.Message}, l.Message)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// InsertLetter records a new letter.
func (s *Scene) InsertLetter(l Letter) error {
	if s.Rows.Letters.Row(LetterKey(l.Message, l.Agent)) != nil {
		return fmt.Errorf("a letter of %q to %q exists already", l.Message, l.Agent)
	}
	return s.setLetter(l)
}

func (s *Scene) setLetter(l Letter) error {
	l.ReadAt, l.CreatedAt = stamp(l.ReadAt), stamp(l.CreatedAt)
	return set(s, &s.Rows.Letters, LetterKey(l.Message, l.Agent), &l)
}

// UpdateLetter replaces the row of a letter that is there.
func (s *Scene) UpdateLetter(l Letter) error {
	if _, err := s.Letter(l.Message, l.Agent); err != nil {
		return err
	}
	return s.setLetter(l)
}

// Letter returns the letter of a notice, ErrNoRow when there is none.
func (s *Scene) Letter(id MessageID, agent AgentID) (Letter, error) {
	n := Need(NeedLetter{Message: id, Agent: agent})
	if all := (NeedLetters{Message: id}); s.HasLoaded(all) {
		n = all
	}
	return valueOf(row(s, &s.Rows.Letters, n, LetterKey(id, agent)))
}

// Letters returns a message's letters in the order of their notices' ids.
func (s *Scene) Letters(id MessageID) ([]Letter, error) {
	all, err := valuesOf(where(s, &s.Rows.Letters, NeedLetters{Message: id}, func(l *Letter) bool { return l.Message == id }))
	slices.SortStableFunc(all, func(a, b Letter) int { return cmp.Compare(a.Notice, b.Notice) })
	return all, err
}

// DropLetter deletes a letter and its notice. It reports false without such a letter, or
// when a turn carries the notice.
func (s *Scene) DropLetter(id MessageID, agent AgentID) (bool, error) {
	l, err := row(s, &s.Rows.Letters, NeedNoticedLetter{Message: id, Agent: agent}, LetterKey(id, agent))
	if err != nil {
		return false, unlessNone(err)
	}
	n, err := s.noticeOf(l)
	if err != nil || n.Turn != "" {
		return false, unlessNone(err)
	}
	if err := set(s, &s.Rows.Notices, n.ID, nil); err != nil {
		return false, err
	}
	return true, set(s, &s.Rows.Letters, LetterKey(id, agent), nil)
}

// unlessNone is the error of a look-up for which it is fine to find no row.
func unlessNone(err error) error {
	if errors.Is(err, ErrNoRow) {
		return nil
	}
	return err
}

func (s *Scene) noticeOf(l *Letter) (*Notice, error) {
	if l.Notice == "" {
		return nil, ErrNoRow
	}
	return row(s, &s.Rows.Notices, NeedNotice{ID: l.Notice}, l.Notice)
}

// AwaitedLetter returns the oldest letter from one agent to another whose sender waits for an
// answer and which the recipient was shown. The operator, whom no notice reaches, was shown what is
// marked as read.
func (s *Scene) AwaitedLetter(from, to AgentID) (Letter, error) {
	all, err := where(s, &s.Rows.Letters, NeedAwaited{From: from, To: to}, func(l *Letter) bool {
		return l.Agent == to && l.From == from && l.Awaited
	})
	if err != nil {
		return Letter{}, err
	}
	for _, l := range all {
		shown := !l.ReadAt.IsZero()
		if !shown {
			n, err := s.noticeOf(l)
			if unlessNone(err) != nil {
				return Letter{}, err
			}
			shown = err == nil && n.Turn != ""
		}
		if shown {
			return *l, nil
		}
	}
	return Letter{}, ErrNoRow
}

// AwaitedFrom returns the letters to an agent whose senders wait for its answer, by sender and then
// oldest first. Limit 0 means 100.
func (s *Scene) AwaitedFrom(agent AgentID, limit int) ([]Letter, error) {
	return valuesOf(first(s, &s.Rows.Letters, look[Letter]{
		need:  func(limit int) Need { return NeedAwaitedFrom{Agent: agent, Limit: limit} },
		limit: limitOr(limit),
		match: func(l *Letter) bool { return l.Agent == agent && l.Awaited },
		order: func(a, b *Letter) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Message, b.Message)) },
	}))
}

// AwaitedBy returns the letters of a sender who waits for the answers, oldest first and then by
// recipient. Limit 0 means 100.
func (s *Scene) AwaitedBy(sender AgentID, limit int) ([]Letter, error) {
	return valuesOf(first(s, &s.Rows.Letters, look[Letter]{
		need:  func(limit int) Need { return NeedAwaitedBy{Sender: sender, Limit: limit} },
		limit: limitOr(limit),
		match: func(l *Letter) bool { return l.From == sender && l.Awaited },
		order: func(a, b *Letter) int {
			return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Agent, b.Agent))
		},
	}))
}

// CountUnread counts letters that no turn carries and that were not fetched, up to limit. It is
// first over two tables: what the step did with notices and with letters takes rows out of the
// store's answer.
func (s *Scene) CountUnread(agent AgentID, limit int) (int, error) {
	for extra := 0; ; {
		n := NeedUnread{Agent: agent, Limit: limit + extra}
		waiting, err := where(s, &s.Rows.Notices, n, func(o *Notice) bool { return o.bringsMail(agent) })
		if err != nil {
			return 0, err
		}
		found, err := s.unread(waiting)
		if err != nil || found >= limit {
			return min(found, limit), err
		}
		gone := s.maybeRead(agent)
		if s.whole || !s.known[n].full || gone <= extra {
			return found, nil
		}
		extra = 2 * gone
	}
}

func (n *Notice) bringsMail(to AgentID) bool {
	return n.Agent == to && n.Turn == "" && !n.Withheld && n.Message != ""
}

// unread counts notices whose letters were not fetched. What the step did not write
// and what came without its letter is not in the store's answer.
func (s *Scene) unread(waiting []*Notice) (found int, err error) {
	for _, n := range waiting {
		l := s.Rows.Letters.Row(LetterKey(n.Message, n.Agent))
		if l == nil && s.Rows.Notices.written(n.ID) {
			l, err = row(s, &s.Rows.Letters, NeedLetter{Message: n.Message, Agent: n.Agent}, LetterKey(n.Message, n.Agent))
			if unlessNone(err) != nil {
				return 0, err
			}
		}
		if l != nil && l.ReadAt.IsZero() {
			found++
		}
	}
	return found, nil
}

// written reports whether the step wrote or removed a row.
func (t *Table[K, V]) written(key K) bool { _, ok := t.was[key]; return ok }

// maybeRead is how many rows at most the step took out of an agent's unread mail.
func (s *Scene) maybeRead(agent AgentID) (n int) {
	for w := range s.Rows.Notices.Writes() {
		if w.Was != nil && w.Was.bringsMail(agent) {
			n++
		}
	}
	for w := range s.Rows.Letters.Writes() {
		if w.Was != nil && w.Was.Agent == agent && w.Was.ReadAt.IsZero() {
			n++
		}
	}
	return n
}

// LetterBack returns when the n-th latest direct letter of a pair was written, ErrNoRow when there
// are fewer; n is at least 1.
func (s *Scene) LetterBack(from, to AgentID, n int) (time.Time, error) {
	all, err := first(s, &s.Rows.Letters, look[Letter]{
		need:  func(limit int) Need { return NeedLettersBack{From: from, To: to, Limit: limit} },
		limit: n,
		match: func(l *Letter) bool { return l.Agent == to && l.From == from && l.Direct },
		order: func(a, b *Letter) int { return b.CreatedAt.Compare(a.CreatedAt) },
	})
	if err != nil || len(all) < n {
		return time.Time{}, cmp.Or(err, ErrNoRow)
	}
	return all[n-1].CreatedAt, nil
}

// PostBack is LetterBack for an agent's messages in a conversation.
func (s *Scene) PostBack(from AgentID, in ConversationID, n int) (time.Time, error) {
	all, err := first(s, &s.Rows.Messages, look[Message]{
		need:  func(limit int) Need { return NeedPostsBack{From: from, In: in, Limit: limit} },
		limit: n,
		match: func(m *Message) bool { return in != "" && m.Conversation == in && m.From == from },
		order: func(a, b *Message) int { return b.CreatedAt.Compare(a.CreatedAt) },
	})
	if err != nil || len(all) < n {
		return time.Time{}, cmp.Or(err, ErrNoRow)
	}
	return all[n-1].CreatedAt, nil
}
