package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"drawbridge/bridge"
)

// mailTables are the tables of mail.
type mailTables struct {
	messages      table[bridge.MessageID, bridge.Message]
	letters       table[string, bridge.Letter] // by message and agent
	conversations table[bridge.ConversationID, bridge.Conversation]
	members       table[string, memberRow]       // by conversation and agent
	reactions     table[string, bridge.Reaction] // by message, agent and emoji
	files         table[bridge.FileID, bridge.File]
}

func (m *mailTables) clone() mailTables {
	return mailTables{
		messages: m.messages.clone(), letters: m.letters.clone(), conversations: m.conversations.clone(),
		members: m.members.clone(), reactions: m.reactions.clone(), files: m.files.clone(),
	}
}

// memberRow is one agent in one conversation.
type memberRow struct {
	conversation bridge.ConversationID
	agent        bridge.AgentID
	place        int64
}

// pair joins the parts of a key; no id has a line break.
func pair[A, B ~string](a A, b B) string { return string(a) + "\n" + string(b) }

// list keeps of a list what a database keeps: none is nil.
func list[T any](of []T) []T { return append([]T(nil), of...) }

// InsertMessage implements bridge.MailTx.
func (t *tx) InsertMessage(m bridge.Message) error {
	if t.state.messages.get(m.ID) != nil {
		return fmt.Errorf("message %q exists already", m.ID)
	}
	return t.setMessage(m)
}

func (t *tx) setMessage(m bridge.Message) error {
	m.JoinBy, m.CreatedAt, m.EditedAt, m.DeletedAt = stamp(m.JoinBy), stamp(m.CreatedAt), stamp(m.EditedAt), stamp(m.DeletedAt)
	m = ownMessage(&m)
	return set(t, &t.state.messages, m.ID, &m)
}

func ownMessage(row *bridge.Message) bridge.Message {
	m := *row
	m.To, m.Files = list(m.To), list(m.Files)
	return m
}

// UpdateMessage implements bridge.MailTx.
func (t *tx) UpdateMessage(m bridge.Message) error {
	if t.state.messages.get(m.ID) == nil {
		return bridge.ErrNoRow
	}
	return t.setMessage(m)
}

// Message implements bridge.MailTx.
func (t *tx) Message(id bridge.MessageID) (bridge.Message, error) {
	row := t.state.messages.get(id)
	if row == nil {
		return bridge.Message{}, bridge.ErrNoRow
	}
	return ownMessage(row), nil
}

// Messages implements bridge.MailTx.
func (t *tx) Messages(f bridge.MessageFilter) (out []bridge.Message, err error) {
	if f.Conversation == "" && f.To == "" {
		return nil, errors.New("messages of a conversation or to an agent")
	}
	var before *bridge.Message
	if f.Before != "" {
		if before = t.state.messages.get(f.Before); before == nil {
			return nil, bridge.ErrNoRow
		}
	}
	t.state.messages.oldest(func(m *bridge.Message) bool {
		if t.selects(f, m) && m.CreatedAt.After(stamp(f.Since)) && (before == nil || newestFirst(before, m) < 0) {
			out = append(out, ownMessage(m))
		}
		return true
	})
	slices.SortFunc(out, func(a, b bridge.Message) int { return newestFirst(&a, &b) })
	return cut(out, f.Limit), nil
}

func (t *tx) selects(f bridge.MessageFilter, m *bridge.Message) bool {
	if f.Conversation != "" {
		return m.Conversation == f.Conversation
	}
	return t.state.letters.get(pair(m.ID, f.To)) != nil
}

func newestFirst(a, b *bridge.Message) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// InsertLetter implements bridge.MailTx.
func (t *tx) InsertLetter(l bridge.Letter) error {
	if t.state.letters.get(pair(l.Message, l.Agent)) != nil {
		return fmt.Errorf("a letter of %q to %q exists already", l.Message, l.Agent)
	}
	return t.setLetter(l)
}

func (t *tx) setLetter(l bridge.Letter) error {
	l.ReadAt, l.CreatedAt = stamp(l.ReadAt), stamp(l.CreatedAt)
	return set(t, &t.state.letters, pair(l.Message, l.Agent), &l)
}

