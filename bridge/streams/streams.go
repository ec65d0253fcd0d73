// Package streams keeps the runs whose end is waited for at the API's own
// stream, beside polling. What a stream says is a hint that makes somebody look
// at once, as a webhook does; it is kept nowhere, and without it polling finds
// the same end later. Rule of thumb: losing everything in here costs time and nothing else.
package streams

import (
	"context"
	"sync"

	"drawbridge/bridge"
)

// Set is the runs that are followed now. The zero value follows nothing until
// Open. Its methods are safe for concurrent use.
type Set struct {
	mu   sync.Mutex // guards the fields below
	ctx  context.Context
	runs map[bridge.TurnID]*stream
	all  sync.WaitGroup
}

type stream struct {
	cancel context.CancelFunc
	// over is true once the stream said that the run ended.
	over bool
}

// Open lets runs be followed until ctx ends.
func (s *Set) Open(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.runs = ctx, map[bridge.TurnID]*stream{}
}

// Close ends every follower and waits for it.
func (s *Set) Close() {
	s.mu.Lock()
	s.ctx = nil
	for _, r := range s.runs {
		r.cancel()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// Follow calls wait on a goroutine of its own, unless the turn's run is
// followed already, limit runs are, or the set is not open. When wait returns
// nil the run seems to be over, which is noted for Ended, and over is called;
// after an error the run may be followed again, and lost is called.
func (s *Set) Follow(id bridge.TurnID, limit int, f Follower) {
	ctx, r := s.begin(id, limit)
	if r == nil {
		return
	}
	go func() {
		defer s.all.Done()
		if err := f.Wait(ctx); err != nil {
			if ctx.Err() == nil {
				f.Lost(err)
			}
			s.forget(id, r)
			return
		}
		s.mark(r)
		f.Over(ctx)
	}()
}

// Follower is what Follow calls. Over gets a context that has ended already
// when the set was closed meanwhile.
type Follower struct {
	Wait func(context.Context) error
	Over func(context.Context)
	Lost func(error)
}

// begin returns the context for following a turn's run, or nil.
func (s *Set) begin(id bridge.TurnID, limit int) (context.Context, *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil || s.runs[id] != nil || len(s.runs) >= limit {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r := &stream{cancel: cancel}
	s.runs[id] = r
	s.all.Add(1)
	return ctx, r
}

// Ended reports whether the stream told of the run's end, and ends its watch.
func (s *Set) Ended(id bridge.TurnID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return false
	}
	r.cancel()
	delete(s.runs, id)
	return r.over
}

// forget lets a run be followed again, at its next look.
func (s *Set) forget(id bridge.TurnID, r *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.cancel()
	if s.runs[id] == r {
		delete(s.runs, id)
	}
}

func (s *Set) mark(r *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.over = true
}
