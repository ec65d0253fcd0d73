// Package office is the operator's side of mail over HTTP: channels, who is in
// them, what stands in them, what lies in an agent's box and how far it came. It
// decides nothing about mail and nothing about access: package mail has the
// rules, and package api stands in front with token, limits and errors. Rule of
// thumb: a handler reads a request, calls one method, and shows what came of it.
package office

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/mail"
)

// Message is a message as the operator sees it.
type Message struct {
	ID           string   `json:"id"`
	Kind         string   `json:"kind"`
	Conversation string   `json:"conversation,omitempty"`
	From         string   `json:"from"`
	FromName     string   `json:"from_name"`
	To           []string `json:"to,omitempty"`
	// Text is an agent's; nobody trusts it.
	Text      string              `json:"text"`
	Urgent    bool                `json:"urgent,omitempty"`
	Sync      bool                `json:"sync,omitempty"`
	System    bool                `json:"system,omitempty"`
	ReplyTo   string              `json:"reply_to,omitempty"`
	Files     []bridge.Attachment `json:"files,omitempty"`
	CreatedAt time.Time           `json:"created_at"`
	EditedAt  time.Time           `json:"edited_at,omitzero"`
	DeletedAt time.Time           `json:"deleted_at,omitzero"`
	Receipts  []Receipt           `json:"receipts,omitempty"`
	Reactions []Reaction          `json:"reactions,omitempty"`
}

// Receipt is how far a message has come at one recipient: queued, offered (by a
// tool call), in_prompt (of Turn) or acknowledged.
type Receipt struct {
	Agent  string    `json:"agent"`
	Name   string    `json:"name"`
	State  string    `json:"state"`
	Turn   string    `json:"turn,omitempty"`
	Answer string    `json:"answer,omitempty"`
	ReadAt time.Time `json:"read_at,omitzero"`
}

// Reaction is one agent's emoji on a message.
type Reaction struct {
	Agent string `json:"agent"`
	Name  string `json:"name"`
	Emoji string `json:"emoji"`
}

// Channel is a channel, a thread or a DM.
type Channel struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// Title is an agent's words.
	Title     string    `json:"title,omitempty"`
	Creator   string    `json:"creator"`
	Status    string    `json:"status"`
	Members   []Member  `json:"members"`
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when the latest message came, or another change.
	UpdatedAt time.Time `json:"updated_at"`
	// LastFrom wrote the latest message, and LastText is its beginning, at most 300 characters.
	LastFrom string `json:"last_from,omitempty"`
	LastText string `json:"last_text,omitempty"`
}

// Member is an agent in a channel.
type Member struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ChannelRequest makes a channel.
type ChannelRequest struct {
	Name    string   `json:"name"`
	Members []string `json:"members,omitempty"`
}

