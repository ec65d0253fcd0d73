package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/api/conversation"
	"drawbridge/api/office"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// The bounds of the places about mail.
const (
	// maxTalks bounds the conversations of each kind, and talksFor is how long a stream shows them before it looks again.
	maxTalks = 100
	talksFor = 5 * time.Second
	// maxMessages bounds the messages of a page, and maxUnread those to the person that the list of conversations looks at.
	maxMessages = 50
	maxUnread   = 20
	// maxMembers bounds the names of members in one line.
	maxMembers = 3
)

// you is the person, as messages name them.
const you = string(bridge.User)

// mailPath is where the messages of a conversation stand, or those to an agent or to the person: USER.
func mailPath(box string) string { return "/mail/" + url.PathEscape(box) }

// talk is a conversation, or what agents wrote to the person.
type talk struct {
	ID, Kind, Name, Members string
	// Closed says that it takes no words any more.
	Closed bool
	// Last are the latest words, and Unread is how many messages the person has not read.
	Last, Tone string
	Unread     int
	At         time.Time
	moment
}

func (t talk) names() (template, key string) { return "talk.html", "talk-" + t.ID }

// Path is where its messages stand.
func (t talk) Path() string { return mailPath(t.ID) }

// talks are the conversations. More says that there are others.
type talks struct {
	list []talk
	more bool
}

// talks lists the conversations, the latest words first.
func (p *Page) talks(ctx context.Context) (out talks, err error) {
	mine, err := p.o.API.Mail(ctx, you, api.ListOptions{Limit: maxUnread})
	if err != nil {
		return out, err
	}
	if len(mine.Messages) > 0 {
		m := mine.Messages[0]
		out.list = append(out.list, talk{ID: you, Kind: "mail", Name: "To you", Unread: len(unread(mine.Messages)), At: m.CreatedAt, Last: m.FromName + ": " + words.OneLine(m.Text, 300)})
	}
	for _, kind := range []string{"channel", "thread", "dm"} {
		list, err := p.o.API.Channels(ctx, kind, api.ListOptions{Limit: maxTalks})
		if err != nil {
			return out, err
		}
		out.more = out.more || list.Next != ""
		for _, c := range list.Channels {
			out.list = append(out.list, talkOf(c))
		}
	}
	for i := range out.list {
		one := &out.list[i]
		if one.Tone = "info"; one.Unread > 0 {
			one.Tone = "wait"
		}
		one.moment = p.moment(one.At)
	}
	slices.SortStableFunc(out.list, func(a, b talk) int { return b.At.Compare(a.At) })
	return out, nil
}

// talkOf names a conversation.
func talkOf(c office.Channel) talk {
	t := talk{ID: c.ID, Kind: c.Kind, Name: c.Name, At: c.UpdatedAt, Closed: c.Status != string(bridge.ConversationActive), Members: membersOf(c)}
	if t.Name == "" {
		t.Name = c.Title
	}
	if t.Name == "" {
		t.Name, t.Members = t.Members, ""
	}
	switch {
	case c.LastFrom == you:
		t.Last = "You: " + c.LastText
	case c.LastFrom != "":
		t.Last = c.LastFrom + ": " + c.LastText
	}
	return t
}

