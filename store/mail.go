package store

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"drawbridge/bridge"
)

const messageColumns = "id, kind, conversation, sender, sender_name, recipients, body, urgent, sync, by_bridge, reply_to, join_by, files, turn, depth, created_at, edited_at, deleted_at"

var (
	insertMessage = insertSQL("messages", messageColumns)
	updateMessage = updateSQL("messages", messageColumns)
)

func messageArgs(m bridge.Message) ([]any, error) {
	to, err := toJSON(m.To)
	if err != nil {
		return nil, err
	}
	files, err := toJSON(m.Files)
	if err != nil {
		return nil, err
	}
	return []any{m.ID, m.Kind, m.Conversation, m.From, m.FromName, to, m.Text, asInt(m.Urgent), asInt(m.Sync), asInt(m.System),
		m.ReplyTo, micros(m.JoinBy), files, m.Turn, m.Depth, micros(m.CreatedAt), micros(m.EditedAt), micros(m.DeletedAt)}, nil
}

func scanMessage(row scanner) (m bridge.Message, err error) {
	err = row.Scan(&m.ID, &m.Kind, &m.Conversation, &m.From, &m.FromName, jsonText{&m.To}, &m.Text, &m.Urgent, &m.Sync, &m.System,
		&m.ReplyTo, microTime{&m.JoinBy}, jsonText{&m.Files}, &m.Turn, &m.Depth, microTime{&m.CreatedAt}, microTime{&m.EditedAt}, microTime{&m.DeletedAt})
	return m, err
}

// InsertMessage implements bridge.MailTx.
func (t *tx) InsertMessage(m bridge.Message) error {
	args, err := messageArgs(m)
	if err != nil {
		return err
	}
	return t.exec(insertMessage, args...)
}

// UpdateMessage implements bridge.MailTx.
func (t *tx) UpdateMessage(m bridge.Message) error {
	args, err := messageArgs(m)
	if err != nil {
		return err
	}
	return t.execOne(bridge.ErrNoRow, updateMessage, args...)
}

// Message implements bridge.MailTx.
func (t *tx) Message(id bridge.MessageID) (bridge.Message, error) {
	return selectOne(t, scanMessage, "SELECT "+messageColumns+" FROM messages WHERE id = $1", id)
}

