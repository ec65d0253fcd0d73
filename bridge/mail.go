package bridge

import "time"

// The typed ids of mail.
type (
	// MessageID is "msg_…".
	MessageID string
	// ConversationID is "thr_…" for a thread, "chn_…" for a channel, and "dm:"
	// with both names in order for a DM.
	ConversationID string
	// FileID is "fil_…".
	FileID string
)

// User is the operator as the sender or the recipient of mail. No agent has this id.
const User AgentID = "USER"

// MailKind says along which way a message went, or what kind of conversation it is.
type MailKind string

// The kinds. Direct messages have recipients, all others a conversation. A DM is
// a channel of exactly two members.
const (
	MailDirect  MailKind = "direct"
	MailThread  MailKind = "thread"
	MailChannel MailKind = "channel"
	MailDM      MailKind = "dm"
)

// Limits of mail. Text and titles are in bytes.
const (
	MaxMessage = 64 << 10
	MaxTitle   = 200
	MaxMembers = 100
)

// Message is what one agent (or the operator) wrote to others. Its text is
// untrusted wherever an agent reads it, unless the operator wrote it.
type Message struct {
	ID   MessageID
	Kind MailKind
	// Conversation is empty for a direct message.
	Conversation ConversationID
	// From is User for the operator; FromName is the sender's name as it was then.
	From     AgentID
	FromName string
	// To are the recipients of a direct message. What a conversation's message
	// reached is told by its letters.
	To   []AgentID
	Text string
	// Urgent messages wake recipients whom the kind alone would not.
	Urgent bool
	// Sync says that the sender was told to expect a reply as its next turn.
	Sync bool
	// System messages were made by the bridge, about something that From did.
	System  bool
	ReplyTo MessageID
	// JoinBy is until when answers are held back to come as one turn; the zero
	// time when they come one by one (any more).
	JoinBy time.Time
	Files  []Attachment
	// Turn is the sender's turn in which it was written, Depth that turn's chain depth.
	Turn      TurnID
	Depth     int
	CreatedAt time.Time
	EditedAt  time.Time
	// DeletedAt is set once the text was withdrawn; Text is empty then.
	DeletedAt time.Time
}

// Attachment is a file as its message names it (seed: AGSLAG). Size is in bytes.
type Attachment struct {
	ID   FileID `json:"id"`
	Type string `json:"type"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Letter is one message on its way to one recipient. How far it came is read
// off its notice: see Receipt.
type Letter struct {
	Message MessageID
	Agent   AgentID
	From    AgentID
	// Notice is empty for a letter to User, who gets no turns.
	Notice NoticeID
	// Direct letters name their recipient, others reach it as a member; only
	// direct ones count against the limit of a pair.
	Direct bool
	// Awaited is true while the sender waits for this recipient's answer, which
	// becomes Answer.
	Awaited bool
	Answer  MessageID
	// Offered is the turn in which the recipient fetched it by a tool call.
	Offered TurnID
	// ReadAt is when it was fetched first.
	ReadAt    time.Time
	CreatedAt time.Time
}

// HeldFor is the Notice.Join of the answers to a broadcast.
func HeldFor(id MessageID) TurnID { return TurnID(id) }

// ReceiptState says how far a message has come at one recipient.
type ReceiptState string

// The receipt states. A message whose turn failed is queued again.
const (
	ReceiptQueued       ReceiptState = "queued"
	ReceiptOffered      ReceiptState = "offered"
	ReceiptInPrompt     ReceiptState = "in_prompt"
	ReceiptAcknowledged ReceiptState = "acknowledged"
)

// Receipt is what the sender of a message may see of one recipient.
type Receipt struct {
	Agent AgentID
	Name  string
	State ReceiptState
	// Turn is the one that carries the message, empty while it is queued.
	Turn TurnID
	// Answer is the message that answered, ReadAt when the recipient fetched it by
	// a tool call; both may stay empty.
	Answer MessageID
	ReadAt time.Time
}

// ConversationStatus says whether a conversation takes messages.
type ConversationStatus string

// The conversation statuses.
const (
	ConversationActive ConversationStatus = "active"
	ConversationClosed ConversationStatus = "closed"
)

// Conversation is a thread, a channel or a DM.
type Conversation struct {
	ID   ConversationID
	Kind MailKind
	// Name is a channel's unique name, empty for all others; a person gives it.
	Name string
	// Title is a thread's; an agent wrote it.
	Title string
	// Creator is User for what the operator made.
	Creator   AgentID
	Status    ConversationStatus
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Reaction is one agent's emoji on a message, unique by all three.
type Reaction struct {
	Message   MessageID
	Agent     AgentID
	Emoji     string
	CreatedAt time.Time
}

// File is a file that one agent handed to another; the bridge holds a copy.
type File struct {
	ID      FileID
	Message MessageID
	From    AgentID
	To      AgentID
	// Name is what the recipient sees: one path element. Path is absolute, on the bridge's machine.
	Name        string
	Path        string
	Size        int64
	SHA256      string
	Description string
	CreatedAt   time.Time
}

// The event kinds of mail.
const (
	EventMessageCreated  = "message_created"
	EventMessageUpdated  = "message_updated"
	EventMessageDeleted  = "message_deleted"
	EventReactionAdded   = "reaction_added"
	EventReactionRemoved = "reaction_removed"
)

// MessageFilter selects messages, newest first. Exactly one of Conversation and
// To is set. Limit 0 means 100.
type MessageFilter struct {
	Conversation ConversationID
	// To selects what has a letter for an agent, or for User.
	To AgentID
	// Since selects what was written after a time.
	Since  time.Time
	Before MessageID
	Limit  int
}

// ConversationFilter selects conversations, newest first. Limit 0 means 100.
type ConversationFilter struct {
	Kind   MailKind
	Before ConversationID
	Limit  int
}
