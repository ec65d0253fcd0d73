package bridge

import (
	"context"
	"errors"
	"time"

	"drawbridge/parser"
)

// ErrNoRow is returned by a store's look-up that found nothing.
var ErrNoRow = errors.New("no such row")

// ErrLeaseLost is returned when work is given back by someone who no longer
// holds it: another took it over after the lease ran out.
var ErrLeaseLost = errors.New("lease lost")

// Store keeps everything. Its methods are safe for concurrent use.
type Store interface {
	// Update runs fn as one step, whose changes are durable when Update returns nil
	// (acknowledged means recorded) and leave no trace when fn returns an error. fn is
	// a function of the scene: it runs again, on more rows, when it lacked some, so it
	// blocks on nothing and sets what it hands out each time. The hints name rows that it will look at, so that
	// a store may load them with the first ones.
	Update(ctx context.Context, fn func(Tx) error, hints ...Need) error
	// View runs fn, once, on one consistent snapshot; it must not write.
	View(ctx context.Context, fn func(Tx) error, hints ...Need) error
	// Claim hands out heads of lanes that are due and not held. Nobody is woken by it,
	// and a power failure may take a lease back, which leaves work that nobody holds.
	Claim(ctx context.Context, c Claim) ([]Work, error)
	// NextFor returns when the next item that nobody holds and that the claim does not
	// leave out is due, or the zero time.
	NextFor(ctx context.Context, c Claim) (time.Time, error)
	// Extend holds work for longer; ErrLeaseLost when somebody else has it by now.
	Extend(ctx context.Context, w Work, until time.Time) error
}

type forgettable struct{}

// Forgettable marks an Update whose loss in a power failure would harm nothing,
// such as taking a lease, so that a store may commit it without waiting for
// the disk. It is still atomic, in order, and there after a crash of the process.
func Forgettable(ctx context.Context) context.Context {
	return context.WithValue(ctx, forgettable{}, true)
}

// IsForgettable reports whether an Update's context was marked by Forgettable.
func IsForgettable(ctx context.Context) bool {
	marked, _ := ctx.Value(forgettable{}).(bool)
	return marked
}

type unheard struct{}

// Unheard marks an Update that gives nobody anything to do: no work, no event
// and no state that others wait for, such as a lease or a line in a run's
// record. Neither the engine nor other replicas are woken after it.
func Unheard(ctx context.Context) context.Context {
	return context.WithValue(ctx, unheard{}, true)
}

// IsUnheard reports whether an Update's context was marked by Unheard.
func IsUnheard(ctx context.Context) bool {
	marked, _ := ctx.Value(unheard{}).(bool)
	return marked
}

// Tx is one transaction. It is not for concurrent use and ends with the
// function that got it. Look-ups return ErrNoRow when nothing is there.
type Tx interface {
	// Want says what a loop will look up one by one, so that it is loaded together.
	// It fails with ErrLacking when anything of it has to be loaded.
	Want(all ...Need) error
	AgentTx
	TurnTx
	CommandTx
	NoticeTx
	ToldTx
	LedgerTx
	TreeTx
	MemoTx
	YesTx
	LaneTx
	EventTx
	MemoryTx
	TokenTx
	RunTx
	WatchTx
	OnceTx
	RelayTx
	EnrolTx
	RelayCallTx
	MailTx
	ConversationTx
	AttachmentTx
}

// AgentTx keeps agents.
type AgentTx interface {
	// InsertAgent fails with a Conflict error when another agent of the tree has the
	// name or, for a root, another root has it.
	InsertAgent(a Agent) error
	UpdateAgent(a Agent) error
	Agent(id AgentID) (Agent, error)
	// FindAgent looks an agent up by exactly one field. By name it returns the root of
	// that name, or else the only agent of it; see OnlyAgent. Agents ask FindInTree.
	FindAgent(by AgentBy, value string) (Agent, error)
	Agents(f AgentFilter) ([]Agent, error)
	// CountOpenSubagents counts agents with a parent that are busy or waiting;
	// under a root, or everywhere when root is empty.
	CountOpenSubagents(root AgentID) (int, error)
}

// AgentBy names the field of a look-up.
type AgentBy string

// The fields that identify an agent.
const (
	ByName     AgentBy = "name"
	ByExternal AgentBy = "external"
	ByChatUser AgentBy = "chat_user"
)

