package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drawbridge/internal/strictjson"
)

// The paths that stand in the signatures of a turn, of its look-up and of the word that stops it. None counts for another, nor for an action.
const (
	TurnPath       = "/turn"
	TurnLookupPath = "/turn/lookup"
	TurnStopPath   = "/turn/stop"
)

// Bounds of a turn, in bytes.
const (
	// MaxTurnText bounds what is said to an agent, and MaxReplyText what it says at the end. Whatever JSON makes of them fits MaxBody.
	MaxTurnText  = 1 << 20
	MaxReplyText = 1 << 20
	MaxEvidence  = 64 << 10
)

// TurnAsk is the body of a signed turn for an agent that the relay hosts.
type TurnAsk struct {
	// Agent is the entry of the relay's own file, as [ValidAction] has it.
	Agent string `json:"agent"`
	// Session names the conversation to go on with. It is a [ValidRequestID] of the bridge's; a new one begins a conversation.
	Session string `json:"session"`
	// Marker stands in the text, so that the turn is found again in what the agent replays. It names one turn. A later turn of the session
	// with the same marker and another id repeats that one: the relay returns the answer if there is one, says "continue" where the agent
	// has the first, and says Text where the agent does not.
	Marker string `json:"marker"`
	Text   string `json:"text"`
	// Home is where the agent works. The zero Home goes on where the session's earlier turns worked.
	Home Home `json:"home,omitzero"`
	// Peek is the question of UsePeek, and zero otherwise.
	Peek Peek `json:"peek,omitzero"`
	// Over says with UseStop that the session gets no more turns. Its process ends when it has no turn.
	Over bool `json:"over,omitempty"`
}

// TurnUse is what a bridge wants with a turn.
type TurnUse int

// The uses. Only UseRun lets the relay say anything to an agent.
const (
	UseRun TurnUse = iota
	UseLookup
	UseStop
	// UsePeek asks about workspaces. The turn's id names the question alone.
	UsePeek
)

// Turn is one verified turn. Agent chooses what runs; Text is for the agent alone.
type Turn struct {
	// ID is the idempotency key, see [Request.ID].
	ID string
	TurnAsk
	// KeyID names the bridge's key that signed, and BodyHash is the hex SHA-256 of what may not change under one id.
	KeyID, BodyHash  string
	Created, Expires time.Time
}

// TurnOrder is what a bridge signs: one turn for one relay.
type TurnOrder struct {
	ID, Relay string
	Ask       TurnAsk
	Created   time.Time
	// For is at most MaxAge.
	For time.Duration
	// Use is UseRun, UseLookup to ask what the relay knows of the turn, UseStop to end it, or UsePeek. Only UseRun needs a Text.
	Use TurnUse
}

func (u TurnUse) path() string {
	switch u {
	case UseLookup:
		return TurnLookupPath
	case UseStop:
		return TurnStopPath
	case UsePeek:
		return TurnPeekPath
	default:
		return TurnPath
	}
}

// SignTurn signs a turn, a look-up of one, or the word that stops one.
func SignTurn(key ed25519.PrivateKey, o TurnOrder) (Signed, error) {
	body, err := json.Marshal(o.Ask)
	if err != nil {
		return Signed{}, fmt.Errorf("write turn: %w", err)
	}
	return signBody(key, Order{ID: o.ID, Relay: o.Relay, Created: o.Created, For: o.For}, o.Use.path(), string(body))
}

// VerifyTurn is [Verifier.Verify] for turns. The signature counts for one use alone; v.Lookup does not matter.
func (v Verifier) VerifyTurn(s Signed, use TurnUse) (Turn, error) {
	if err := v.genuine(s, use.path()); err != nil {
		return Turn{}, err
	}
	t := Turn{ID: s.ID, KeyID: s.Key, Created: time.UnixMilli(s.Created), Expires: time.UnixMilli(s.Expires)}
	if !ValidRequestID(s.ID) {
		return Turn{}, errors.New("the turn's id is malformed")
	}
	if err := strictjson.DecodeExactUpTo([]byte(s.Body), &t.TurnAsk, MaxBody); err != nil {
		return Turn{}, fmt.Errorf("the turn's body: %w", err)
	}
	if err := t.Peek.check(use); err != nil {
		return Turn{}, err
	}
	if t.Over && use != UseStop {
		return Turn{}, errors.New("only a stop may say that the session is over")
	}
	if t.Peek.What != PeekAll && (!ValidAction(t.Agent) || !ValidRequestID(t.Session)) {
		return Turn{}, errors.New("the turn names no agent, or no session")
	}
	if err := errors.Join(checkText("the turn's marker", t.Marker, MaxAgent), checkText("the turn's text", t.Text, MaxTurnText), t.Home.Check()); err != nil {
		return Turn{}, err
	}
	sum := sha256.Sum256([]byte(s.Body))
	t.BodyHash = hex.EncodeToString(sum[:])
	return t, nil
}

