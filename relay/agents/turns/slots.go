package turns

import (
	"context"
	"sync"
)

// slots are the processes that one entry may have at a time. Those who wait get one in the order in which they came. A process without a
// turn gives up its slot as soon as somebody waits. It is safe for concurrent use.
type slots struct {
	mu   sync.Mutex // guards the fields below
	free int
	// idle are the processes without a turn, the longest idle first.
	idle []*warm
	// waiting get a signal when a slot is theirs.
	waiting []chan struct{}
}

func newSlots(n int) *slots { return &slots{free: n} }

// take waits for a slot. The error is the cause of ctx.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	if s.free > 0 && len(s.waiting) == 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	s.waiting = append(s.waiting, mine)
	var evicted *warm
	if len(s.idle) > 0 {
		evicted, s.idle = s.idle[0], s.idle[1:]
	}
	s.mu.Unlock()
	if evicted != nil {
		evicted.end()
	}
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for i, w := range s.waiting {
		if w == mine {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	s.mu.Unlock()
	s.give() // it became ours a moment ago
	return context.Cause(ctx)
}

// give returns a slot. The first who waits gets it.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}

// park keeps a process that has no turn any more. It reports false when its slot is wanted, so that the caller ends it.
func (s *slots) park(w *warm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		return false
	}
	s.idle = append(s.idle, w)
	return true
}

// claim takes a process out of the idle ones, for a turn or to end it. It reports false when somebody else has done so.
func (s *slots) claim(w *warm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, each := range s.idle {
		if each == w {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			return true
		}
	}
	return false
}
