package bridge

import (
	"errors"
	"fmt"
	"time"
)

// ErrorKind sorts what callers and users can act on. One table maps kinds to
// HTTP statuses (package api); an error without a kind is internal.
type ErrorKind string

// The kinds. See Passing for those that may get better by repeating.
const (
	Invalid         ErrorKind = "invalid"
	Unauthenticated ErrorKind = "unauthenticated"
	Denied          ErrorKind = "denied"
	NotFound        ErrorKind = "not_found"
	Conflict        ErrorKind = "conflict"
	Busy            ErrorKind = "busy"
	RateLimited     ErrorKind = "rate_limited"
	UsageLimited    ErrorKind = "usage_limited"
	Unavailable     ErrorKind = "unavailable"
	TooLarge        ErrorKind = "too_large"
)

// Error is an error that a caller or a user can act on. Message is safe to
// show: it never holds a secret, a body or a header.
type Error struct {
	Kind    ErrorKind
	Message string
	// Cause is for the log only.
	Cause error
	// RetryAfter is how long the other side asked us to wait; zero when it did not say.
	RetryAfter time.Duration
	// Unclear is true when the effect may have happened although no answer
	// came: a timeout, a reset, a 5xx. What is unclear is never repeated blindly.
	Unclear bool
}

// Error returns the message, followed by the cause when there is one.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an Error of a kind without a cause.
func Errorf(kind ErrorKind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of the first Error in err's chain, or "" when there is none.
func KindOf(err error) ErrorKind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// IsUnclear reports whether err says that its effect may have happened.
func IsUnclear(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unclear
}

// Passing reports whether the same request may be granted later: once a limit or
// a run is over, the other side is back, or a person has mended the key.
func Passing(err error) bool {
	switch KindOf(err) {
	case RateLimited, Busy, Unavailable, Unauthenticated:
		return true
	}
	return false
}

// RetryAfter returns the wait that err's sender asked for, or zero.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// SafeMessage returns what may be shown of err: the message of an Error, or
// "internal error" for anything else, whose text belongs in the log.
func SafeMessage(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "internal error"
}