// UpdateLetter implements bridge.MailTx.
func (t *tx) UpdateLetter(l bridge.Letter) error {
	if t.state.letters.get(pair(l.Message, l.Agent)) == nil {
		return bridge.ErrNoRow
	}
	return t.setLetter(l)
}

// Letter implements bridge.MailTx.
func (t *tx) Letter(id bridge.MessageID, agent bridge.AgentID) (bridge.Letter, error) {
	row := t.state.letters.get(pair(id, agent))
	if row == nil {
		return bridge.Letter{}, bridge.ErrNoRow
	}
	return *row, nil
}

// DropLetter implements bridge.MailTx.
func (t *tx) DropLetter(id bridge.MessageID, agent bridge.AgentID) (bool, error) {
	l := t.state.letters.get(pair(id, agent))
	if l == nil {
		return false, nil
	}
	n := t.state.notices.get(l.Notice)
	if n == nil || n.Turn != "" {
		return false, nil
	}
	if err := set(t, &t.state.notices, n.ID, nil); err != nil {
		return false, err
	}
	return true, set(t, &t.state.letters, pair(id, agent), nil)
}

// lettersBy returns the letters that fn takes, by message and then by agent.
func (t *tx) lettersBy(fn func(*bridge.Letter) bool) (out []bridge.Letter) {
	t.state.letters.oldest(func(l *bridge.Letter) bool {
		if fn(l) {
			out = append(out, *l)
		}
		return true
	})
	return out
}

// Letters implements bridge.MailTx.
func (t *tx) Letters(id bridge.MessageID) ([]bridge.Letter, error) {
	all := t.lettersBy(func(l *bridge.Letter) bool { return l.Message == id })
	slices.SortFunc(all, func(a, b bridge.Letter) int { return cmp.Compare(a.Notice, b.Notice) })
	return all, nil
}

// AwaitedLetter implements bridge.MailTx.
func (t *tx) AwaitedLetter(from, to bridge.AgentID) (bridge.Letter, error) {
	all := t.lettersBy(func(l *bridge.Letter) bool {
		n := t.state.notices.get(l.Notice)
		return l.Agent == to && l.From == from && l.Awaited && ((n != nil && n.Turn != "") || !l.ReadAt.IsZero())
	})
	if len(all) == 0 {
		return bridge.Letter{}, bridge.ErrNoRow
	}
	return all[0], nil
}

// AwaitedFrom implements bridge.MailTx.
func (t *tx) AwaitedFrom(agent bridge.AgentID, limit int) ([]bridge.Letter, error) {
	all := t.lettersBy(func(l *bridge.Letter) bool { return l.Agent == agent && l.Awaited })
	slices.SortStableFunc(all, func(a, b bridge.Letter) int { return cmp.Compare(a.From, b.From) })
	return all[:min(len(all), cmp.Or(limit, 100))], nil
}

// AwaitedBy implements bridge.MailTx.
func (t *tx) AwaitedBy(sender bridge.AgentID, limit int) ([]bridge.Letter, error) {
	all := t.lettersBy(func(l *bridge.Letter) bool { return l.From == sender && l.Awaited })
	return all[:min(len(all), cmp.Or(limit, 100))], nil
}

// CountUnread implements bridge.MailTx.
func (t *tx) CountUnread(agent bridge.AgentID, limit int) (int, error) {
	return len(t.noticesBy(limit, func(n *bridge.Notice) bool {
		if n.Agent != agent || n.Turn != "" || n.Held || n.Message == "" {
			return false
		}
		l := t.state.letters.get(pair(n.Message, agent))
		return l != nil && l.ReadAt.IsZero()
	})), nil
}

// LetterBack implements bridge.MailTx.
func (t *tx) LetterBack(from, to bridge.AgentID, n int) (time.Time, error) {
	var times []time.Time
	for _, l := range t.lettersBy(func(l *bridge.Letter) bool { return l.Agent == to && l.From == from && l.Direct }) {
		times = append(times, l.CreatedAt)
	}
	return nthLast(times, n)
}

