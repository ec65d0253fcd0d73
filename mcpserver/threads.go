package mcpserver

import (
	"context"
	"math"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/mail"
)

// threadTools is the set for discussions (seed: AGSLAG). Its tools take the
// caller's own id, as the seed has it, and believe none but the connection's.
func (d *Door) threadTools() []tool {
	self := func(name string) prop { return text(name, "Your unique Agent ID.") }
	thread := text("thread_id", "The unique ID of the thread.")
	return []tool{
		define("send_message", "Send a message either directly to one agent or into a thread: give recipient_id or thread_id, not both. Use this tool for a discussion of several agents, and for an agent of your tree that is not your parent, child or sibling. A direct message wakes the recipient. A post in a thread wakes its creator and the agents that wrote there before. Replies arrive as your next turn.",
			takes(self("sender_id"), text("recipient_id", "Optional: The unique Agent ID of the recipient (for direct 1-to-1 messages). Do not use if sending to a thread.").maybe(),
				text("thread_id", "Optional: The ID of the thread to post the message in (for group discussions). Do not use if sending a direct message.").maybe(),
				text("content", "The textual content of the message."), flag("urgent", "Set to true if this message requires immediate attention.").or(false), replyTo()), d.threadSend).keyed(),
		define("get_messages", "Retrieve messages to you, direct ones and those of your threads, most recent first. The bridge marks them as read, and they do not come again as a turn.",
			takes(self("agent_id"), text("thread_id", "Optional: Retrieve messages only from this specific thread ID.").maybe(),
				number("limit", "Maximum number of messages to retrieve (most recent first), at most 100 at a time.").or(10),
				text("since", "Optional: Retrieve messages created after this ISO 8601 timestamp (e.g., '2025-03-30T12:00:00Z').").formatted("date-time").maybe()), d.getMessages).keeps(),
		define("create_thread", "Create a discussion thread for a group of agents. You are a participant; the others are told.",
			takes(self("creator_id"), text("title", "A concise and descriptive title for the discussion thread."),
				list("participants", "List of unique Agent IDs of all initial participants (creator is added automatically if not included)."),
				text("initial_message", "Optional first message to post in the newly created thread.").maybe()), d.createThread).keyed(),
		define("join_thread", "Join an existing discussion thread. The other participants read of it with their next turns; the bridge does not wake them.",
			takes(text("thread_id", "The unique ID of the thread you want to join."), self("agent_id")), d.joinThread).keeps(),
		define("broadcast_message", "Send the same message to several agents at once, for announcements or requests without a thread.",
			takes(self("sender_id"), list("recipient_ids", "List of unique Agent IDs of the recipients.").some(), text("content", "The textual content of the message to send to all recipients."),
				flag("urgent", "Set to true if this message requires immediate attention from all recipients.").or(false)), d.broadcastMessage).keyed(),
		define("check_new_messages", "Say how many unread messages wait for you.", takes(self("agent_id")), d.checkNew),
		define("transfer_file", "Hand a file to another agent. The bridge keeps a copy and tells the recipient how to fetch it. Give the file itself as content or content_base64. The bridge reads the file at source_path instead only if your workspace is on its machine or a relay hosts you. Upload a large file with PUT /mcp/files?recipient_id=ID&name=NAME and your token.",
			takes(self("sender_id"), text("recipient_id", "The unique Agent ID of the recipient."), text("source_path", "The absolute path to the file on your local filesystem that you want to send. With content it only gives the file's name."),
				text("content", "Optional: the file itself, as text.").maybe(), text("content_base64", "Optional: the file itself, in base64.").maybe(),
				text("destination_filename", "Optional: A specific filename for the file when the recipient accesses it (defaults to the original filename).").maybe(),
				text("description", "Optional text description of the file being sent.").maybe()), d.transferFile).keyed(),
		define("get_thread_details", "Show a thread's title, creator, participants and when it was made.", takes(text("thread_id", "The unique ID of the thread to retrieve details for.")), d.threadDetails),
		define("add_participant_to_thread", "Add an agent to a thread of yours. The bridge wakes that agent and posts a message to the thread. The others read the message with their next turns.",
			takes(thread, text("agent_id_to_add", "The unique Agent ID of the agent to add."), text("inviting_agent_id", "Your unique Agent ID (must be a current participant).")), d.addParticipant).keeps(),
		define("remove_participant_from_thread", "Remove an agent from a thread: yourself, or anyone if you created it. The creator cannot be removed. The agent and the others read of it with their next turns. The removed agent gets no more messages of the thread, not even unread ones.",
			takes(thread, text("agent_id_to_remove", "The unique Agent ID of the agent to remove."), text("removing_agent_id", "Your unique Agent ID (must be the thread creator or the agent being removed).")), d.removeParticipant).keeps(),
		d.agentLister(),
		define("list_threads", "List the discussion threads that you are in and those that you may join, newest first. If the answer has next, give it as before to list older ones.",
			takes(text("agent_id", "Your unique Agent ID."), number("limit", "Maximum number of threads to list, at most 100 at a time.").or(20),
				text("before", "Optional: list only threads older than this one. Give the next of the previous list.").maybe()), d.listThreads),
	}
}