// membersOf names some members of a conversation, and says how many others there are.
func membersOf(c office.Channel) string {
	var names []string
	for _, m := range c.Members[:min(len(c.Members), maxMembers)] {
		names = append(names, m.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(c.Members) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if text == "" {
		text = "nobody"
	}
	return text
}

// unread are the messages that the person has not read.
func unread(messages []office.Message) (ids []string) {
	for _, m := range messages {
		for _, r := range m.Receipts {
			if r.Agent == you && r.State != string(bridge.ReceiptAcknowledged) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids
}

// mailModel lists the conversations.
func (p *Page) mailModel(ctx context.Context, m *page, v view) error {
	m.Title, m.Live = "Mail", "place="+placeMail
	m.Quiet = "No agent has written a message. To let agents write into a channel, type: drawbridge channels create NAME AGENT AGENT"
	all, fresh, err := v.looks.talks.get(p.o.Now(), talksFor, func() (talks, error) { return p.talks(ctx) })
	m.Busy = !fresh // what was kept is looked at again soon
	if bridge.KindOf(err) == bridge.NotFound {
		m.Quiet = "This bridge has no mail."
		return nil
	}
	for _, t := range all.list {
		m.Items = append(m.Items, t)
		switch {
		case t.Unread == maxUnread:
			m.Sub = fmt.Sprintf("%d or more unread messages", maxUnread)
		case t.Unread > 0:
			m.Sub = words.Count(t.Unread, "unread message")
		}
	}
	if all.more {
		m.Sub = strings.TrimPrefix(m.Sub+fmt.Sprintf("; the %d newest of each kind; to list all, type: drawbridge channels", maxTalks), "; ")
	}
	return err
}

// message is one message with how far it came.
type message struct {
	// Agent is the id of the agent that wrote it, "" for the person and the bridge.
	ID, From, Agent, Text, Clock, Full string
	// Mine says that the person wrote it, and Gone that it was withdrawn.
	Mine, Gone bool
	// Asks says that it was written to the person, who can answer the agent.
	Asks  bool
	Chips []string
	Files []string
	// Came is how far it came at each recipient, in words.
	Came string
}

func (m message) names() (template, key string) { return "message.html", m.ID }

// cameTo says in words how far a message is.
var cameTo = map[string]string{
	string(bridge.ReceiptQueued): "waits for", string(bridge.ReceiptOffered): "was offered to", string(bridge.ReceiptInPrompt): "was read by", string(bridge.ReceiptAcknowledged): "was read by",
}

func messageOf(m office.Message) message {
	out := message{ID: m.ID, From: m.FromName, Text: conversation.Clip(m.Text, maxSeen), Mine: m.From == you, Gone: !m.DeletedAt.IsZero(),
		Clock: m.CreatedAt.UTC().Format(time.TimeOnly), Full: m.CreatedAt.UTC().Format(time.RFC3339)}
	if out.Mine {
		out.From = "You"
	}
	if strings.HasPrefix(m.From, "agt_") {
		out.Agent = m.From
	}
	for i := range m.Receipts {
		if m.Receipts[i].Agent == you {
			m.Receipts[i].Name = "you"
			out.Asks = out.Agent != ""
		}
	}
	for _, f := range []struct {
		is   bool
		word string
	}{{m.Urgent, "urgent"}, {m.Sync, "waits for an answer"}, {m.System, "from the bridge"}, {!m.EditedAt.IsZero(), "changed"}} {
		if f.is {
			out.Chips = append(out.Chips, f.word)
		}
	}
	for _, f := range m.Files {
		out.Files = append(out.Files, fmt.Sprintf("%s (%d bytes)", f.Name, f.Size))
	}
	var came []string
	for _, state := range []string{"was read by", "was offered to", "waits for"} {
		var names []string
		for _, r := range m.Receipts {
			if cameTo[r.State] == state {
				names = append(names, r.Name)
			}
		}
		if len(names) > 0 {
			came = append(came, state+" "+strings.Join(names, ", "))
		}
	}
	for _, r := range m.Reactions {
		if r.Agent == you {
			r.Name = "you"
		}
		came = append(came, r.Name+" "+r.Emoji)
	}
	out.Came = strings.Join(came, " · ")
	return out
}

// box is a conversation that is shown, or the messages to an agent or to the person.
type box struct {
	// ID is that of the conversation or agent, or USER; Name is for people.
	ID, Name, Word string
	// Writes says that the person can write into it, and Text is what they wrote and nobody got.
	Writes bool
	Text   string
	// Earlier says that these are not the latest messages.
	Earlier bool
}

// reading is the form that marks messages to the person as read.
type reading struct {
	Word, Before string
	Messages     []string
}

func (reading) names() (template, key string) { return "reading.html", "" }

// boxModel collects the messages of a conversation, or those to an agent or to the person, the oldest first.
func (p *Page) boxModel(ctx context.Context, m *page, v view) error {
	list, err := p.box(ctx, m, v)
	if err != nil {
		return err
	}
	m.Live, m.Quiet = "place="+placeBox+"&box="+url.QueryEscape(m.Box.ID)+"&before="+url.QueryEscape(v.before), "There are no messages here."
	if m.MoreText = "Earlier messages"; list.Next != "" {
		m.More = mailPath(m.Box.ID) + "?before=" + url.QueryEscape(list.Next)
	}
	for _, one := range slices.Backward(list.Messages) {
		shown := messageOf(one)
		shown.Asks = shown.Asks && m.Speaks()
		m.Items = append(m.Items, shown)
	}
	m.Box.Word, m.Box.Earlier = m.Word, v.before != ""
	m.Side = reading{Word: m.Word, Before: v.before}
	if m.Box.ID == you && m.Speaks() {
		m.Side = reading{m.Word, v.before, unread(list.Messages)}
	}
	return nil
}

// box names a box and lists its messages, the newest first.
func (p *Page) box(ctx context.Context, m *page, v view) (office.MessageList, error) {
	o := api.ListOptions{Limit: maxMessages, Before: v.before}
	if v.box == you {
		m.Box, m.Title = &box{ID: you}, "Mail to you"
		return p.o.API.Mail(ctx, you, o)
	}
	c, err := p.o.API.Channel(ctx, v.box)
	if err == nil {
		t := talkOf(c)
		m.Box, m.Title = &box{ID: c.ID, Name: t.Name, Writes: m.Speaks() && !t.Closed && len(c.Members) > 0}, t.Name
		if m.Sub = c.Kind + " of " + membersOf(c); t.Closed {
			m.Sub = "closed " + m.Sub
		}
		return p.o.API.ChannelMessages(ctx, c.ID, o)
	}
	if bridge.KindOf(err) != bridge.NotFound {
		return office.MessageList{}, err
	}
	a, err := p.o.API.Agent(ctx, v.box)
	if err != nil {
		return office.MessageList{}, err
	}
	m.Box, m.Title = &box{ID: a.ID, Name: a.Name, Writes: m.Speaks()}, "Mail to "+a.Name
	return p.o.API.Mail(ctx, a.ID, o)
}

// write writes into a conversation or to an agent, or marks messages to the person as read.
func (p *Page) write(w http.ResponseWriter, r *http.Request, s session) error {
	v, err := viewOf(r, s)
	if err != nil {
		return err
	}
	f := r.PostForm
	text, next := formText(f, "value"), mailPath(v.box)
	switch f.Get("word") {
	case "post":
		var posted office.Posted
		posted, err = p.o.API.Post(r.Context(), v.box, text)
		next += "#" + posted.Message.ID
	case "read":
		if err = only(p.o.API.MarkRead(r.Context(), f["message"]...)); f.Get("before") != "" {
			next += "?before=" + url.QueryEscape(f.Get("before"))
		}
	default:
		return bridge.Errorf(bridge.Invalid, "the form names an unknown action; load the page again")
	}
	if err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return nil
	}
	v.place = placeBox
	m, modelErr := p.model(r.Context(), v)
	if modelErr != nil {
		return err
	}
	m.Error, m.Box.Text = bridge.SafeMessage(err), text
	m.Box.Writes = m.Box.Writes || text != "" && m.Speaks() // so that nobody loses what they wrote
	p.show(w, api.StatusOf(err), "page.html", m)
	return nil
}
