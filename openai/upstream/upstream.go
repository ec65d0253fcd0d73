// Package upstream says what stands behind the OpenAI-compatible door: one
// interface, which each backend implements and which the door alone calls.
// It has nouns and no rules; the door owns sessions, retries, bounds and records.
package upstream

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"drawbridge/internal/completions"
)

// Upstream is a backend. Its methods are safe for concurrent use.
type Upstream interface {
	// Models lists what a caller may name. The door keeps the answer for five minutes.
	Models(ctx context.Context) ([]Model, error)
	// Start begins a turn and returns when the backend took it: what fails before that, fails here, as an [Error].
	// A repeat with the same Request.Turn meets the first one and starts nothing. ctx bounds the start alone; the turn goes on after it.
	Start(ctx context.Context, r Request) (Turn, error)
	// Resume takes up a turn that was started or parked before the bridge was restarted, by what [Turn.Ref] said. It starts
	// nothing. A turn that cannot go on is an Error with a sentence that says why.
	Resume(ctx context.Context, r Request, ref string) (Turn, error)
}

// Turn is one answer under way. One goroutine at a time calls Next; the other methods may be called meanwhile.
type Turn interface {
	// Ref names the turn for Resume, at most 1 KiB; "" when it cannot outlive this process. It does not change.
	Ref() string
	// Next returns the next event and waits for it. Nothing comes after an event of kind Ended or an Error. After one of
	// kind Parked it waits until Deliver brought the results. It keeps nothing that is unread for a caller who went away: the door reads on.
	Next(ctx context.Context) (Event, error)
	// Deliver brings results of calls that the turn waits for, in any order, each once. It returns when they are safe with the
	// backend; the answer goes on with Next. A call that the turn does not wait for is an Error of status 422.
	Deliver(ctx context.Context, results []Result) error
	// Cancel ends the turn; a turn that is over stays as it is. Next then returns an Error or io.EOF.
	Cancel(ctx context.Context) error
}

// Request is a turn that a caller asks for.
type Request struct {
	// Turn is the door's id of the turn ("chatcmpl-…"), from which a backend derives the ids of what it does.
	Turn string
	// Session is the door's id of the conversation, and Token the name of the caller's token.
	Session, Token string
	// Model is the name that the caller wrote, without what the configuration puts in front of it.
	Model string
	// Body is the request as it came, with unknown fields. A backend that passes it on changes what it must and nothing else.
	Body json.RawMessage
	// Messages are all messages of the request. Those before New stand in the record of this session already, as they are here.
	Messages []Message
	New      int
	// Fork reports that the history is not what this session has recorded; New is 0 then.
	Fork bool
	// Follows is the Turn of the request whose answer stands right before Messages[New], where that answer was whole; else "".
	Follows string
	// Tools are what the caller offers, and Choice what it says about them: "", "auto", "none", "required" or the name of a tool.
	Tools  []Tool
	Choice string
	// SpeaksForOperator is set where the token says so: then the newest user text is the operator's. All else is outside text.
	SpeaksForOperator bool
	// State is what the backend keeps with the session.
	State State
	// Lost is called, at most once, when a turn ends that waits for results: nobody can deliver them any more. It is nil in Resume.
	Lost func(why *Error)
}

// TurnKeys is what keys in a State begin with that belong to one turn. Their values are deleted after 30 days.
const TurnKeys = "turn "