// AgentFilter selects agents, newest first. Zero fields select everything; Limit 0 means 100.
type AgentFilter struct {
	// Name needs a Root: it selects the agent of that name in the tree.
	Name   string
	Root   AgentID
	Parent AgentID
	State  AgentState
	// Known leaves out agents that were forgotten; see Agent.Forgotten.
	Known  bool
	Before AgentID
	Limit  int
}

// TurnTx keeps turns.
type TurnTx interface {
	// InsertTurn gives the turn the agent's next Seq and returns it.
	InsertTurn(t Turn) (int64, error)
	UpdateTurn(t Turn) error
	Turn(id TurnID) (Turn, error)
	Turns(f TurnFilter) ([]Turn, error)
	// OpenTurn returns the agent's first turn that is not over.
	OpenTurn(agent AgentID) (Turn, error)
	// HasOpenTurn reports whether OpenTurn finds one, without reading its texts.
	HasOpenTurn(agent AgentID) (bool, error)
	// CurrentTurn returns the turn that the agent is in, or else the newest that it
	// was in. One that is queued does not count, because nobody has heard of it
	// yet. ErrNoRow for an agent that was in none.
	CurrentTurn(agent AgentID) (TurnHead, error)
}

// TurnHead is a turn without its texts.
type TurnHead struct {
	ID    TurnID
	State TurnState
	Depth int
}

// TurnFilter selects turns, newest first. Limit 0 means 100.
type TurnFilter struct {
	Agent  AgentID
	State  TurnState
	Before int64
	// Oldest turns the order around, and After selects turns with a greater Seq.
	Oldest bool
	After  int64
	Limit  int
}

// CommandTx keeps commands.
type CommandTx interface {
	InsertCommand(c Command) error
	UpdateCommand(c Command) error
	Command(id CommandID) (Command, error)
	Commands(f CommandFilter) ([]Command, error)
	// CountLaunches counts SUBAGENT commands since a time that were granted or went further.
	CountLaunches(since time.Time) (int, error)
	// CountOpenCommands counts an agent's commands of which something may still
	// come; of one verb, or of all when verb is empty.
	CountOpenCommands(agent AgentID, verb parser.Verb) (int, error)
}

// CommandFilter selects commands, newest first (by turn in order when Turn is set). Limit 0 means 100.
type CommandFilter struct {
	Agent  AgentID
	Turn   TurnID
	State  CommandState
	Verb   parser.Verb
	Before CommandID
	Limit  int
}

// NoticeTx keeps what waits to be told.
type NoticeTx interface {
	InsertNotice(n Notice) error
	// WaitingNotices returns an agent's notices that no turn carries yet and that
	// are not held: those that are worth a turn, then the quiet ones, each oldest first.
	WaitingNotices(agent AgentID, limit int) ([]Notice, error)
	// WaitingMail returns those of WaitingNotices that bring messages.
	WaitingMail(agent AgentID, limit int) ([]Notice, error)
	// NoticesOf returns the notices that bring a message, oldest first.
	NoticesOf(id MessageID) ([]Notice, error)
	// RewriteNotices changes what a message's notices say that still wait, and
	// returns how many there were. An empty text leaves the trusted part as it is.
	RewriteNotices(id MessageID, text Words, untrusted string) (int, error)
	// RouseNotice makes a quiet notice worth a turn. One that is so already is fine.
	RouseNotice(id NoticeID) error
	// CarryNotices binds notices to the turn that will tell them; turn "" lets them wait again.
	CarryNotices(ids []NoticeID, turn TurnID) error
	// CarriedNotices returns the notices that a turn carries, oldest first.
	CarriedNotices(turn TurnID) ([]Notice, error)
	// ReleaseNotices lets go of what a join holds back and returns how many there were.
	ReleaseNotices(join TurnID) (int, error)
}

// LedgerTx keeps completions and deliveries.
type LedgerTx interface {
	// InsertCompletion reports false for a duplicate of (op, run, status).
	InsertCompletion(c Completion) (bool, error)
	// DeliverCompletions marks completions as delivered by a turn that ran.
	DeliverCompletions(ids []CompletionID, turn TurnID, at time.Time) error
	Completions(op AgentID) ([]Completion, error)
	// InsertDelivery reports false for a duplicate of (op, external, status, sent at).
	InsertDelivery(d Delivery) (bool, error)
	Deliveries(op AgentID, limit int) ([]Delivery, error)
}