// TurnCause says how a turn ended.
type TurnCause string

// The causes. Each turn ends with exactly one of them.
const (
	TurnAnswered TurnCause = "answered"
	TurnRefused  TurnCause = "refused"
	TurnLimited  TurnCause = "limited"
	TurnStopped  TurnCause = "stopped"
	// TurnUnsaid means that the turn was stopped, and that the agent surely got nothing of it.
	TurnUnsaid       TurnCause = "unsaid"
	TurnHung         TurnCause = "hung"
	TurnCrashed      TurnCause = "crashed"
	TurnFailed       TurnCause = "failed"
	TurnAsking       TurnCause = "asking"
	TurnSessionGone  TurnCause = "session_gone"
	TurnLoginMissing TurnCause = "login_missing"
)

// Known reports whether c is one of the causes.
func (c TurnCause) Known() bool {
	switch c {
	case TurnAnswered, TurnRefused, TurnLimited, TurnStopped, TurnUnsaid, TurnHung, TurnCrashed, TurnFailed, TurnAsking, TurnSessionGone, TurnLoginMissing:
		return true
	default:
		return false
	}
}

// TurnEnded is what came of a turn. Exactly one of Cause and Refusal is set.
type TurnEnded struct {
	ID    string    `json:"id"`
	Cause TurnCause `json:"cause,omitempty"`
	// Text is what the agent said last, and untrusted.
	Text string `json:"text,omitempty"`
	// Evidence is what the relay itself saw of the turn's work, apart from what the agent claims.
	Evidence string `json:"evidence,omitempty"`
	// Refusal says why nothing of the turn reached the agent; Error says it in words.
	Refusal Refusal `json:"refusal,omitempty"`
	Error   string  `json:"error,omitempty"`
	// RetryMS is after how many milliseconds asking again under the same id may help; 0 means that it will not.
	RetryMS int64 `json:"retry_ms,omitempty"`
	// Until is the time before which the bridge should say nothing to the agent, in Unix milliseconds; 0 when it is not known. It is set
	// for TurnLimited and for refusals alone.
	Until int64 `json:"until,omitempty"`
	// Replayed is true when the end was recorded earlier.
	Replayed bool `json:"replayed,omitempty"`
	// Spent is what the turn took as the agent says it, nil where it says nothing. Who reads it takes [Spent.Known].
	Spent *Spent `json:"spent,omitempty"`
	// Unclear is true when the relay cannot tell whether the agent got the turn. Cause is TurnCrashed then.
	Unclear bool `json:"unclear,omitempty"`
}

// maxUntil is the end of the year 9999. Later times do not fit every clock.
const maxUntil = int64(253_402_300_799_999)

// Valid reports whether a bridge takes e as what came of the turn id.
func (e TurnEnded) Valid(id string) bool { return e.ID == id && e.check() == nil }

func (e TurnEnded) check() error {
	switch {
	case !ValidRequestID(e.ID):
		return errors.New("a turn's end without an id")
	case (e.Cause != "") == (e.Refusal != "") || e.Cause != "" && !e.Cause.Known():
		return errors.New("a turn's end without one known cause or refusal")
	case e.RetryMS < 0 || e.Until < 0 || e.Until > maxUntil:
		return errors.New("a turn's end with a number out of range")
	case e.Unclear && e.Cause != TurnCrashed:
		return errors.New("an unclear end of a turn must have the cause crashed")
	case e.Until != 0 && e.Cause != TurnLimited && e.Refusal == "":
		return errors.New("a turn's end that names a time to wait for, but no reason to wait")
	}
	return errors.Join(checkText("the reply", e.Text, MaxReplyText), checkText("the evidence", e.Evidence, MaxEvidence), checkText("the error", e.Error, MaxLine))
}

// TurnKnown is what a relay's record of a session knows of a turn.
type TurnKnown string

