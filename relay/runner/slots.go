package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drawbridge/relay/runner/settings"
)

var errQueueFull = errors.New("too many requests are waiting on this relay")

// slots decides who may run: one run of an action at a time, a few overall, and a queue of bounded length in which an
// action that is busy does not hold up the others. Safe for concurrent use.
type slots struct {
	limits settings.Limits

	mu      sync.Mutex
	running map[string]bool
	waiting []*waiter
}

type waiter struct {
	action string
	// ready is closed, under the mutex, when the waiter was given its slot.
	ready chan struct{}
}

func newSlots(limits settings.Limits) *slots {
	return &slots{limits: limits, running: map[string]bool{}}
}

// take waits for a slot until ctx is done. Whoever got one gives it back.
func (s *slots) take(ctx context.Context, action string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w, err := s.enter(action)
	if err != nil || w == nil {
		return err
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.waiting, w); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
		return context.Cause(ctx)
	}
	// The slot came in the same moment; it is ours to pass on.
	s.release(action)
	return context.Cause(ctx)
}

// enter returns nil when the slot was free, or the place in the queue.
func (s *slots) enter(action string) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free(action) {
		s.running[action] = true
		return nil, nil
	}
	if len(s.waiting) >= s.limits.Queue {
		return nil, errQueueFull
	}
	w := &waiter{action: action, ready: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	return w, nil
}

func (s *slots) give(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(action)
}

// release is give for those who hold the mutex.
func (s *slots) release(action string) {
	delete(s.running, action)
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if !s.free(w.action) {
			return false
		}
		s.running[w.action] = true
		close(w.ready)
		return true
	})
}

func (s *slots) free(action string) bool {
	return !s.running[action] && len(s.running) < s.limits.Concurrent
}

// pace allows a number of starts in any window of a minute. It counts exactly: a refilling bucket would let twice the
// number through in its first minute. Safe for concurrent use.
type pace struct {
	now func() time.Time

	mu sync.Mutex
	// starts is a ring of the times of the last starts.
	starts []time.Time
	next   int
}

func newPace(perMinute int, now func() time.Time) *pace {
	return &pace{now: now, starts: make([]time.Time, perMinute)}
}

// start records a start and returns 0, or returns how long to wait for the next one.
func (p *pace) start() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if oldest := p.starts[p.next]; !oldest.IsZero() && now.Sub(oldest) < time.Minute {
		return oldest.Add(time.Minute).Sub(now)
	}
	p.starts[p.next] = now
	p.next = (p.next + 1) % len(p.starts)
	return 0
}