// TreeTx keeps what trees of agents have used.
type TreeTx interface {
	// Tree returns a tree as it stands; one that has used nothing is no error.
	Tree(root AgentID) (Tree, error)
	PutTree(t Tree) error
}

// MemoTx keeps what the gate must remember between turns.
type MemoTx interface {
	// PutEcho records words that an agent heard. The same words (agent and key) heard
	// again replace the record, and so last longer.
	PutEcho(e Echo) error
	// Echoes returns at most limit of an agent's echoes that are younger than age, in
	// the order of their keys.
	Echoes(agent AgentID, age EchoAge, limit int) ([]Echo, error)
	// DropEchoes deletes an agent's other echoes and returns how many there were.
	DropEchoes(agent AgentID, age EchoAge) (int, error)
	// PutApproval lets a key pass for agents under root until a time.
	PutApproval(root AgentID, key string, until time.Time) error
	Approved(root AgentID, key string, at time.Time) (bool, error)
}

// WorkKind says which handler work goes to.
type WorkKind string

// The kinds of work.
const (
	WorkTurn   WorkKind = "turn"
	WorkAction WorkKind = "action"
	WorkRemind WorkKind = "remind"
	WorkJoin   WorkKind = "join"
	WorkMail   WorkKind = "mail"
	WorkUsage  WorkKind = "usage"
	// WorkLookup asks a relay's journal about an action of which nobody knows what it came to.
	WorkLookup WorkKind = "lookup"
)

// Work is one item in a lane. Items of a lane are handed out one at a time and
// in order; items of different lanes side by side.
type Work struct {
	ID    int64
	Lane  string
	Seq   int64
	Kind  WorkKind
	Ref   string
	Due   time.Time
	Lease time.Time
	// Fence grows with every claim; giving back with an old one fails.
	Fence int64
	// Attempts counts claims, crashes and wakes among them; Tries counts the times
	// that the handler tried and was put off (PutOff).
	Attempts int
	Tries    int
	// Failures counts how many times in a row the handler failed.
	Failures int
	// Lost counts the claims in a row before this one that ended without an answer:
	// its holder never gave it back, most likely because it died.
	Lost int
	// Woken counts calls of Wake, so that one that comes while the work is
	// held is not lost when it is put back.
	Woken int64
	// Share names whose share of the slots the work uses, see TreeShare and RelayShare; "" for none.
	Share string
	// AwaySince is since when the one that the work needs is away, the zero time while it is not. The holder that gives the work
	// back sets it.
	AwaySince time.Time
}

// TreeShare names a tree's share of the slots for a kind of work.
func TreeShare(kind WorkKind, root AgentID) string { return string(kind) + "/" + string(root) }

// RelayShare names a relay's share of the slots for actions; relay is "" for actions that name none.
func RelayShare(relay string) string { return string(WorkAction) + "/" + relay }

// Claim asks for work.
type Claim struct {
	Now   time.Time
	Lease time.Duration
	Limit int
	// Without leaves out kinds of work, and Spent leaves out work of shares that are used up. Both are short lists.
	Without []WorkKind
	Spent   []string
}

// LaneTx keeps due work. Everything that must go on after a restart is a row here.
type LaneTx interface {
	Enqueue(w Work) error
	// FinishWork removes work; ErrLeaseLost when the fence is old.
	FinishWork(w Work) error
	// PutBack makes work due again at a time, or at once if it was woken meanwhile. Failures are counted from 0 again.
	PutBack(w Work, due time.Time) error
	// PutOff is PutBack for work that was tried in vain: it counts one try more.
	PutOff(w Work, due time.Time) error
	// FailWork is PutBack for work whose handler failed: it counts one failure
	// more than w has, and the claims that were lost as failures too.
	FailWork(w Work, due time.Time) error
	// WakeLane makes the head of a lane due now.
	WakeLane(lane string, now time.Time) error
	// WakeLanes is WakeLane for each of many; nearly all of them may be empty.
	WakeLanes(lanes []string, now time.Time) error
}

// EventTx keeps the timeline.
type EventTx interface {
	AppendEvent(e Event) error
	Events(after int64, limit int) ([]Event, error)
}
