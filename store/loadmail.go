package store

import (
	"cmp"
	"math"

	"drawbridge/bridge"
)

var messagesTable = table[bridge.MessageID, bridge.Message]{
	name: "messages", columns: messageColumns, scan: scanMessage,
	key:    func(m *bridge.Message) bridge.MessageID { return m.ID },
	insert: insertMessage, update: updateMessage,
	args: func(m *bridge.Message) ([]any, error) { return messageArgs(*m) },
}

var lettersTable = table[string, bridge.Letter]{
	name: "letters", columns: letterColumns, scan: scanLetter,
	key:    func(l *bridge.Letter) string { return bridge.LetterKey(l.Message, l.Agent) },
	insert: insertLetter,
	update: "UPDATE letters SET sender = $3, notice = $4, direct = $5, awaited = $6, answer = $7, offered = $8, read_at = $9, created_at = $10 WHERE message = $1 AND agent = $2",
	args: asArgs(func(l *bridge.Letter) []any {
		return []any{l.Message, l.Agent, l.From, l.Notice, asInt(l.Direct), asInt(l.Awaited), l.Answer, l.Offered, micros(l.ReadAt), micros(l.CreatedAt)}
	}),
	remove:     "DELETE FROM letters WHERE message = $1 AND agent = $2",
	removeArgs: func(l *bridge.Letter) []any { return []any{l.Message, l.Agent} },
}

var conversationsTable = table[bridge.ConversationID, bridge.Conversation]{
	name: "conversations", columns: conversationColumns, scan: scanConversation,
	key:    func(c *bridge.Conversation) bridge.ConversationID { return c.ID },
	insert: insertConversation, update: updateConversation,
	args: asArgs(func(c *bridge.Conversation) []any { return conversationArgs(*c) }),
}

const memberColumns = "conversation, agent, place, joined_at"

var membersTable = table[string, bridge.MemberRow]{
	name: "members", columns: memberColumns,
	scan: func(r scanner) (m bridge.MemberRow, err error) {
		err = r.Scan(&m.Conversation, &m.Agent, &m.Place, microTime{&m.JoinedAt})
		return m, err
	},
	key:    func(m *bridge.MemberRow) string { return bridge.MemberKey(m.Conversation, m.Agent) },
	insert: insertSQL("members", memberColumns),
	update: "UPDATE members SET place = $3, joined_at = $4 WHERE conversation = $1 AND agent = $2",
	args: asArgs(func(m *bridge.MemberRow) []any {
		return []any{m.Conversation, m.Agent, m.Place, micros(m.JoinedAt)}
	}),
	remove:     "DELETE FROM members WHERE conversation = $1 AND agent = $2",
	removeArgs: func(m *bridge.MemberRow) []any { return []any{m.Conversation, m.Agent} },
}

const reactionColumns = "message, agent, emoji, created_at"

var reactionsTable = table[string, bridge.Reaction]{
	name: "reactions", columns: reactionColumns,
	scan: func(row scanner) (r bridge.Reaction, err error) {
		err = row.Scan(&r.Message, &r.Agent, &r.Emoji, microTime{&r.CreatedAt})
		return r, err
	},
	key:    func(r *bridge.Reaction) string { return bridge.ReactionKey(*r) },
	insert: insertSQL("reactions", reactionColumns),
	update: "UPDATE reactions SET created_at = $4 WHERE message = $1 AND agent = $2 AND emoji = $3",
	args: asArgs(func(r *bridge.Reaction) []any {
		return []any{r.Message, r.Agent, r.Emoji, micros(r.CreatedAt)}
	}),
	remove:     "DELETE FROM reactions WHERE message = $1 AND agent = $2 AND emoji = $3",
	removeArgs: func(r *bridge.Reaction) []any { return []any{r.Message, r.Agent, r.Emoji} },
}

var filesTable = table[bridge.FileID, bridge.File]{
	name: "files", columns: fileColumns,
	scan: func(row scanner) (f bridge.File, err error) {
		err = row.Scan(&f.ID, &f.Message, &f.From, &f.To, &f.Name, &f.Path, &f.Size, &f.SHA256, &f.Description, microTime{&f.CreatedAt})
		return f, err
	},
	key:    func(f *bridge.File) bridge.FileID { return f.ID },
	insert: insertFile, update: updateSQL("files", fileColumns),
	args: asArgs(func(f *bridge.File) []any {
		return []any{f.ID, f.Message, f.From, f.To, f.Name, f.Path, f.Size, f.SHA256, f.Description, micros(f.CreatedAt)}
	}),
	remove:     "DELETE FROM files WHERE id = $1",
	removeArgs: func(f *bridge.File) []any { return []any{f.ID} },
}