// Messages implements bridge.MailTx. Rows come newest first from the index, and
// what is older than Since is dropped here: a condition on it would read on
// behind the last row that is wanted.
func (t *tx) Messages(f bridge.MessageFilter) ([]bridge.Message, error) {
	before := bridge.Message{ID: "~", CreatedAt: time.UnixMicro(1 << 62)}
	if f.Before != "" {
		var err error
		if before, err = t.Message(f.Before); err != nil {
			return nil, err
		}
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	all, err := t.messagesBefore(f, before)
	if i := slices.IndexFunc(all, func(m bridge.Message) bool { return micros(m.CreatedAt) <= micros(f.Since) }); i >= 0 {
		all = all[:i]
	}
	return all, err
}

func (t *tx) messagesBefore(f bridge.MessageFilter, before bridge.Message) ([]bridge.Message, error) {
	const newest = " AND (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3"
	args := []any{micros(before.CreatedAt), before.ID, f.Limit}
	if f.Conversation != "" {
		return selectAll(t, scanMessage, "SELECT "+messageColumns+" FROM messages WHERE conversation = $4 AND conversation <> ''"+newest, append(args, f.Conversation)...)
	}
	if f.To == "" {
		return nil, errors.New("messages of a conversation or to an agent")
	}
	ids, err := selectAll(t, func(row scanner) (id bridge.MessageID, err error) {
		err = row.Scan(&id)
		return id, err
	}, "SELECT message FROM letters WHERE agent = $4 AND (created_at, message) < ($1, $2) ORDER BY created_at DESC, message DESC LIMIT $3", append(args, f.To)...)
	if err != nil {
		return nil, err
	}
	all := make([]bridge.Message, len(ids))
	for i, id := range ids {
		if all[i], err = t.Message(id); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const letterColumns = "message, agent, sender, notice, direct, awaited, answer, offered, read_at, created_at"

var insertLetter = insertSQL("letters", letterColumns)

func scanLetter(row scanner) (l bridge.Letter, err error) {
	err = row.Scan(&l.Message, &l.Agent, &l.From, &l.Notice, &l.Direct, &l.Awaited, &l.Answer, &l.Offered, microTime{&l.ReadAt}, microTime{&l.CreatedAt})
	return l, err
}

// InsertLetter implements bridge.MailTx.
func (t *tx) InsertLetter(l bridge.Letter) error {
	return t.exec(insertLetter, l.Message, l.Agent, l.From, l.Notice, asInt(l.Direct), asInt(l.Awaited), l.Answer, l.Offered, micros(l.ReadAt), micros(l.CreatedAt))
}

// UpdateLetter implements bridge.MailTx.
func (t *tx) UpdateLetter(l bridge.Letter) error {
	return t.execOne(bridge.ErrNoRow, "UPDATE letters SET sender = $3, notice = $4, direct = $5, awaited = $6, answer = $7, offered = $8, read_at = $9, created_at = $10 WHERE message = $1 AND agent = $2",
		l.Message, l.Agent, l.From, l.Notice, asInt(l.Direct), asInt(l.Awaited), l.Answer, l.Offered, micros(l.ReadAt), micros(l.CreatedAt))
}

// Letter implements bridge.MailTx.
func (t *tx) Letter(id bridge.MessageID, agent bridge.AgentID) (bridge.Letter, error) {
	return selectOne(t, scanLetter, "SELECT "+letterColumns+" FROM letters WHERE message = $1 AND agent = $2", id, agent)
}

// DropLetter implements bridge.MailTx.
func (t *tx) DropLetter(id bridge.MessageID, agent bridge.AgentID) (bool, error) {
	l, err := t.Letter(id, agent)
	if errors.Is(err, bridge.ErrNoRow) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if n, err := t.execCount("DELETE FROM notices WHERE id = $1 AND turn = ''", l.Notice); err != nil || n == 0 {
		return false, err
	}
	return true, t.execOne(bridge.ErrNoRow, "DELETE FROM letters WHERE message = $1 AND agent = $2", id, agent)
}

// Letters implements bridge.MailTx. They are few, and sorting them here saves an index.
func (t *tx) Letters(id bridge.MessageID) ([]bridge.Letter, error) {
	all, err := selectAll(t, scanLetter, "SELECT "+letterColumns+" FROM letters WHERE message = $1", id)
	slices.SortFunc(all, func(a, b bridge.Letter) int { return cmp.Compare(a.Notice, b.Notice) })
	return all, err
}

// AwaitedLetter implements bridge.MailTx.
func (t *tx) AwaitedLetter(from, to bridge.AgentID) (bridge.Letter, error) {
	return selectOne(t, scanLetter, `SELECT l.message, l.agent, l.sender, l.notice, l.direct, l.awaited, l.answer, l.offered, l.read_at, l.created_at FROM letters l
		LEFT JOIN notices n ON n.id = l.notice WHERE l.agent = $1 AND l.sender = $2 AND l.awaited = 1 AND (n.turn <> '' OR l.read_at <> 0) ORDER BY l.message LIMIT 1`, to, from)
}

// AwaitedFrom implements bridge.MailTx.
func (t *tx) AwaitedFrom(agent bridge.AgentID, limit int) ([]bridge.Letter, error) {
	return selectAll(t, scanLetter, "SELECT "+letterColumns+" FROM letters WHERE agent = $1 AND awaited = 1 ORDER BY sender, message LIMIT $2", agent, cmp.Or(limit, 100))
}

// AwaitedBy implements bridge.MailTx.
func (t *tx) AwaitedBy(sender bridge.AgentID, limit int) ([]bridge.Letter, error) {
	return selectAll(t, scanLetter, "SELECT "+letterColumns+" FROM letters WHERE sender = $1 AND awaited = 1 ORDER BY message, agent LIMIT $2", sender, cmp.Or(limit, 100))
}

// CountUnread implements bridge.MailTx.
func (t *tx) CountUnread(agent bridge.AgentID, limit int) (int, error) {
	all, err := selectAll(t, scanInt, `SELECT 1 FROM notices n JOIN letters l ON l.message = n.message AND l.agent = n.agent
		WHERE n.agent = $1 AND n.turn = '' AND n.held = 0 AND n.message <> '' AND l.read_at = 0 LIMIT $2`, agent, limit)
	return len(all), err
}

func scanTime(row scanner) (at time.Time, err error) {
	err = row.Scan(microTime{&at})
	return at, err
}

// LetterBack implements bridge.MailTx.
func (t *tx) LetterBack(from, to bridge.AgentID, n int) (time.Time, error) {
	return selectOne(t, scanTime, "SELECT created_at FROM letters WHERE agent = $1 AND sender = $2 AND direct = 1 ORDER BY created_at DESC LIMIT 1 OFFSET $3", to, from, n-1)
}

// PostBack implements bridge.MailTx.
func (t *tx) PostBack(from bridge.AgentID, in bridge.ConversationID, n int) (time.Time, error) {
	return selectOne(t, scanTime, "SELECT created_at FROM messages WHERE conversation = $1 AND conversation <> '' AND sender = $2 ORDER BY created_at DESC LIMIT 1 OFFSET $3", in, from, n-1)
}

const conversationColumns = "id, kind, name, title, creator, status, created_at, updated_at"

var (
	insertConversation = insertSQL("conversations", conversationColumns)
	updateConversation = updateSQL("conversations", conversationColumns)
)

func conversationArgs(c bridge.Conversation) []any {
	return []any{c.ID, c.Kind, c.Name, c.Title, c.Creator, c.Status, micros(c.CreatedAt), micros(c.UpdatedAt)}
}

func scanConversation(row scanner) (c bridge.Conversation, err error) {
	err = row.Scan(&c.ID, &c.Kind, &c.Name, &c.Title, &c.Creator, &c.Status, microTime{&c.CreatedAt}, microTime{&c.UpdatedAt})
	return c, err
}

// InsertConversation implements bridge.ConversationTx.
func (t *tx) InsertConversation(c bridge.Conversation) error {
	err := t.exec(insertConversation, conversationArgs(c)...)
	if isUnique(err) {
		return &bridge.Error{Kind: bridge.Conflict, Message: "a conversation with this id or name exists already; choose another name", Cause: err}
	}
	return err
}

// UpdateConversation implements bridge.ConversationTx.
func (t *tx) UpdateConversation(c bridge.Conversation) error {
	return t.execOne(bridge.ErrNoRow, updateConversation, conversationArgs(c)...)
}

// Conversation implements bridge.ConversationTx.
func (t *tx) Conversation(id bridge.ConversationID) (bridge.Conversation, error) {
	return selectOne(t, scanConversation, "SELECT "+conversationColumns+" FROM conversations WHERE id = $1", id)
}

// FindChannel implements bridge.ConversationTx.
func (t *tx) FindChannel(name string) (bridge.Conversation, error) {
	return selectOne(t, scanConversation, "SELECT "+conversationColumns+" FROM conversations WHERE name = $1 AND name <> ''", name)
}

// Conversations implements bridge.ConversationTx.
func (t *tx) Conversations(f bridge.ConversationFilter) ([]bridge.Conversation, error) {
	var w where
	add(&w, "kind =", f.Kind)
	add(&w, "id <", f.Before)
	tail, args := w.sql("id DESC", f.Limit)
	return selectAll(t, scanConversation, "SELECT "+conversationColumns+" FROM conversations"+tail, args...)
}

// AddMember implements bridge.ConversationTx.
func (t *tx) AddMember(id bridge.ConversationID, agent bridge.AgentID, at time.Time) (bool, error) {
	return t.inserted(`INSERT INTO members (conversation, agent, place, joined_at)
		SELECT $1, $2, coalesce((SELECT max(place) FROM members WHERE conversation = $1), 0) + 1, CAST($3 AS BIGINT) WHERE 1 = 1 ON CONFLICT (conversation, agent) DO NOTHING`, id, agent, micros(at))
}

// RemoveMember implements bridge.ConversationTx.
func (t *tx) RemoveMember(id bridge.ConversationID, agent bridge.AgentID) (bool, error) {
	n, err := t.execCount("DELETE FROM members WHERE conversation = $1 AND agent = $2", id, agent)
	return n > 0, err
}

// IsMember implements bridge.ConversationTx.
func (t *tx) IsMember(id bridge.ConversationID, agent bridge.AgentID) (bool, error) {
	n, err := selectOne(t, scanInt, "SELECT count(*) FROM members WHERE conversation = $1 AND agent = $2", id, agent)
	return n > 0, err
}

func scanAgentID(row scanner) (id bridge.AgentID, err error) {
	err = row.Scan(&id)
	return id, err
}

// Members implements bridge.ConversationTx.
func (t *tx) Members(id bridge.ConversationID) ([]bridge.AgentID, error) {
	return selectAll(t, scanAgentID, "SELECT agent FROM members WHERE conversation = $1 ORDER BY place, agent", id)
}

// CountThreads implements bridge.ConversationTx.
func (t *tx) CountThreads(creator bridge.AgentID, limit int) (int, error) {
	all, err := selectAll(t, scanInt, "SELECT 1 FROM conversations WHERE creator = $1 AND kind = 'thread' AND status = 'active' LIMIT $2", creator, limit)
	return len(all), err
}

// CountThreadsOf implements bridge.ConversationTx.
func (t *tx) CountThreadsOf(member bridge.AgentID, limit int) (int, error) {
	all, err := selectAll(t, scanInt, `SELECT 1 FROM members m JOIN conversations c ON c.id = m.conversation
		WHERE m.agent = $1 AND c.kind = 'thread' AND c.status = 'active' LIMIT $2`, member, limit)
	return len(all), err
}

// Posters implements bridge.ConversationTx.
func (t *tx) Posters(id bridge.ConversationID) ([]bridge.AgentID, error) {
	return selectAll(t, scanAgentID, `SELECT agent FROM members WHERE conversation = $1 AND EXISTS
		(SELECT 1 FROM messages WHERE conversation = $1 AND conversation <> '' AND sender = members.agent AND by_bridge = 0) ORDER BY place, agent`, id)
}

// ShareChannel implements bridge.ConversationTx.
func (t *tx) ShareChannel(a, b bridge.AgentID) (bool, error) {
	all, err := selectAll(t, scanInt, `SELECT 1 FROM members x JOIN members y ON y.conversation = x.conversation AND y.agent = $2
		JOIN conversations c ON c.id = x.conversation WHERE x.agent = $1 AND c.kind = 'channel' LIMIT 1`, a, b)
	return len(all) > 0, err
}

// AddReaction implements bridge.AttachmentTx.
func (t *tx) AddReaction(r bridge.Reaction) (bool, error) {
	return t.inserted("INSERT INTO reactions (message, agent, emoji, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (message, agent, emoji) DO NOTHING", r.Message, r.Agent, r.Emoji, micros(r.CreatedAt))
}

// RemoveReaction implements bridge.AttachmentTx.
func (t *tx) RemoveReaction(r bridge.Reaction) (bool, error) {
	n, err := t.execCount("DELETE FROM reactions WHERE message = $1 AND agent = $2 AND emoji = $3", r.Message, r.Agent, r.Emoji)
	return n > 0, err
}

// Reactions implements bridge.AttachmentTx.
func (t *tx) Reactions(id bridge.MessageID) ([]bridge.Reaction, error) {
	all, err := selectAll(t, func(row scanner) (r bridge.Reaction, err error) {
		err = row.Scan(&r.Message, &r.Agent, &r.Emoji, microTime{&r.CreatedAt})
		return r, err
	}, "SELECT message, agent, emoji, created_at FROM reactions WHERE message = $1", id)
	slices.SortFunc(all, func(a, b bridge.Reaction) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Emoji, b.Emoji))
	})
	return all, err
}

