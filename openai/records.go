package openai

import (
	"context"
	"errors"
	"time"

	"drawbridge/openai/upstream"
)

// ErrConflict is returned by Records.Save when somebody else recorded a turn under the same idempotency key, or changed a turn, since it was read.
// Look again then, and decide again.
var ErrConflict = errors.New("another request changed this first")

// Records keeps what the door must not forget. Safe for concurrent use, also by several replicas on one database.
type Records interface {
	// Look finds what a request may be about.
	Look(ctx context.Context, q Query) (Found, error)
	// Save writes a change as one step that is durable when it returns nil.
	Save(ctx context.Context, c Change) error
	// Hold says that this process still works on turns, until a time. It returns those that are not this process's any more.
	Hold(ctx context.Context, holder string, turns []string, until time.Time) (lost []string, err error)
	// Left returns at most limit turns that are running or parked and that nobody holds at the time now.
	Left(ctx context.Context, now time.Time, limit int) ([]Turn, error)
	// Spent returns how many tokens the turns of a token used since a time, and how many turns began since then.
	Spent(ctx context.Context, token string, since time.Time) (tokens, turns int64, err error)
	// Forget deletes at most limit sessions that nobody used since a time and turns that ended before it, and returns how many. All of a session
	// goes. In a session that is used the last turn stays, by which it goes on, and values go whose keys begin with upstream.TurnKeys.
	Forget(ctx context.Context, before time.Time, limit int) (int, error)
	// State and SetState keep values for a backend with a session. State returns nil for a key that is not set; nil unsets one.
	State(ctx context.Context, session, key string) ([]byte, error)
	SetState(ctx context.Context, session, key string, value []byte) error
	// TokenBy returns the token of a hash, revoked ones too, and ErrNoToken when there is none.
	TokenBy(ctx context.Context, hash string) (Token, error)
	// Tokens lists all tokens, in the order of their names.
	Tokens(ctx context.Context) ([]Token, error)
	// SaveToken adds a token, or changes what is in force of the one with this ID. A name that a token in force has is an ErrConflict.
	SaveToken(ctx context.Context, t Token) error
}

// BodyKey is the key of a turn's request, which /v1/tool_results needs at a backend that keeps nothing. The door unsets it when a backend took the
// results.
func BodyKey(turn string) string { return upstream.TurnKeys + "body " + turn }

// ErrNoToken is returned by a look-up that found no token.
var ErrNoToken = errors.New("no such token")

// Token lets a program in at this door. The secret is shown once; what is kept is its hash.
type Token struct {
	// ID is "otk_…"; Name is unique among tokens in force.
	ID, Name, Hash string
	// Models are the names that it may use; a * at the end stands for any rest. None is every model but those of agents.
	Models []string
	// Budget is how many tokens its turns may use in a day (UTC), PerMinute how many turns may begin in a minute; 0 bounds nothing.
	Budget    int64
	PerMinute int
	// Commands names the agent as which the text of its answers acts, "" for none.
	Commands string
	// SpeaksFor is "operator" when the newest user text counts as the operator's word, otherwise "".
	SpeaksFor string
	CreatedAt time.Time
	// LastUsed is zero for a token that nobody came with yet, RevokedAt while it is good.
	LastUsed, RevokedAt time.Time
}

// TurnState says where a turn of the door stands.
type TurnState string

// The states. The last three are the end.
const (
	// TurnStarting is recorded before the backend is asked.
	TurnStarting TurnState = "starting"
	TurnRunning  TurnState = "running"
	// TurnParked waits for results of the caller's tools.
	TurnParked TurnState = "parked"
	TurnEnded  TurnState = "ended"
	TurnFailed TurnState = "failed"
	// TurnLost may have done something, and its answer cannot be had any more.
	TurnLost TurnState = "lost"
)

// Over reports whether nothing comes of the turn any more.
func (s TurnState) Over() bool { return s == TurnEnded || s == TurnFailed || s == TurnLost }

// Session is a conversation as the door knows it.
type Session struct {
	ID, Token string
	// Key is what the client calls the session, "" where it says nothing.
	Key             string
	Model           string
	CreatedAt, Used time.Time
}

// Turn is one request and its answer.
type Turn struct {
	// ID is "chatcmpl-…".
	ID, Session, Token, Model string
	State                     TurnState
	// Key is the caller's Idempotency-Key, unique for its token; Body is the SHA-256 of the request's body, in hex.
	Key, Body string
	// Before is the digest of the history that the request held, After the one with its answer; "" until that is known.
	Before, After string
	// Ref is what the backend resumes the turn by.
	Ref string
	// Holder is the process that works on it, until Held.
	Holder string
	Held   time.Time
	// StartedAt is when it was recorded, BrokenAt when the connection of its newest reader broke, zero while one reads, and HadAt when
	// a caller without a Key got the whole answer, or the error.
	StartedAt, BrokenAt, EndedAt, HadAt time.Time
	// Answer is the JSON of what was said so far at each park and at the end, or of the error; see answer.go.
	Answer []byte
	// Tokens is what its usage says, 0 while nobody knows.
	Tokens int64
	// Version grows with each Save; 0 is a turn that is not recorded yet.
	Version int64
}

// CallState says where a call of the caller's tool stands.
type CallState string

// The states of a call.
const (
	CallWaiting CallState = "waiting"
	// CallAnswered has its result with the backend, or recorded for it.
	CallAnswered CallState = "answered"
	// CallDropped ended without a result: its turn is over.
	CallDropped CallState = "dropped"
)

// CallRow is one call of a caller's tool.
type CallRow struct {
	// ID is the tool_call_id that the caller sees; Upstream is the backend's own.
	ID, Turn, Upstream string
	Name               string
	Arguments          []byte
	State              CallState
	// Result is JSON, nil until there is one.
	Result []byte
	// Seq orders the calls of a turn, from 1.
	Seq int
}

// Query selects; a zero field selects nothing. Everything is under one token.
type Query struct {
	Token string
	// Turn names a turn by id; Key by idempotency key; Body the newest 64 of a body's digest that began after Since, have no key, and whose answer
	// nobody had.
	Turn, Key, Body string
	Since           time.Time
	// SessionKey names the newest session that the client calls so.
	SessionKey string
	// Calls selects calls by id, with their turns and all calls of those turns.
	Calls []string
	// Histories selects the newest 8 turns whose After is the first of these that there is, with their sessions. With a SessionKey only those of that
	// session count.
	Histories []string
}

// Found is what a Query selected, newest first, each once.
type Found struct {
	Sessions []Session
	Turns    []Turn
	Calls    []CallRow
}

// Change is one step of the door. Turns with a Version of 0 are new; others replace what had that Version, or the whole change is an ErrConflict.
type Change struct {
	Session *Session
	Turns   []Turn
	// Calls are added, or replace those of their ID.
	Calls []CallRow
}
