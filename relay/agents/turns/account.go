package turns

import (
	"errors"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/limits"
)

// account is the login that the sessions of one entry share. While it is limited, the sessions that have not met the limit get no turn: each
// would meet it, too, and many of them at once can make it longer. It is safe for concurrent use.
type account struct {
	mu     sync.Mutex // guards the fields below
	until  time.Time
	reason string
	// met are the sessions that met the limit themselves. Each of them has its own time from the agent, so that one that comes earlier has a
	// reason: a person wants to try.
	met map[string]bool
}

// meets notes a limit that a session met. An error of another kind changes nothing.
func (a *account) meets(session string, err error, now time.Time) {
	var why *agents.Error
	if agents.CauseOf(err) != agents.Limited || !errors.As(err, &why) || !why.Until.After(now) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.until.After(now) {
		a.met = map[string]bool{}
	}
	a.met[session] = true
	if why.Until.After(a.until) {
		a.until, a.reason = why.Until, why.Reason
	}
}

// closed is the error of a turn that would meet the limit of another session, nil for none.
func (a *account) closed(session string, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.until.After(now) || a.met[session] {
		return nil
	}
	return &agents.Error{Cause: agents.Limited, Until: limits.At(a.until, now).Until,
		Reason: "another agent with the same login is limited, so the relay did not send this turn yet: " + a.reason}
}

// limited is the error of a turn that the limit of its account keeps from the agent, nil for none. A turn that the agent may have already is
// looked for all the same.
func (j *job) limited() error {
	if j.t.Text == "" || j.before != nil && j.before.said {
		return nil
	}
	return j.host.accounts[j.t.Agent].closed(j.session, j.host.o.Now())
}

// meets notes when an error is a limit of the account.
func (j *job) meets(err error) {
	j.host.accounts[j.t.Agent].meets(j.session, err, j.host.o.Now())
}