const fileColumns = "id, message, sender, recipient, name, path, size, sha256, description, created_at"

var insertFile = insertSQL("files", fileColumns)

// InsertFile implements bridge.AttachmentTx.
func (t *tx) InsertFile(f bridge.File) error {
	return t.exec(insertFile, f.ID, f.Message, f.From, f.To, f.Name, f.Path, f.Size, f.SHA256, f.Description, micros(f.CreatedAt))
}

// File implements bridge.AttachmentTx.
func (t *tx) File(id bridge.FileID) (bridge.File, error) {
	return selectOne(t, func(row scanner) (f bridge.File, err error) {
		err = row.Scan(&f.ID, &f.Message, &f.From, &f.To, &f.Name, &f.Path, &f.Size, &f.SHA256, &f.Description, microTime{&f.CreatedAt})
		return f, err
	}, "SELECT "+fileColumns+" FROM files WHERE id = $1", id)
}

// FilesFrom implements bridge.AttachmentTx. Package mail bounds how many there are.
func (t *tx) FilesFrom(agent bridge.AgentID) (count, bytes int64, err error) {
	_, err = selectOne(t, func(row scanner) (struct{}, error) {
		return struct{}{}, row.Scan(&count, &bytes)
	}, "SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM files WHERE sender = $1", agent)
	return count, bytes, err
}

// DropFile implements bridge.AttachmentTx.
func (t *tx) DropFile(id bridge.FileID) (bool, error) {
	n, err := t.execCount("DELETE FROM files WHERE id = $1", id)
	return n > 0, err
}
