// Package mail is the post office between agents: messages, threads, channels,
// DMs, reactions and files, with who may write to whom and how often. It
// delivers nothing itself: what a recipient is to read becomes a notice, which
// the engine carries in a turn, and how far a message came is read off that
// notice. It runs no commands either. Rule of thumb: text of agents goes into
// Notice.Untrusted, and every rule is decided in the transaction that records
// the message.
package mail

import (
	"errors"
	"io"
	"time"

	"drawbridge/bridge"
)

// Options configures a Service. Steps is required.
type Options struct {
	Steps bridge.Steps
	// PerPair is how many messages one agent may write to another, or into one
	// conversation, within Window; default 10 in 60 s, negative for no bound.
	PerPair int
	Window  time.Duration
	// ChainDepth is how long a chain of DMs that wake may be: a DM wakes its
	// recipient only for a turn of a lower depth; default 3, negative for none at all.
	ChainDepth int
	// JoinWithin is how long a broadcast waits for joined answers when its draft
	// does not say; default an hour, at most bridge.MaxJoinWithin.
	JoinWithin time.Duration
	// ReplyWithin is how long the sender of a synchronous message waits for its
	// reply; default 24 hours.
	ReplyWithin time.Duration
	// Doors says of an API whether its agents get a door to the bridge, and with it
	// tools to answer with; nil means that all do but those of v0.
	Doors func(runtime string) bool
	// Tokenless says of a runtime whether its agents hold no token, so that they cannot fetch a file; nil means that all hold one.
	Tokenless func(runtime string) bool
	// TurnWithin is how long a group waits for one member's turn before the next
	// member is woken; default 10 minutes. Look is how often that is looked at; default 1 s.
	TurnWithin, Look time.Duration
	// Workspace returns the folder on this machine in which an agent works, ""
	// for one that has none here. Nil means that nobody has one.
	Workspace func(bridge.Agent) string
	// Files is the folder of the copies that Transfer makes; "" turns it off.
	// MaxFile bounds one of them in bytes; default 32 MiB.
	Files   string
	MaxFile int64
	// FilesPer bounds the files of one agent that are kept, default 1000, and FileBytes
	// their bytes, default 32 times MaxFile.
	FilesPer  int64
	FileBytes int64
	// ThreadsPer bounds the active threads that one agent made, default 100, and
	// ThreadsOf those in which it is a member, default 500.
	ThreadsPer, ThreadsOf int
	// NewID makes the ids of files; default bridge.NewID.
	NewID func(prefix string) string
}

// Service is the post office. Its methods are safe for concurrent use and
// return at once: none waits for another agent. The agent that calls is an id
// that the door vouches for; whom it names may be an id or a name. Errors are
// *bridge.Error with what to do next: Invalid, Denied, NotFound, Conflict,
// RateLimited (with RetryAfter) and TooLarge.
type Service struct {
	o Options
	// once is of the one request for which Once made this copy.
	once bridge.Once
	// copies holds a token for each file that is being copied on this machine.
	copies chan struct{}
	shares *shares
}

// New checks the options; it starts nothing. The engine hands work of the kind
// bridge.WorkMail to Work.
func New(o Options) (*Service, error) {
	if o.Steps == nil {
		return nil, errors.New("mail needs an engine")
	}
	if o.JoinWithin < 0 || o.JoinWithin > bridge.MaxJoinWithin {
		return nil, errors.New("mail: JoinWithin is out of bounds")
	}
	o.PerPair = or(o.PerPair, 10)
	o.Window = or(o.Window, time.Minute)
	o.ChainDepth = or(o.ChainDepth, 3)
	o.JoinWithin = or(o.JoinWithin, bridge.DefaultJoinWithin)
	o.ReplyWithin = or(o.ReplyWithin, 24*time.Hour)
	o.TurnWithin = or(o.TurnWithin, 10*time.Minute)
	o.Look = or(o.Look, time.Second)
	o.MaxFile = or(o.MaxFile, 32<<20)
	o.FilesPer = or(o.FilesPer, 1000)
	o.FileBytes = or(o.FileBytes, 32*o.MaxFile)
	o.ThreadsPer = or(o.ThreadsPer, 100)
	o.ThreadsOf = or(o.ThreadsOf, 500)
	if o.Workspace == nil {
		o.Workspace = func(bridge.Agent) string { return "" }
	}
	if o.NewID == nil {
		o.NewID = bridge.NewID
	}
	return &Service{o: o, copies: make(chan struct{}, maxCopies), shares: newShares()}, nil
}

// Once returns the office for one request of an agent. Every method that changes something for an agent honors it, but Leave, Edit,
// Delete and Unreact: what the method did under the key before, it returns again and does not do again. A request that was
// refused or failed was not done. Conflict for a key that the agent used for something else.
func (s *Service) Once(o bridge.Once) *Service {
	one := *s
	one.once = o
	return &one
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Draft is a message that is not sent yet.
type Draft struct {
	// To is the recipient's name or id, or "USER" for the operator. Only Send reads it.
	To   string
	Text string
	// Sync says that the sender expects the reply as its next turn.
	Sync   bool
	Urgent bool
	// ReplyTo names the message that this one answers. Without it, the oldest
	// message that the recipient waits for an answer to is taken.
	ReplyTo bridge.MessageID
	// Joined, of a broadcast, holds the answers back until all are there or
	// Within has passed (0 is Options.JoinWithin), and brings them as one turn.
	Joined bool
	Within time.Duration
	// result says that this is the one result of the sender's task.
	result bool
}

// Sent says what became of a draft.
type Sent struct {
	Message bridge.Message
	// Waiting reports whether a reply comes as a turn of its own: Draft.Sync, unless
	// no recipient can answer.
	Waiting bool
	// Mute says of each recipient that cannot answer why, empty when all can.
	Mute string
	// Recipients counts whom the message goes to; Woken how many of them it gives
	// a turn, now or when they are free. The others read it with their next one.
	Recipients int
	Woken      int
}

// Query selects messages. Limit 0 is 10, at most 100.
type Query struct {
	Thread bridge.ConversationID
	Limit  int
	Since  time.Time
}

// ThreadDraft is a thread that does not exist yet.
type ThreadDraft struct {
	Title        string
	Participants []string
	// Text is the first message, often empty.
	Text string
}

// Participant is a member of a conversation as others see it.
type Participant struct {
	ID   bridge.AgentID
	Name string
}

// Conversation is a thread, a channel or a DM with its members, in the order in
// which they joined.
type Conversation struct {
	bridge.Conversation
	Members []Participant
	// Latest is the message that stands last in it, the zero message for none.
	Latest bridge.Message
}

// FileDraft is a file that is not handed over yet.
type FileDraft struct {
	To string
	// Source is the file's path in the sender's workspace: absolute, or relative to it. With Content it only names the file.
	Source string
	// Content is the file itself, from a sender without a workspace on the bridge's machine; nil reads Source. It is read once.
	Content io.Reader
	// Arriving says that Content comes from a network, as fast as its sender likes.
	Arriving bool
	// Name is what the recipient sees, default the source's own name.
	Name        string
	Description string
}