// State is what a backend keeps with a session: it outlives turns and restarts. Keys have at most 200 bytes, values at most 8 MiB.
type State interface {
	// Get returns nil for a key that was never put.
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Message is one message of a conversation.
type Message struct {
	// Role is system, user, assistant or tool; developer is system by now.
	Role string
	// Text is the text of all text parts, joined by a line end.
	Text   string
	Images []Image
	// Calls are what an assistant asked for.
	Calls []Call
	// CallID is, in a message of role tool, the call that it answers.
	CallID string
}

// Image is a picture in a message: an address, or data with its MIME type.
type Image struct {
	URL  string
	MIME string
	Data []byte
}

// Address is the picture as an address; one with its data begins with data:.
func (i Image) Address() string {
	if i.URL != "" {
		return i.URL
	}
	return "data:" + i.MIME + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

// Tool is a function that the caller runs for the model. Parameters is a JSON schema, as it came.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Call asks the caller to run one of its tools. ID is the door's and is unique in the whole door; Arguments is a JSON object.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Result is what a call came to. Failed marks an error that the model shall read.
type Result struct {
	CallID string
	Text   string
	Images []Image
	Failed bool
}

// Kind says what an Event is.
type Kind string

// The kinds of events.
const (
	// Text and Reasoning are pieces of the answer and of the thoughts before it.
	Text      Kind = "text"
	Reasoning Kind = "reasoning"
	// CallPiece shows a call as it is being written: the first piece of an Index has ID and Name, later ones only Arguments. A backend
	// that has the call whole sends it in one piece. The pieces' arguments together are JSON.
	CallPiece Kind = "call"
	// Parked means that all calls since the last Parked wait for their results.
	Parked Kind = "parked"
	// Ended is the end of the answer, with Finish and, where it is known, Usage.
	Ended Kind = "ended"
)

// Event is one step of an answer.
type Event struct {
	Kind Kind
	// Text is of Text and Reasoning.
	Text string
	// Index to Arguments are of CallPiece. An empty ID is filled in by the door, which tells the backend nothing of it: such a
	// backend cannot be parked. Arguments is a piece of the JSON text.
	Index     int
	ID, Name  string
	Arguments string
	// Finish is stop, length, tool_calls or content_filter; tool_calls where the backend keeps nothing and wants the results in a new Request.
	Finish string
	Usage  *Usage
	// Extra are fields of the backend's own delta or choice that the door passes on as they came.
	Extra map[string]json.RawMessage
}

// Usage counts tokens; nil is unknown.
type Usage = completions.Usage

// Model is one that a caller may name.
type Model struct {
	ID      string
	Aliases []string
	// Context is how many tokens it takes, 0 where nobody knows.
	Context int
	Owner   string
	Created time.Time
}

// Error is a failure in the words and numbers of the door's answers.
type Error struct {
	// Status is the HTTP status before the first byte of an answer; 0 is StatusUnclear. Once something may have happened, the door
	// shows none that a client repeats.
	Status int
	// Type and Code are the API's words, such as invalid_request_error and context_length_exceeded; Param names the field that is wrong.
	Type, Code, Param string
	// Message says what is wrong and what to do, and Said is what the backend itself says of it. The door logs Said, and shows it to the
	// caller unless a client would take it for a fault that passes.
	Message, Said string
	// RetryAfter is set where the backend named a time.
	RetryAfter time.Duration
	// NothingHappened is set where the backend is known not to have begun, so that a repeat harms nothing.
	NothingHappened bool
}

// StatusUnclear answers for a failure after which something may have happened, because no client repeats it by itself (docs/reference/openai-door.md).
const StatusUnclear = http.StatusBadRequest

// Error returns the message, and what the backend said.
func (e *Error) Error() string {
	if e.Said != "" {
		return e.Message + ": " + e.Said
	}
	return e.Message
}

// BadRequest is an Error of status 400 for one field of a request.
func BadRequest(param, code, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: code, Param: param, Message: message, NothingHappened: true}
}

// NotBegun is an Error of something that the backend is known not to have begun.
func NotBegun(status int, code, message string) *Error {
	return &Error{Status: status, Type: "upstream_error", Code: code, Message: message, NothingHappened: true}
}

// MayHaveBegun is an Error of a turn that the backend may have worked on.
func MayHaveBegun(code, message string) *Error {
	return &Error{Type: "upstream_error", Code: code, Message: message}
}

// Unreached words why a connection was not made, and what to look at; nil where err is something else. who is what does not answer, such as "endpoint",
// and address names the setting with its address.
func Unreached(err error, who, address string) *Error {
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &cert):
		return NotBegun(http.StatusServiceUnavailable, "upstream_certificate", "the certificate of the "+who+" is not trusted; correct "+address+", or have this machine trust the certificate")
	case errors.As(err, &dns):
		return NotBegun(http.StatusServiceUnavailable, "upstream_unreachable", "the host name of the "+who+" is not found; check "+address)
	case errors.As(err, &op) && op.Op == "dial":
		return NotBegun(http.StatusServiceUnavailable, "upstream_unreachable", "the "+who+" cannot be reached; check that it runs, and check "+address)
	}
	return nil
}

// Format is the type of response_format in the request, "" for text.
func (r Request) Format() string {
	var body struct {
		Format *struct {
			Type string `json:"type"`
		} `json:"response_format"`
	}
	_ = json.Unmarshal(r.Body, &body) // the door has read it
	if body.Format == nil || body.Format.Type == "text" {
		return ""
	}
	return body.Format.Type
}