// MembersRequest adds agents to a channel and takes others out, by name or id.
type MembersRequest struct {
	Add    []string `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// StatusRequest closes a channel or thread, or opens it again: closed, active.
type StatusRequest struct {
	Status string `json:"status"`
}

// EditRequest changes what a message says.
type EditRequest struct {
	Text string `json:"text"`
}

// ReactionRequest puts the operator's emoji on a message, or takes it away.
type ReactionRequest struct {
	Emoji  string `json:"emoji"`
	Remove bool   `json:"remove,omitempty"`
}

// Changed says whether a reaction was not there already, or was there to be taken away.
type Changed struct {
	Changed bool `json:"changed"`
}

// ReadRequest names messages to the operator that were read, at most 1,000.
type ReadRequest struct {
	Messages []string `json:"messages"`
}

// ReadAnswer says how many of them were new.
type ReadAnswer struct {
	Read int `json:"read"`
}

// PostRequest is the operator's own word.
type PostRequest struct {
	Text string `json:"text"`
}

// Posted is what became of the operator's post.
type Posted struct {
	Message Message `json:"message"`
	// Recipients counts whom it goes to, Woken whom it gives a turn.
	Recipients int `json:"recipients"`
	Woken      int `json:"woken"`
}

// The lists, newest first. Next, when it is not empty, asks for what follows: as
// before in the next request.
type (
	// ChannelList holds channels, threads or DMs.
	ChannelList struct {
		Channels []Channel `json:"channels"`
		Next     string    `json:"next,omitempty"`
	}
	// MessageList holds messages.
	MessageList struct {
		Messages []Message `json:"messages"`
		Next     string    `json:"next,omitempty"`
	}
)

func viewMessage(p mail.Peeked) Message {
	m := p.Message
	v := Message{ID: string(m.ID), Kind: string(m.Kind), Conversation: string(m.Conversation), From: string(m.From), FromName: m.FromName, Text: m.Text,
		Urgent: m.Urgent, Sync: m.Sync, System: m.System, ReplyTo: string(m.ReplyTo), Files: m.Files, CreatedAt: m.CreatedAt, EditedAt: m.EditedAt, DeletedAt: m.DeletedAt}
	for _, id := range m.To {
		v.To = append(v.To, string(id))
	}
	for _, r := range p.Receipts {
		v.Receipts = append(v.Receipts, Receipt{Agent: string(r.Agent), Name: r.Name, State: string(r.State), Turn: string(r.Turn), Answer: string(r.Answer), ReadAt: r.ReadAt})
	}
	for _, r := range p.Reactions {
		v.Reactions = append(v.Reactions, Reaction{Agent: string(r.Agent), Name: r.Name, Emoji: r.Emoji})
	}
	return v
}

func viewChannel(c mail.Conversation) Channel {
	v := Channel{ID: string(c.ID), Kind: string(c.Kind), Name: c.Name, Title: c.Title, Creator: string(c.Creator), Status: string(c.Status), Members: []Member{}, CreatedAt: c.CreatedAt,
		UpdatedAt: c.UpdatedAt, LastFrom: c.Latest.FromName, LastText: words.OneLine(c.Latest.Text, 300)}
	for _, m := range c.Members {
		v.Members = append(v.Members, Member{ID: string(m.ID), Name: m.Name})
	}
	return v
}

// Tools are the API's own readers of requests, so that a path, a query and a
// body mean the same and fail alike everywhere.
type Tools struct {
	// Body reads a body whose every key must be known.
	Body func(w http.ResponseWriter, r *http.Request, v any) error
	// Path returns a decoded variable of the path.
	Path func(r *http.Request, name string) (string, error)
	// Page reads limit and before, and the value of one more key, "" for none.
	Page func(r *http.Request, key string) (Page, error)
}

// Page is which part of a list is asked for.
type Page struct {
	Limit  int
	Before string
	// Value is that of the further key, "" when it was not given.
	Value string
}

// Route is one line of the table of routes; Serve returns its error instead of writing it.
type Route struct {
	Method, Path string
	Serve        func(w http.ResponseWriter, r *http.Request) error
}

// Handler serves mail to the operator. Safe for concurrent use.
type Handler struct {
	mail *mail.Service
	use  Tools
}

// New returns a handler over a post office.
func New(m *mail.Service, use Tools) *Handler { return &Handler{mail: m, use: use} }

// Routes are what the handler serves.
func (h *Handler) Routes() []Route {
	return []Route{
		{http.MethodGet, "/v1/channels", h.listChannels},
		{http.MethodPost, "/v1/channels", h.createChannel},
		{http.MethodGet, "/v1/channels/{id}", h.channel},
		{http.MethodPost, "/v1/channels/{id}/members", h.channelMembers},
		{http.MethodPost, "/v1/channels/{id}/status", h.channelStatus},
		{http.MethodGet, "/v1/channels/{id}/messages", h.channelMessages},
		{http.MethodPost, "/v1/channels/{id}/messages", h.post},
		{http.MethodGet, "/v1/agents/{id}/mail", h.agentMail},
		{http.MethodPost, "/v1/mail/read", h.read},
		{http.MethodPost, "/v1/messages/{id}/edit", h.edit},
		{http.MethodPost, "/v1/messages/{id}/delete", h.withdraw},
		{http.MethodPost, "/v1/messages/{id}/reactions", h.react},
		{http.MethodGet, "/v1/files/{id}", h.file},
		{http.MethodPost, "/v1/files/{id}/delete", h.deleteFile},
	}
}

func (h *Handler) listChannels(w http.ResponseWriter, r *http.Request) error {
	page, err := h.use.Page(r, "kind")
	if err != nil {
		return err
	}
	kind := bridge.MailKind(page.Value)
	if !slices.Contains([]bridge.MailKind{"", bridge.MailChannel, bridge.MailThread, bridge.MailDM}, kind) {
		return bridge.Errorf(bridge.Invalid, "kind: %+.40q is not one of channel, dm, thread", page.Value)
	}
	found, err := h.mail.Conversations(r.Context(), bridge.ConversationFilter{Kind: kind, Before: bridge.ConversationID(page.Before), Limit: page.Limit + 1})
	if err != nil {
		return err
	}
	list := ChannelList{Channels: []Channel{}}
	for _, c := range found[:min(len(found), page.Limit)] {
		list.Channels = append(list.Channels, viewChannel(c))
	}
	if len(found) > page.Limit {
		list.Next = list.Channels[page.Limit-1].ID
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) channel(w http.ResponseWriter, r *http.Request) error {
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	c, err := h.mail.Conversation(r.Context(), id)
	if err == nil {
		httpx.WriteJSON(w, http.StatusOK, viewChannel(c))
	}
	return err
}

func (h *Handler) createChannel(w http.ResponseWriter, r *http.Request) error {
	var req ChannelRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	c, err := h.mail.CreateChannel(r.Context(), req.Name, req.Members...)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusCreated, viewChannel(c))
	return nil
}

func (h *Handler) channelMembers(w http.ResponseWriter, r *http.Request) error {
	var req MembersRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	if len(req.Add) > 0 == (len(req.Remove) > 0) {
		return bridge.Errorf(bridge.Invalid, "the body must name agents in exactly one of add and remove")
	}
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	change, who := h.mail.AddMembers, req.Add
	if len(who) == 0 {
		change, who = h.mail.RemoveMembers, req.Remove
	}
	c, err := change(r.Context(), id, who...)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, viewChannel(c))
	return nil
}

func (h *Handler) channelStatus(w http.ResponseWriter, r *http.Request) error {
	var req StatusRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	c, err := h.mail.SetStatus(r.Context(), id, bridge.ConversationStatus(req.Status))
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, viewChannel(c))
	return nil
}

// post is the operator's own word to a channel, thread, DM or agent.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) error {
	var req PostRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	sent, err := h.mail.Say(r.Context(), id, req.Text)
	if err != nil {
		return err
	}
	httpx.RecordOf(r.Context()).Add("message", string(sent.Message.ID))
	httpx.WriteJSON(w, http.StatusCreated, Posted{Message: viewMessage(mail.Peeked{Message: sent.Message}), Recipients: sent.Recipients, Woken: sent.Woken})
	return nil
}

func (h *Handler) channelMessages(w http.ResponseWriter, r *http.Request) error {
	return h.messages(w, r, h.mail.PeekConversation)
}

func (h *Handler) agentMail(w http.ResponseWriter, r *http.Request) error {
	return h.messages(w, r, h.mail.PeekAgent)
}

func (h *Handler) messages(w http.ResponseWriter, r *http.Request, peek mail.Peek) error {
	page, err := h.use.Page(r, "")
	if err != nil {
		return err
	}
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	found, err := peek(r.Context(), id, bridge.MessageID(page.Before), page.Limit+1)
	if err != nil {
		return err
	}
	list := MessageList{Messages: []Message{}}
	for _, m := range found[:min(len(found), page.Limit)] {
		list.Messages = append(list.Messages, viewMessage(m))
	}
	if len(found) > page.Limit {
		list.Next = list.Messages[page.Limit-1].ID
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// file hands the operator a file that an agent handed to another. It is never
// shown in place: what agents write is no page of ours.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) error {
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	body, f, err := h.mail.OpenFile(r.Context(), bridge.User, bridge.FileID(id))
	if err != nil {
		return err
	}
	defer body.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	source := &readError{Reader: body}
	if _, err := io.Copy(w, source); source.err != nil {
		httpx.RecordOf(r.Context()).Failed(source.err) // the answer has begun
	} else {
		httpx.RecordOf(r.Context()).Err = err
	}
	return nil
}

// readError remembers why a file could not be read, which is not the client's doing.
type readError struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (e *readError) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // the contract of io.Reader
		e.err = err
	}
	return n, err
}