func writeMail(out *[]statement, sc *bridge.Scene) error {
	r := sc.Rows
	return cmp.Or(
		writesOf(out, &r.Conversations, conversationsTable),
		writesOf(out, &r.Members, membersTable),
		writesOf(out, &r.Messages, messagesTable),
		writesOf(out, &r.Letters, lettersTable),
		writesOf(out, &r.Reactions, reactionsTable),
		writesOf(out, &r.Files, filesTable))
}

func loadMail(sc *bridge.Scene, need bridge.Need) []query {
	for _, load := range []func(*bridge.Scene, bridge.Need) []query{loadMessages, loadLetters, loadUnread, loadConversations, loadMembers, loadAttachments} {
		if q := load(sc, need); q != nil {
			return q
		}
	}
	return nil
}

// beside is a query of rows that come with those of the need's other query.
func beside(q query) query {
	q.done, q.beside = nil, true
	return q
}

// behind are the arguments of "(created_at, id) < ($1, $2) … LIMIT $3".
func behind(n bridge.NeedPosts) []any {
	if n.Before == "" {
		return []any{int64(math.MaxInt64), bridge.MessageID("~"), n.Limit}
	}
	return []any{micros(n.At), n.Before, n.Limit}
}

func loadMessages(sc *bridge.Scene, need bridge.Need) []query {
	messages := func(tail string, args ...any) query {
		return into(sc, need, &sc.Rows.Messages, messagesTable).rows(tail, args...)
	}
	switch n := need.(type) {
	case bridge.NeedMessage:
		return []query{messages("WHERE id = $1", n.ID)}
	case bridge.NeedPosts:
		const tail = "WHERE conversation = $4 AND conversation <> '' AND (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT $3"
		return []query{messages(tail, append(behind(n), n.In)...)}
	case bridge.NeedMailTo:
		const tail = "WHERE agent = $4 AND (created_at, message) < ($1, $2) ORDER BY created_at DESC, message DESC LIMIT $3"
		args := append(behind(bridge.NeedPosts{At: n.At, Before: n.Before, Limit: n.Limit}), n.To)
		return []query{
			beside(messages("WHERE id IN (SELECT message FROM letters "+tail+")", args...)),
			into(sc, need, &sc.Rows.Letters, lettersTable).rows(tail, args...),
		}
	case bridge.NeedPostsBack:
		return []query{messages("WHERE conversation = $1 AND conversation <> '' AND sender = $2 ORDER BY created_at DESC LIMIT $3", n.In, n.From, n.Limit)}
	}
	return nil
}