// PostBack implements bridge.MailTx.
func (t *tx) PostBack(from bridge.AgentID, in bridge.ConversationID, n int) (time.Time, error) {
	var times []time.Time
	t.state.messages.oldest(func(m *bridge.Message) bool {
		if in != "" && m.Conversation == in && m.From == from {
			times = append(times, m.CreatedAt)
		}
		return true
	})
	return nthLast(times, n)
}

func nthLast(times []time.Time, n int) (time.Time, error) {
	if len(times) < n {
		return time.Time{}, bridge.ErrNoRow
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[len(times)-n], nil
}

// InsertConversation implements bridge.ConversationTx.
func (t *tx) InsertConversation(c bridge.Conversation) error {
	_, err := t.FindChannel(c.Name)
	if err == nil || t.state.conversations.get(c.ID) != nil {
		return bridge.Errorf(bridge.Conflict, "a conversation with this id or name exists already; choose another name")
	}
	return t.setConversation(c)
}

func (t *tx) setConversation(c bridge.Conversation) error {
	c.CreatedAt, c.UpdatedAt = stamp(c.CreatedAt), stamp(c.UpdatedAt)
	return set(t, &t.state.conversations, c.ID, &c)
}

// UpdateConversation implements bridge.ConversationTx.
func (t *tx) UpdateConversation(c bridge.Conversation) error {
	if t.state.conversations.get(c.ID) == nil {
		return bridge.ErrNoRow
	}
	return t.setConversation(c)
}

// Conversation implements bridge.ConversationTx.
func (t *tx) Conversation(id bridge.ConversationID) (bridge.Conversation, error) {
	row := t.state.conversations.get(id)
	if row == nil {
		return bridge.Conversation{}, bridge.ErrNoRow
	}
	return *row, nil
}

// FindChannel implements bridge.ConversationTx.
func (t *tx) FindChannel(name string) (bridge.Conversation, error) {
	all := t.state.conversations.newest(1, func(c *bridge.Conversation) bool { return name != "" && c.Name == name })
	if len(all) == 0 {
		return bridge.Conversation{}, bridge.ErrNoRow
	}
	return *all[0], nil
}

// Conversations implements bridge.ConversationTx.
func (t *tx) Conversations(f bridge.ConversationFilter) (out []bridge.Conversation, err error) {
	for _, row := range t.state.conversations.newest(f.Limit, func(c *bridge.Conversation) bool {
		return is(f.Kind, c.Kind) && (f.Before == "" || c.ID < f.Before)
	}) {
		out = append(out, *row)
	}
	return out, nil
}

// AddMember implements bridge.ConversationTx.
func (t *tx) AddMember(id bridge.ConversationID, agent bridge.AgentID, _ time.Time) (bool, error) {
	if t.state.members.get(pair(id, agent)) != nil {
		return false, nil
	}
	place := int64(0)
	for _, m := range t.membersBy(id) {
		place = max(place, m.place)
	}
	return true, set(t, &t.state.members, pair(id, agent), &memberRow{conversation: id, agent: agent, place: place + 1})
}

// RemoveMember implements bridge.ConversationTx.
func (t *tx) RemoveMember(id bridge.ConversationID, agent bridge.AgentID) (bool, error) {
	if t.state.members.get(pair(id, agent)) == nil {
		return false, nil
	}
	return true, set(t, &t.state.members, pair(id, agent), nil)
}

// IsMember implements bridge.ConversationTx.
func (t *tx) IsMember(id bridge.ConversationID, agent bridge.AgentID) (bool, error) {
	return t.state.members.get(pair(id, agent)) != nil, nil
}

func (t *tx) membersBy(id bridge.ConversationID) (out []memberRow) {
	t.state.members.oldest(func(m *memberRow) bool {
		if m.conversation == id {
			out = append(out, *m)
		}
		return true
	})
	slices.SortFunc(out, func(a, b memberRow) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.agent, b.agent)) })
	return out
}

// Members implements bridge.ConversationTx.
func (t *tx) Members(id bridge.ConversationID) (out []bridge.AgentID, err error) {
	for _, m := range t.membersBy(id) {
		out = append(out, m.agent)
	}
	return out, nil
}