// Post is a message as the seed's tools show it.
type Post struct {
	ID          string              `json:"id"`
	SenderID    string              `json:"sender_id"`
	SenderName  string              `json:"sender_name"`
	RecipientID string              `json:"recipient_id,omitempty"`
	Recipients  []string            `json:"recipient_ids,omitempty"`
	ThreadID    string              `json:"thread_id,omitempty"`
	Content     string              `json:"content"`
	Timestamp   time.Time           `json:"timestamp"`
	Urgent      bool                `json:"urgent"`
	ReplyTo     string              `json:"reply_to,omitempty"`
	Attachments []bridge.Attachment `json:"attachments,omitempty"`
}

func viewPost(m bridge.Message) Post {
	p := Post{ID: string(m.ID), SenderID: string(m.From), SenderName: m.FromName, ThreadID: string(m.Conversation), Content: m.Text,
		Timestamp: shown(m.CreatedAt), Urgent: m.Urgent, ReplyTo: string(m.ReplyTo), Attachments: m.Files}
	if len(m.To) == 1 {
		p.RecipientID = string(m.To[0])
	} else {
		for _, to := range m.To {
			p.Recipients = append(p.Recipients, string(to))
		}
	}
	return p
}

// shown is a time as it is kept, so that it is the same in every answer.
func shown(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// ThreadView is a thread as the seed's tools show it.
type ThreadView struct {
	ID           string    `json:"id"`
	Title        string    `json:"title"`
	CreatorID    string    `json:"creator_id"`
	Participants []string  `json:"participants"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	Status       string    `json:"status"`
}

func viewThread(t mail.Conversation) ThreadView {
	v := ThreadView{ID: string(t.ID), Title: t.Title, CreatorID: string(t.Creator), Participants: []string{}, CreatedAt: shown(t.CreatedAt), UpdatedAt: shown(t.UpdatedAt), Status: string(t.Status)}
	for _, m := range t.Members {
		v.Participants = append(v.Participants, string(m.ID))
	}
	return v
}

// confirm answers with the seed's confirmation message and the data behind it.
func confirm[Data any](err error, data Data, format string, args ...any) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	said := string(words.Say(format, args...))
	rest, err := encode(data)
	return answer{data: confirmed[Data]{said, data}, text: said + "\n" + string(rest)}, err
}

type threadSendArgs struct {
	Sender    string `json:"sender_id"`
	Recipient string `json:"recipient_id"`
	Thread    string `json:"thread_id"`
	Content   string `json:"content"`
	Urgent    bool   `json:"urgent"`
	ReplyTo   string `json:"reply_to"`
}

func (d *Door) threadSend(ctx context.Context, c *caller, in threadSendArgs) (answer, error) {
	if err := c.is("sender_id", in.Sender); err != nil {
		return answer{}, err
	}
	if (in.Recipient == "") == (in.Thread == "") {
		return answer{}, bridge.Errorf(bridge.Invalid, "give either recipient_id or thread_id, and not both")
	}
	draft := mail.Draft{Text: in.Content, Urgent: in.Urgent, ReplyTo: bridge.MessageID(in.ReplyTo)}
	var sent mail.Sent
	var err error
	if in.Thread != "" {
		sent, err = d.post(c).PostThread(ctx, c.agent.ID, bridge.ConversationID(in.Thread), draft)
	} else {
		sent, err = d.post(c).SendTo(ctx, c.agent.ID, []string{in.Recipient}, draft)
	}
	return confirm(err, postData{viewPost(sent.Message)}, "Message sent. Message ID: %s", sent.Message.ID)
}

type getArgs struct {
	Agent  string   `json:"agent_id"`
	Thread string   `json:"thread_id"`
	Limit  *float64 `json:"limit"`
	Since  string   `json:"since"`
}

// maxMessages is how many messages one call returns at most.
const maxMessages = 100

// query reads which messages are asked for. A limit is the most that is wanted,
// so that fewer are no fault.
func (in getArgs) query() (q mail.Query, err error) {
	q = mail.Query{Thread: bridge.ConversationID(in.Thread), Limit: 10}
	if in.Limit != nil {
		if q.Limit, err = whole("limit", *in.Limit, math.MaxInt32); err == nil && q.Limit == 0 {
			err = bridge.Errorf(bridge.Invalid, "limit must be at least 1")
		}
		q.Limit = min(q.Limit, maxMessages)
	}
	if in.Since != "" && err == nil {
		q.Since, err = timestamp("since", in.Since)
	}
	return q, err
}

// timestamp reads ISO 8601 as agents write it: a time without a zone is UTC, and
// a day begins at midnight.
func timestamp(argument, value string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, bridge.Errorf(bridge.Invalid, "%s %+.40q is not a timestamp; write it like 2025-03-30T12:00:00Z", argument, value)
}

func (d *Door) getMessages(ctx context.Context, c *caller, in getArgs) (answer, error) {
	if err := c.is("agent_id", in.Agent); err != nil {
		return answer{}, err
	}
	q, err := in.query()
	if err != nil {
		return answer{}, err
	}
	got, err := d.post(c).Messages(ctx, c.agent.ID, q)
	if err == nil {
		err = d.heard(ctx, c, got)
	}
	if err != nil {
		return answer{}, err
	}
	posts := make([]Post, len(got))
	for i, m := range got {
		posts[i] = viewPost(m)
	}
	// The seed's answer is an array, which structured content cannot be in the older protocols.
	plain, err := encode(posts)
	return answer{data: postList{posts}, text: string(plain)}, err
}

type createArgs struct {
	Creator      string   `json:"creator_id"`
	Title        string   `json:"title"`
	Participants []string `json:"participants"`
	Initial      string   `json:"initial_message"`
}

func (d *Door) createThread(ctx context.Context, c *caller, in createArgs) (answer, error) {
	if err := c.is("creator_id", in.Creator); err != nil {
		return answer{}, err
	}
	t, first, err := d.post(c).CreateThread(ctx, c.agent.ID, mail.ThreadDraft{Title: in.Title, Participants: in.Participants, Text: in.Initial})
	data := threadMade{Thread: viewThread(t)}
	if in.Initial != "" {
		data.Initial = string(first)
	}
	return confirm(err, data, "Thread created. Thread ID: %s", t.ID)
}

type joinArgs struct {
	Thread string `json:"thread_id"`
	Agent  string `json:"agent_id"`
}

func (d *Door) joinThread(ctx context.Context, c *caller, in joinArgs) (answer, error) {
	if err := c.is("agent_id", in.Agent); err != nil {
		return answer{}, err
	}
	t, joined, err := d.post(c).Join(ctx, c.agent.ID, bridge.ConversationID(in.Thread))
	if err == nil && !joined {
		return confirm(nil, threadData{"already_participant", viewThread(t)}, "You are a participant of thread %s already.", t.ID)
	}
	return confirm(err, threadData{"joined", viewThread(t)}, "You joined thread %s.", t.ID)
}

type broadcastMessageArgs struct {
	Sender     string   `json:"sender_id"`
	Recipients []string `json:"recipient_ids"`
	Content    string   `json:"content"`
	Urgent     bool     `json:"urgent"`
}

func (d *Door) broadcastMessage(ctx context.Context, c *caller, in broadcastMessageArgs) (answer, error) {
	if err := c.is("sender_id", in.Sender); err != nil {
		return answer{}, err
	}
	sent, err := d.post(c).SendTo(ctx, c.agent.ID, in.Recipients, mail.Draft{Text: in.Content, Urgent: in.Urgent})
	p := viewPost(sent.Message)
	if p.RecipientID != "" { // one recipient is a list, too (seed: broadcast_message)
		p.RecipientID, p.Recipients = "", []string{p.RecipientID}
	}
	return confirm(err, postData{p}, "Message sent to %s. Message ID: %s", words.Count(sent.Recipients, "agent"), sent.Message.ID)
}

type selfArgs struct {
	Agent string `json:"agent_id"`
}

func (d *Door) checkNew(ctx context.Context, c *caller, in selfArgs) (answer, error) {
	if err := c.is("agent_id", in.Agent); err != nil {
		return answer{}, err
	}
	n, err := d.o.Mail.Unread(ctx, c.agent.ID)
	return confirm(err, unreadData{n}, "You have %s.", words.Own(words.Count(n, "unread message")))
}

type transferArgs struct {
	Sender      string  `json:"sender_id"`
	Recipient   string  `json:"recipient_id"`
	Source      string  `json:"source_path"`
	Content     *string `json:"content"`
	Base64      *string `json:"content_base64"`
	Destination string  `json:"destination_filename"`
	Description string  `json:"description"`
}

func (d *Door) transferFile(ctx context.Context, c *caller, in transferArgs) (answer, error) {
	if err := c.is("sender_id", in.Sender); err != nil {
		return answer{}, err
	}
	content, err := in.content()
	if err == nil && content == nil && d.hosted(c) {
		content, err = d.fromMachine(ctx, c, in.Source)
	}
	if err != nil {
		return answer{}, err
	}
	f, m, err := d.post(c).Transfer(ctx, c.agent.ID, mail.FileDraft{To: in.Recipient, Source: in.Source, Content: content, Name: in.Destination, Description: in.Description})
	return confirm(err, viewFile(f, m), "File %q handed over. Notification message ID: %s", f.Name, m.ID)
}

type threadArgs struct {
	Thread string `json:"thread_id"`
}

func (d *Door) threadDetails(ctx context.Context, c *caller, in threadArgs) (answer, error) {
	t, err := d.o.Mail.Thread(ctx, c.agent.ID, bridge.ConversationID(in.Thread))
	return answer{data: viewThread(t)}, err
}

type addArgs struct {
	Thread   string `json:"thread_id"`
	Agent    string `json:"agent_id_to_add"`
	Inviting string `json:"inviting_agent_id"`
}

func (d *Door) addParticipant(ctx context.Context, c *caller, in addArgs) (answer, error) {
	if err := c.is("inviting_agent_id", in.Inviting); err != nil {
		return answer{}, err
	}
	t, added, err := d.post(c).AddParticipant(ctx, c.agent.ID, bridge.ConversationID(in.Thread), in.Agent)
	if err == nil && !added {
		return confirm(nil, threadData{"already_participant", viewThread(t)}, "%s is a participant of thread %s already.", in.Agent, t.ID)
	}
	return confirm(err, threadData{"added", viewThread(t)}, "%s added to thread %s.", in.Agent, t.ID)
}

type removeArgs struct {
	Thread   string `json:"thread_id"`
	Agent    string `json:"agent_id_to_remove"`
	Removing string `json:"removing_agent_id"`
}

func (d *Door) removeParticipant(ctx context.Context, c *caller, in removeArgs) (answer, error) {
	if err := c.is("removing_agent_id", in.Removing); err != nil {
		return answer{}, err
	}
	t, err := d.post(c).RemoveParticipant(ctx, c.agent.ID, bridge.ConversationID(in.Thread), in.Agent)
	return confirm(err, threadData{"removed", viewThread(t)}, "%s removed from thread %s.", in.Agent, t.ID)
}
