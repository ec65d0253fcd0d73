// Package rates counts requests a minute for each of many users. It keeps
// nothing over a restart. Rule of thumb: exact and small; whoever needs more than a
// count a minute needs something else.
package rates

import (
	"sync"
	"time"
)

// Limiter allows each user a number of requests in any minute, exactly: it keeps
// the times and not a bucket, which would let twice as many through at first.
type Limiter struct {
	perMinute int
	now       func() time.Time

	mu    sync.Mutex // guards users and swept
	users map[string][]time.Time
	swept time.Time
}

// New returns a limiter that reads the time from now. Its methods are safe for concurrent use.
func New(perMinute int, now func() time.Time) *Limiter {
	return &Limiter{perMinute: perMinute, now: now, users: map[string][]time.Time{}}
}

// Take counts a request, or returns how long the user has to wait. A refused
// request does not count.
func (l *Limiter) Take(user string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweep(now)
	recent := l.users[user]
	for len(recent) > 0 && now.Sub(recent[0]) >= time.Minute {
		recent = recent[1:]
	}
	if len(recent) >= l.perMinute {
		l.users[user] = recent
		return recent[0].Add(time.Minute).Sub(now)
	}
	l.users[user] = append(recent, now)
	return 0
}

// sweep forgets users who have been silent for a minute, once a minute.
func (l *Limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	for user, times := range l.users {
		if now.Sub(times[len(times)-1]) >= time.Minute {
			delete(l.users, user)
		}
	}
}