func loadLetters(sc *bridge.Scene, need bridge.Need) []query {
	letters := func(tail string, args ...any) query {
		return into(sc, need, &sc.Rows.Letters, lettersTable).rows(tail, args...)
	}
	noticed := func(tail string, args ...any) []query {
		const ids = "WHERE id IN (SELECT notice FROM letters "
		return []query{beside(into(sc, need, &sc.Rows.Notices, noticesTable).rows(ids+tail+")", args...)), letters(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedLetter:
		return []query{letters("WHERE message = $1 AND agent = $2", n.Message, n.Agent)}
	case bridge.NeedNoticedLetter:
		return noticed("WHERE message = $1 AND agent = $2", n.Message, n.Agent)
	case bridge.NeedLetters:
		return []query{letters("WHERE message = $1", n.Message)}
	case bridge.NeedAwaited:
		return noticed("WHERE agent = $1 AND sender = $2 AND awaited = 1", n.To, n.From)
	case bridge.NeedAwaitedFrom:
		return []query{letters("WHERE agent = $1 AND awaited = 1 ORDER BY sender, message LIMIT $2", n.Agent, n.Limit)}
	case bridge.NeedAwaitedBy:
		return []query{letters("WHERE sender = $1 AND awaited = 1 ORDER BY message, agent LIMIT $2", n.Sender, n.Limit)}
	case bridge.NeedLettersBack:
		return []query{letters("WHERE agent = $1 AND sender = $2 AND direct = 1 ORDER BY created_at DESC LIMIT $3", n.To, n.From, n.Limit)}
	}
	return nil
}

// loadUnread orders as the index of waiting notices does, so that both queries mean the same rows.
func loadUnread(sc *bridge.Scene, need bridge.Need) []query {
	n, ok := need.(bridge.NeedUnread)
	if !ok {
		return nil
	}
	const tail = `WHERE agent = $1 AND turn = '' AND held = 0 AND message <> '' AND EXISTS
		(SELECT 1 FROM letters l WHERE l.message = notices.message AND l.agent = notices.agent AND l.read_at = 0) ORDER BY quiet, id LIMIT $2`
	return []query{
		beside(into(sc, need, &sc.Rows.Letters, lettersTable).rows("WHERE agent = $1 AND message IN (SELECT message FROM notices "+tail+")", n.Agent, n.Limit)),
		into(sc, need, &sc.Rows.Notices, noticesTable).rows(tail, n.Agent, n.Limit),
	}
}

func loadConversations(sc *bridge.Scene, need bridge.Need) []query {
	conversations := func(tail string, args ...any) query {
		return into(sc, need, &sc.Rows.Conversations, conversationsTable).rows(tail, args...)
	}
	switch n := need.(type) {
	case bridge.NeedConversation:
		return []query{conversations("WHERE id = $1", n.ID)}
	case bridge.NeedChannel:
		return []query{conversations("WHERE name = $1 AND name <> ''", n.Name)}
	case bridge.NeedConversations:
		var w where
		add(&w, "kind =", n.Kind)
		add(&w, "id <", n.Before)
		tail, args := w.sql("id DESC", n.Limit)
		return []query{conversations(tail, args...)}
	case bridge.NeedThreadCount:
		return []query{counted(sc, need, "SELECT count(*) FROM conversations WHERE creator = $1 AND kind = 'thread' AND status = 'active'", n.Creator)}
	case bridge.NeedThreadsOf:
		const active = "kind = 'thread' AND status = 'active'"
		return []query{
			beside(conversations("WHERE id IN (SELECT conversation FROM members WHERE agent = $1) AND "+active, n.Member)),
			into(sc, need, &sc.Rows.Members, membersTable).rows("WHERE agent = $1 AND EXISTS (SELECT 1 FROM conversations c WHERE c.id = members.conversation AND c.kind = 'thread' AND c.status = 'active')", n.Member),
		}
	case bridge.NeedSharedChannels:
		const shared = `(SELECT x.conversation FROM members x JOIN members y ON y.conversation = x.conversation AND y.agent = $2
			JOIN conversations c ON c.id = x.conversation WHERE x.agent = $1 AND c.kind = 'channel')`
		return []query{
			beside(conversations("WHERE id IN "+shared, n.A, n.B)),
			into(sc, need, &sc.Rows.Members, membersTable).rows("WHERE agent IN ($1, $2) AND conversation IN "+shared, n.A, n.B),
		}
	}
	return nil
}

func loadMembers(sc *bridge.Scene, need bridge.Need) []query {
	members := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Members, membersTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedMember:
		return members("WHERE conversation = $1 AND agent = $2", n.In, n.Agent)
	case bridge.NeedMembers:
		return members("WHERE conversation = $1", n.In)
	case bridge.NeedPosters:
		return []query{posters(sc, n)}
	case bridge.NeedPosted:
		return []query{counted(sc, need, "SELECT 1 FROM messages WHERE conversation = $1 AND conversation <> '' AND sender = $2 AND by_bridge = 0 LIMIT 1", n.In, n.From)}
	}
	return nil
}

func posters(sc *bridge.Scene, n bridge.NeedPosters) query {
	var all []bridge.AgentID
	return query{
		sql: `SELECT agent FROM members WHERE conversation = $1 AND EXISTS
			(SELECT 1 FROM messages WHERE conversation = $1 AND conversation <> '' AND sender = members.agent AND by_bridge = 0)`,
		args: []any{n.In},
		row: func(r scanner) error {
			agent, err := scanAgentID(r)
			all = append(all, agent)
			return err
		},
		done: func(int) { sc.Answered(n, all) },
	}
}

func loadAttachments(sc *bridge.Scene, need bridge.Need) []query {
	reactions := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Reactions, reactionsTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedReaction:
		return reactions("WHERE message = $1 AND agent = $2 AND emoji = $3", n.Message, n.Agent, n.Emoji)
	case bridge.NeedReactions:
		return reactions("WHERE message = $1", n.Message)
	case bridge.NeedFile:
		return []query{into(sc, need, &sc.Rows.Files, filesTable).rows("WHERE id = $1", n.ID)}
	case bridge.NeedFileCount:
		return []query{counted(sc, need, "SELECT count(*) FROM files WHERE sender = $1", n.From)}
	case bridge.NeedFileBytes:
		return []query{counted(sc, need, "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM files WHERE sender = $1", n.From)}
	}
	return nil
}
