package approval

import (
	"fmt"
	"slices"
	"time"
)

// How often a person is asked about one action: whoever is asked again and again says yes some day.
const (
	maxPerMinute = 5
	maxPerHour   = 30
	// noesAfter is how long noes to an action count as in a row.
	noesAfter = 24 * time.Hour
)

// rests are how long nobody is asked about an action after the first, second, third and each further no in a row.
var rests = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// UnaskedError means that nobody was asked about an action, because somebody was just now or often before.
type UnaskedError struct {
	// Denied is true after a no; then asking again under the same request id is not meant to help.
	Denied bool
	// Wait is how long it takes until the action is asked about again.
	Wait time.Duration
}

// Error says when somebody is asked again.
func (e *UnaskedError) Error() string {
	wait := max(e.Wait.Round(time.Second), time.Second)
	if e.Denied {
		return fmt.Sprintf("a person denied this action a moment ago; do not ask for it again before %s have passed", wait)
	}
	return fmt.Sprintf("this relay asks a person about one action at most %d times a minute and %d times an hour; ask again in %s", maxPerMinute, maxPerHour, wait)
}

// no is the last of some noes to an action.
type no struct {
	Action string    `json:"action"`
	Row    int       `json:"row"`
	At     time.Time `json:"at"`
}

// rest is how long nobody is asked after n.
func (n no) rest() time.Duration { return rests[min(n.Row, len(rests))-1] }

// unasked returns why nobody is asked about an action now, or nil. A no from a time to come was said under a clock that was set
// back since, and counts as said now. The caller holds the mutex.
func (d *Desk) unasked(action string, now time.Time) error {
	for i := range d.noes {
		n := &d.noes[i]
		if n.At.After(now) {
			n.At = now
		}
		if wait := n.rest() - now.Sub(n.At); n.Action == action && wait > 0 {
			return &UnaskedError{Denied: true, Wait: wait}
		}
	}
	asked := slices.DeleteFunc(d.asked[action], func(at time.Time) bool { return now.Sub(at) >= time.Hour || at.After(now) })
	d.asked[action] = asked
	wait := time.Duration(0)
	if n := len(asked); n >= maxPerHour {
		wait = time.Hour - now.Sub(asked[n-maxPerHour])
	} else if n >= maxPerMinute {
		wait = time.Minute - now.Sub(asked[n-maxPerMinute])
	}
	if wait > 0 {
		return &UnaskedError{Wait: wait}
	}
	return nil
}

// answered notes a person's word, or that there was none, for when the action is asked about again. The caller holds the mutex.
func (d *Desk) answered(action string, approved bool) {
	row, now := 1, d.o.Now().UTC()
	d.noes = slices.DeleteFunc(d.noes, func(n no) bool {
		if n.Action == action && now.Sub(n.At) < noesAfter {
			row = n.Row + 1
		}
		return n.Action == action || now.Sub(n.At) >= noesAfter
	})
	if !approved {
		d.noes = append(d.noes, no{Action: action, Row: row, At: now})
	}
}
