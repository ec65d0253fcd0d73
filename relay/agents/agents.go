// Package agents names how the turns of agents on this machine end.
//
// It starts nothing and speaks no protocol: package host starts the entries of relay.yaml, and package acp speaks with them. Rule of
// thumb: a turn that brings no answer ends with an [Error], so that its cause is one of a list and never a guess from a text.
package agents

import (
	"errors"
	"time"
)

// Cause is why a turn, or the start of an agent, ended.
type Cause string

// The causes. A turn ends with exactly one of them.
const (
	// Answered is the cause of a turn that brought an answer.
	Answered Cause = "answered"
	// Refused means that the agent declined, or stopped before its answer was complete.
	Refused Cause = "refused"
	// Limited means that the agent's account has no more use of its model for some time.
	Limited Cause = "limited"
	// Stopped means that somebody here ended the turn.
	Stopped Cause = "stopped"
	// Hung means that the agent did not do in time what it has to.
	Hung Cause = "hung"
	// Crashed means that the agent ended, could not start, or broke its protocol.
	Crashed Cause = "crashed"
	// Failed means that the agent itself reported an error, such as a model that it cannot reach.
	Failed Cause = "failed"
	// Asking means that the process ended while a person was asked.
	Asking Cause = "asking"
	// SessionGone means that the agent does not know the session.
	SessionGone Cause = "session gone"
	// LoginMissing means that the agent wants its user to log in.
	LoginMissing Cause = "login missing"
)

// Error is the end of a turn or of a start that brought no answer.
type Error struct {
	Cause Cause
	// Reason is one line that is safe to show, without secrets.
	Reason string
	// Until is the time before which nothing is to be tried, zero when that is not known.
	Until time.Time
	// Unread is true when the process ended without reading anything of the turn, so that the turn can be said to another process.
	Unread bool
	// Ended is true when the process ended, and nobody here ended it. Another process may go on with the session.
	Ended bool
}

// Error is the cause and the reason.
func (e *Error) Error() string { return string(e.Cause) + ": " + e.Reason }

// Unread reports whether an error says that the agent's process ended before it read the turn.
func Unread(err error) bool {
	var ended *Error
	return errors.As(err, &ended) && ended.Unread
}

// Ended reports whether an error says that the agent's process ended, and that nobody here ended it.
func Ended(err error) bool {
	var ended *Error
	return errors.As(err, &ended) && ended.Ended
}

// CauseOf returns the cause of an error, Answered for nil, and Crashed for an error of any other type.
func CauseOf(err error) Cause {
	var ended *Error
	switch {
	case err == nil:
		return Answered
	case errors.As(err, &ended):
		return ended.Cause
	default:
		return Crashed
	}
}