// The answers to the look-up of a turn.
const (
	// TurnKnownEnded means that the turn has an end, and TurnKnownOpen that it runs or waits.
	TurnKnownEnded TurnKnown = "ended"
	TurnKnownOpen  TurnKnown = "open"
	// TurnKnownAbsent means that the relay has the session's record, and that this turn is not in it: the agent never got it.
	TurnKnownAbsent TurnKnown = "absent"
	// TurnKnownNot means that the relay does not know: it has no record of the session, or the record does not tell.
	TurnKnownNot TurnKnown = "unknown"
	// TurnKnownRefused means that the relay did not look: the signature or the time of the look-up is wrong there.
	TurnKnownRefused TurnKnown = "refused"
	// TurnKnownPeeked means that Peeked has the answer to a question about workspaces.
	TurnKnownPeeked TurnKnown = "peeked"
)

// TurnState is what an open turn does.
type TurnState string

// The states of an open turn.
const (
	// TurnQueued means that the turn waits for a slot, for its workspace or for an earlier turn.
	TurnQueued TurnState = "queued"
	// TurnStarting means that the agent's process starts and opens its session. The relay ends it at start_timeout.
	TurnStarting TurnState = "starting"
	TurnWorking  TurnState = "working"
	// TurnSilent means that the agent says nothing and runs no tool. The relay ends the turn at silent_after.
	TurnSilent TurnState = "silent"
	// TurnAskingNow means that a person is asked.
	TurnAskingNow TurnState = "asking"
)

// TurnFound answers the look-up of a turn.
type TurnFound struct {
	ID    string    `json:"id"`
	Known TurnKnown `json:"known"`
	// Ended is set when Known is TurnKnownEnded, and only then.
	Ended *TurnEnded `json:"ended,omitempty"`
	// State may be set when Known is TurnKnownOpen. SinceMS is for how many milliseconds it has been so; clocks of two machines differ.
	State   TurnState `json:"state,omitempty"`
	SinceMS int64     `json:"since_ms,omitempty"`
	// Note may say in a line what happened to an open turn, such as that its agent's process ended and another one goes on.
	Note string `json:"note,omitempty"`
	// Peeked is set when Known is TurnKnownPeeked, and only then.
	Peeked *Peeked `json:"peeked,omitempty"`
}

// Valid reports whether a bridge takes f as the answer to the look-up of the turn id.
func (f TurnFound) Valid(id string) bool { return f.ID == id && f.check() == nil }

func (f TurnFound) check() error {
	switch f.Known {
	case TurnKnownEnded, TurnKnownOpen, TurnKnownAbsent, TurnKnownNot, TurnKnownRefused, TurnKnownPeeked:
	default:
		return errors.New("the answer to the look-up of a turn has an unknown result")
	}
	switch f.State {
	case "", TurnQueued, TurnStarting, TurnWorking, TurnSilent, TurnAskingNow:
	default:
		return errors.New("the answer to the look-up of a turn has an unknown state")
	}
	switch {
	case f.SinceMS < 0 || f.SinceMS > 0 && f.State == "" || (f.State != "" || f.Note != "") && f.Known != TurnKnownOpen:
		return errors.New("the answer to the look-up of a turn has a state that contradicts its result")
	case !ValidRequestID(f.ID):
		return errors.New("the answer to the look-up of a turn has no id")
	case (f.Known == TurnKnownEnded) != (f.Ended != nil):
		return errors.New("the answer to the look-up of a turn has an end that contradicts its result")
	case (f.Known == TurnKnownPeeked) != (f.Peeked != nil):
		return errors.New("the answer to the look-up of a turn has data about workspaces that contradict its result")
	case f.Ended != nil:
		return f.Ended.check()
	}
	return errors.Join(checkText("the note", f.Note, MaxLine), f.Peeked.check())
}

// ErrEnding is the cause with which a relay ends what runs because it ends itself.
var ErrEnding = errors.New("the relay is stopping")

// AgentHost is a [Handler] that hosts agents. Signature, relay and time were checked before. Safe for concurrent use.
type AgentHost interface {
	// RunTurn says a turn to its agent once, waits for its end, and returns it. The same id again returns the recorded end, or waits
	// for it, and says nothing a second time. When ctx ends the host ends what runs and says how. Where the cause of ctx is [ErrEnding], a turn
	// that the agent has stays open: RunTurn returns the zero value, which nobody sends, and the next relay goes on with the turn.
	RunTurn(ctx context.Context, t Turn) TurnEnded
	// LookupTurn says what the record of the turn's session knows. It starts nothing. The record lives as long as the session.
	LookupTurn(t Turn) TurnFound
	// StopTurn asks that a turn ends and returns what is known of it at that moment, without waiting for its end. Text is empty. A turn that runs
	// ends with TurnStopped, or with TurnUnsaid before the agent got it, unless it has ended. One that the relay does not have yet is never said. With
	// Over the session's process ends, too, unless it has a turn. Twice is fine.
	StopTurn(t Turn) TurnFound
}