// CountThreads implements bridge.ConversationTx.
func (t *tx) CountThreads(creator bridge.AgentID, limit int) (n int, err error) {
	for _, c := range t.state.conversations.rows {
		if n < limit && c.Creator == creator && c.Kind == bridge.MailThread && c.Status == bridge.ConversationActive {
			n++
		}
	}
	return n, nil
}

// CountThreadsOf implements bridge.ConversationTx.
func (t *tx) CountThreadsOf(member bridge.AgentID, limit int) (n int, err error) {
	for _, m := range t.state.members.rows {
		c := t.state.conversations.get(m.conversation)
		if n < limit && m.agent == member && c != nil && c.Kind == bridge.MailThread && c.Status == bridge.ConversationActive {
			n++
		}
	}
	return n, nil
}

// Posters implements bridge.ConversationTx.
func (t *tx) Posters(id bridge.ConversationID) (out []bridge.AgentID, err error) {
	wrote := map[bridge.AgentID]bool{}
	t.state.messages.oldest(func(m *bridge.Message) bool {
		wrote[m.From] = wrote[m.From] || (m.Conversation == id && !m.System)
		return true
	})
	for _, m := range t.membersBy(id) {
		if wrote[m.agent] {
			out = append(out, m.agent)
		}
	}
	return out, nil
}

// ShareChannel implements bridge.ConversationTx.
func (t *tx) ShareChannel(a, b bridge.AgentID) (shared bool, err error) {
	t.state.members.oldest(func(m *memberRow) bool {
		c := t.state.conversations.get(m.conversation)
		shared = m.agent == a && c != nil && c.Kind == bridge.MailChannel && t.state.members.get(pair(m.conversation, b)) != nil
		return !shared
	})
	return shared, nil
}

func reactionKey(r bridge.Reaction) string { return pair(pair(r.Message, r.Agent), r.Emoji) }

// AddReaction implements bridge.AttachmentTx.
func (t *tx) AddReaction(r bridge.Reaction) (bool, error) {
	if t.state.reactions.get(reactionKey(r)) != nil {
		return false, nil
	}
	r.CreatedAt = stamp(r.CreatedAt)
	return true, set(t, &t.state.reactions, reactionKey(r), &r)
}

// RemoveReaction implements bridge.AttachmentTx.
func (t *tx) RemoveReaction(r bridge.Reaction) (bool, error) {
	if t.state.reactions.get(reactionKey(r)) == nil {
		return false, nil
	}
	return true, set(t, &t.state.reactions, reactionKey(r), nil)
}

// Reactions implements bridge.AttachmentTx.
func (t *tx) Reactions(id bridge.MessageID) (out []bridge.Reaction, err error) {
	t.state.reactions.oldest(func(r *bridge.Reaction) bool {
		if r.Message == id {
			out = append(out, *r)
		}
		return true
	})
	slices.SortFunc(out, func(a, b bridge.Reaction) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Emoji, b.Emoji))
	})
	return out, nil
}

// InsertFile implements bridge.AttachmentTx.
func (t *tx) InsertFile(f bridge.File) error {
	if t.state.files.get(f.ID) != nil {
		return fmt.Errorf("file %q exists already", f.ID)
	}
	f.CreatedAt = stamp(f.CreatedAt)
	return set(t, &t.state.files, f.ID, &f)
}

// File implements bridge.AttachmentTx.
func (t *tx) File(id bridge.FileID) (bridge.File, error) {
	row := t.state.files.get(id)
	if row == nil {
		return bridge.File{}, bridge.ErrNoRow
	}
	return *row, nil
}

// FilesFrom implements bridge.AttachmentTx.
func (t *tx) FilesFrom(agent bridge.AgentID) (count, bytes int64, err error) {
	for _, f := range t.state.files.rows {
		if f.From == agent {
			count, bytes = count+1, bytes+f.Size
		}
	}
	return count, bytes, nil
}

// DropFile implements bridge.AttachmentTx.
func (t *tx) DropFile(id bridge.FileID) (bool, error) {
	if t.state.files.get(id) == nil {
		return false, nil
	}
	return true, set(t, &t.state.files, id, nil)
}
