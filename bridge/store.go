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
	Update(ctx context.Context, fn func(*Scene) error, hints ...Need) error
	// View runs fn on one consistent snapshot; it must not write. fn runs once, or, with
	// hints that left something out, twice, on a snapshot of its own each time. On PostgreSQL a view that reads events runs again
	// with them. They are from a moment before its snapshot, and a reader that goes on after the last one misses none.
	View(ctx context.Context, fn func(*Scene) error, hints ...Need) error
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
	// Roots leaves out agents that have a parent.
	Roots bool
	// Known leaves out agents that were forgotten; see Agent.Forgotten.
	Known  bool
	Before AgentID
	Limit  int
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

// CommandFilter selects commands, newest first (by turn in order when Turn is set). Limit 0 means 100.
type CommandFilter struct {
	Agent  AgentID
	Turn   TurnID
	State  CommandState
	Verb   parser.Verb
	Before CommandID
	Limit  int
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
	// WorkChat goes on with the turn of a chat model; Ref is the turn.
	WorkChat WorkKind = "chat"
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

// AgentLane is the lane of an agent's turns.
func AgentLane(id AgentID) string { return "agent/" + string(id) }

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
