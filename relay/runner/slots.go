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

// slots decides who may run: one run of an action at a time unless its entry says more, a few overall, and a queue of
// bounded length in which an action that is busy does not hold up the others. Safe for concurrent use.
type slots struct {
	limits  settings.Limits
	actions map[string]settings.Action

	mu      sync.Mutex
	running map[string]int
	total   int
	waiting []*waiter
}

type waiter struct {
	action string
	// ready is closed, under the mutex, when the waiter was given its slot.
	ready chan struct{}
}

func newSlots(c settings.Config) *slots {
	return &slots{limits: c.Limits, actions: c.Actions, running: map[string]int{}}
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
		s.occupy(action)
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

// now returns how often each action runs, and how many requests wait for a slot.
func (s *slots) now() (running map[string]int, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running = map[string]int{}
	for action, n := range s.running {
		if n > 0 {
			running[action] = n
		}
	}
	return running, len(s.waiting)
}

// release is give for those who hold the mutex.
func (s *slots) release(action string) {
	s.running[action]--
	s.total--
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if !s.free(w.action) {
			return false
		}
		s.occupy(w.action)
		close(w.ready)
		return true
	})
}

func (s *slots) free(action string) bool {
	return s.running[action] < max(1, s.actions[action].Concurrency) && s.total < s.limits.Concurrent
}

func (s *slots) occupy(action string) {
	s.running[action]++
	s.total++
}

// pace allows a number of starts in any minute and in any day. It counts exactly: a refilling bucket would let twice the
// number through in its first minute. Safe for concurrent use.
type pace struct {
	now func() time.Time

	mu      sync.Mutex
	windows []window
}

// window is a ring of the times of the last starts within a period.
type window struct {
	period time.Duration
	starts []time.Time
	next   int
}

// newPace takes the starts of a relay that ran before, the oldest first.
func newPace(limits settings.Limits, now func() time.Time, earlier []time.Time) *pace {
	p := &pace{now: now, windows: []window{
		{period: time.Minute, starts: make([]time.Time, limits.PerMinute)},
		{period: 24 * time.Hour, starts: make([]time.Time, limits.PerDay)},
	}}
	for _, at := range earlier {
		p.note(at)
	}
	return p
}

func (p *pace) note(at time.Time) {
	for i := range p.windows {
		w := &p.windows[i]
		w.starts[w.next] = at
		w.next = (w.next + 1) % len(w.starts)
	}
}

// start records a start and returns 0, or returns how long to wait for the next one and which period is used up.
func (p *pace) start() (wait, period time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, w := range p.windows {
		oldest := w.starts[w.next]
		if !oldest.IsZero() && now.Sub(oldest) < w.period && oldest.Add(w.period).Sub(now) > wait {
			wait, period = oldest.Add(w.period).Sub(now), w.period
		}
	}
	if wait == 0 {
		p.note(now)
	}
	return wait, period
}
