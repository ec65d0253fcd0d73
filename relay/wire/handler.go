package wire

import (
	"context"
	"time"
)

// Handler runs what a verified request asks for. It is what a relay's connection hands its requests to; signature, relay,
// time window and replay were checked before.
type Handler interface {
	// Run runs one action, or gives the recorded result of the same request id. progress may be nil; it gets the tail of
	// the output while the action runs and must not block. A refusal is an Outcome; an error means that nobody knows
	// whether the action ran. Safe for concurrent use; the same id twice is fine.
	Run(ctx context.Context, r Request, progress func(Output)) (Outcome, error)
	// Offers lists what this relay may run: action id, approval mode, a hash of the definition.
	Offers() []Offer

	// The methods below are of the handler's journal. All are safe for concurrent use.

	// Process names this process. Each start has another name.
	Process() string
	// Epoch is the last epoch that the journal keeps, 0 for none.
	Epoch() int64
	// KeepEpoch puts an epoch on the disk. One that is not higher than Epoch changes nothing.
	KeepEpoch(epoch int64) error
	// Lookup says what the journal knows of a request, and runs nothing.
	Lookup(r Request) Found
}

// Stoppable is a [Handler] with a kill switch.
type Stoppable interface {
	// Stopped reports whether the kill switch is on. The channel is closed when that has changed.
	Stopped() (on bool, changed <-chan struct{})
}

// Outdatable is a [Handler] that takes over changes of its configuration at its start.
type Outdatable interface {
	// Outdated reports whether the configuration on the disk has a change that waits for a new start. It may be asked every few seconds.
	Outdated() bool
}

// Answerer is a [Handler] that asks people on its own machine beside the operator at the bridge.
type Answerer interface {
	// Answered gives the ids of requests that were refused with RefusedApproval and have their answer now. The same id may come
	// more than once.
	Answered() <-chan string
}

// Asker is a [Handler] that asks people on its own machine.
type Asker interface {
	// Asking lists the requests about which a person is asked now, the oldest first, at most [MaxQuestions]. The channel is closed
	// when that may have changed.
	Asking() (questions []Asked, changed <-chan struct{})
}

// Watcher is a [Handler] that is told how the connection to the bridge is.
type Watcher interface {
	// Watch gets what has become of the connection, in order, one call after the other. It must not block.
	Watch(c Connection)
}

// Connection is how a relay is connected to its bridge.
type Connection struct {
	// Relay is the name that the bridge at the address Bridge knows.
	Relay  string `json:"relay"`
	Bridge string `json:"bridge"`
	// Since is when the bridge let the relay in, the zero time while it is not connected.
	Since time.Time `json:"connected_since,omitzero"`
	// Error is why the last connection, or the last try, ended, at Failed; both stay when the next one holds. Untrusted: what
	// answers at the address may have worded it.
	Error  string    `json:"last_error,omitempty"`
	Failed time.Time `json:"last_error_at,omitzero"`
}

// Request is one verified request. Only Action chooses what runs; everything else is for the journal, the approval and the
// audit, and what is called untrusted is an agent's own text.
type Request struct {
	// ID is the idempotency key and the nonce, see [ValidRequestID].
	ID string
	// Action passed [ValidAction]; whether it is listed is the handler's to say.
	Action string
	// Line is the agent's own line, for the approval prompt; untrusted, valid UTF-8, at most [MaxLine] bytes.
	Line string
	// Agent is the agent's name, for the prompt and the audit; untrusted, valid UTF-8, at most [MaxAgent] bytes.
	Agent string
	// KeyID names the bridge's key that signed the request.
	KeyID string
	// BodyHash is the hex SHA-256 of what may not change under one id: action, line and agent. An approval is not part
	// of it, because it may come later.
	BodyHash string
	// Approved is an operator's approval at the bridge, or nil.
	Approved *Approval
	// Created and Expires bound when the request could begin; Expires is at most [MaxAge] after Created.
	Created, Expires time.Time
}

