// Package wire is what a relay and whoever calls it say to each other: the types, the words and the grammar of names.
//
// It reads and writes nothing, and knows neither the bridge nor processes. Rule of thumb: a name is here when both ends
// must spell it the same way; everything that only one end decides lives at that end.
package wire

import (
	"time"
	"unicode/utf8"
)

// The calls and the probe that a relay serves (orchestrator protocol, LOCAL_ACTION). A look-up takes the body of a run and
// never runs anything.
const (
	RunPath    = "/run"
	LookupPath = "/lookup"
	HealthPath = "/health"
)

// HTTP headers with a meaning of their own here.
const (
	// RequestIDHeader carries the caller's id of a request, see [ValidRequestID]. A relay runs one id once and answers
	// the same id with what it came to.
	RequestIDHeader = "Idempotency-Key"
	// ReplayedHeader is "true" on an answer that was recorded earlier, so that nothing ran for this call.
	ReplayedHeader = "Idempotent-Replayed"
	// ProcessHeader names the relay's process on its answers, see [Proof]. On a request it is the process that alone may
	// run it: another one refuses with 412, and nothing runs.
	ProcessHeader = "Relay-Process"
)

const (
	// MaxRequest is the largest request body, in bytes.
	MaxRequest = 4 << 10
	// DefaultOutput is how much a relay keeps of each output stream, in bytes, before escaping (facts: relay, rule 5). The owner of
	// the machine may allow up to MaxOutput for an action.
	DefaultOutput = 64 << 10
	MaxOutput     = 512 << 10
	// MaxAnswer bounds an answer over HTTP in bytes: twice DefaultOutput, and room for the rest. The worst that comes of a byte is five, of an
	// escaped control, and of two bytes fifteen, of a control behind a redacted character.
	MaxAnswer = 1 << 20
	// MaxLine and MaxAgent bound what an agent wrote, in bytes.
	MaxLine  = 2 << 10
	MaxAgent = 128
	// MaxProgress bounds each stream of an [Output], in bytes.
	MaxProgress = 4 << 10
	// MaxAge is the longest time from a request's creation to its expiry, and MaxSkew how far two clocks may differ
	// (facts: relay, rule 7).
	MaxAge  = 60 * time.Second
	MaxSkew = 30 * time.Second
	// NoExitCode stands where a process has no exit code: it never started, or a signal ended it.
	NoExitCode = -1
)

// Body is the body of POST /run, which asks for one action. It has no other field on purpose: nothing that an agent wrote
// reaches a command line, an environment, a folder or a standard input.
type Body struct {
	Action string `json:"action"`
}

// Status is what came of a request.
type Status string

// The statuses. Only StatusRefused promises that nothing ran.
const (
	// StatusExecuted means that the process ended by itself; its exit code says how well.
	StatusExecuted Status = "executed"
	// StatusRefused means that nothing ran, for the reason in Error.
	StatusRefused Status = "refused"
	// StatusFailed means that the process could not be started or was ended by a signal.
	StatusFailed Status = "failed"
	// StatusTimedOut means that the relay ended the process because its time was over.
	StatusTimedOut Status = "timed_out"
	// StatusInterrupted means that the relay ended, or could not record the result, while it had the request in hand: the
	// action may have run, and under this request id it never runs again (facts: relay, rule 8).
	StatusInterrupted Status = "interrupted"
)

// Known reports whether s is one of the five statuses.
func (s Status) Known() bool {
	switch s {
	case StatusExecuted, StatusRefused, StatusFailed, StatusTimedOut, StatusInterrupted:
		return true
	default:
		return false
	}
}

// Answer is what a relay says of a request, on every HTTP status. Its texts come from a process and are untrusted; control
// characters and invalid UTF-8 in them are already escaped.
type Answer struct {
	Action string `json:"action"`
	Status Status `json:"status"`
	// ExitCode is [NoExitCode] unless Status is StatusExecuted.
	ExitCode int `json:"exit_code"`
	// Stdout and Stderr hold the end of each stream.
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// StdoutOmitted and StderrOmitted count the bytes dropped before what is kept.
	StdoutOmitted int64 `json:"stdout_omitted"`
	StderrOmitted int64 `json:"stderr_omitted"`
	DurationMS    int64 `json:"duration_ms"`
	// Error says why an action did not run or did not end by itself; empty otherwise.
	Error string `json:"error"`
}

// Refused returns the answer for a request of which nothing ran.
func Refused(action, reason string) Answer {
	return Answer{Action: action, Status: StatusRefused, ExitCode: NoExitCode, Error: reason}
}

// Interrupted returns the answer for a request of which nobody knows whether it ran.
func Interrupted(action, reason string) Answer {
	return Answer{Action: action, Status: StatusInterrupted, ExitCode: NoExitCode, Error: reason}
}

// Keeping returns the answer with at most the last n bytes of each output, from the beginning of a character. What is cut counts as
// omitted.
func (a Answer) Keeping(n int) Answer {
	cut := func(text *string, omitted *int64) {
		from := max(0, len(*text)-n)
		for from > 0 && from < len(*text) && !utf8.RuneStart((*text)[from]) {
			from++
		}
		*text, *omitted = (*text)[from:], *omitted+int64(from)
	}
	cut(&a.Stdout, &a.StdoutOmitted)
	cut(&a.Stderr, &a.StderrOmitted)
	return a
}

// ValidAction reports whether id may name an action: [a-z0-9][a-z0-9_.-]{0,63} (facts: relay, rule 1).
func ValidAction(id string) bool {
	if len(id) == 0 || len(id) > 64 || !isLowerOrDigit(id[0]) {
		return false
	}
	for i := range len(id) {
		if c := id[i]; !isLowerOrDigit(c) && !isJoiner(c) {
			return false
		}
	}
	return true
}

// ValidRequestID reports whether id may be a request id: 1 to 128 characters of [A-Za-z0-9._-].
func ValidRequestID(id string) bool {
	if len(id) == 0 || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if upper := c >= 'A' && c <= 'Z'; !upper && !isLowerOrDigit(c) && !isJoiner(c) {
			return false
		}
	}
	return true
}

func isLowerOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func isJoiner(c byte) bool { return c == '_' || c == '.' || c == '-' }
