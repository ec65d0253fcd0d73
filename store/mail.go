package store

import (
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

const letterColumns = "message, agent, sender, notice, direct, awaited, answer, offered, read_at, created_at"

var insertLetter = insertSQL("letters", letterColumns)

func scanLetter(row scanner) (l bridge.Letter, err error) {
	err = row.Scan(&l.Message, &l.Agent, &l.From, &l.Notice, &l.Direct, &l.Awaited, &l.Answer, &l.Offered, microTime{&l.ReadAt}, microTime{&l.CreatedAt})
	return l, err
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

func scanAgentID(row scanner) (id bridge.AgentID, err error) {
	err = row.Scan(&id)
	return id, err
}

const fileColumns = "id, message, sender, recipient, name, path, size, sha256, description, created_at"

var insertFile = insertSQL("files", fileColumns)