// Approval is an operator's word, given at the bridge and carried by the signed request. It counts only where the relay's
// own file lets the bridge approve, and only for the definition that it names.
type Approval struct {
	// Definition is the [Offer.Definition] that the operator saw.
	Definition string `json:"definition"`
	// By names the operator's door, for the audit; untrusted.
	By string `json:"by"`
	// At is when the word was given, in Unix seconds.
	At int64 `json:"at"`
}

// Output is the end of what a running action has written so far: each stream at most [MaxProgress] bytes, redacted and
// escaped as in an [Answer].
type Output struct {
	Stdout, Stderr []byte
}

// Outcome is what came of a request.
type Outcome struct {
	// ID is the request's; a [Handler] may leave it out, the connection puts it in.
	ID string `json:"id"`
	Answer
	// Replayed is true when the result was recorded earlier and nothing ran for this request.
	Replayed bool `json:"replayed,omitempty"`
	// Refusal says in one word why nothing ran; it is set exactly when Status is StatusRefused.
	Refusal Refusal `json:"refusal,omitempty"`
	// RetryMS is after how many milliseconds asking again under the same id may help; 0 means that it will not.
	RetryMS int64 `json:"retry_ms,omitempty"`
	// Definition is the hash of the action's definition as it is now, when Refusal is RefusedApproval.
	Definition string `json:"definition,omitempty"`
	// Shows is what that definition would run, for the operator who is to approve it, on one line of printable ASCII of at most
	// [MaxShows] bytes.
	Shows string `json:"shows,omitempty"`
}

const (
	// MaxShows bounds [Outcome.Shows] and [Offer.Shows], each. A definition that does not fit is for the machine to approve.
	MaxShows = 4 << 10
	// MaxShown bounds all [Offer.Shows] of a relay together, so that their frame fits into [MaxToBridge] whatever JSON makes of it.
	MaxShown = 128 << 10
)

// Refusal sorts the refusals by what the other end can do about them.
type Refusal string

// The refusals.
const (
	// RefusedUnlisted is for an action that is unknown or forbidden; which of both is not told.
	RefusedUnlisted Refusal = "unlisted"
	// RefusedBusy is for a full queue or journal, or a relay that is ending; RetryMS says when to ask again.
	RefusedBusy Refusal = "busy"
	// RefusedRate is for a used-up rate; RetryMS says when to ask again.
	RefusedRate Refusal = "rate"
	// RefusedConflict is for an id that was used with another body.
	RefusedConflict Refusal = "conflict"
	// RefusedApproval means that the operator at the bridge has to approve Definition first.
	RefusedApproval Refusal = "approval"
	// RefusedDenied means that a person said no, or that nobody answered in time.
	RefusedDenied Refusal = "denied"
	// RefusedStopped means that the relay's kill switch is on.
	RefusedStopped Refusal = "stopped"
	// RefusedUnsafe is for a definition that no longer holds, such as an executable with another digest.
	RefusedUnsafe Refusal = "unsafe"
	// RefusedInvalid is for a request that is none: its signature, its time or its form.
	RefusedInvalid Refusal = "invalid"
)

// Places where an action can be approved.
const (
	AtMachine = "machine"
	AtBridge  = "bridge"
	AtEither  = "either"
)

// Offer is one action that a relay may run, as it tells the bridge.
type Offer struct {
	Action string `json:"action"`
	// Approval is never, each, or "once per <duration>".
	Approval string `json:"approval"`
	// Bridge is true when an operator's approval at the bridge counts for it.
	Bridge bool `json:"bridge,omitempty"`
	// ApproveBy is one of the At constants where somebody has to approve, and otherwise empty.
	ApproveBy string `json:"approve_by,omitempty"`
	// Definition is the hex SHA-256 over the action's definition and executable; it changes when either does.
	Definition string `json:"definition"`
	// Shows is what that definition would run, as in [Outcome.Shows]; set where Bridge is, and only there.
	Shows string `json:"shows,omitempty"`
}
