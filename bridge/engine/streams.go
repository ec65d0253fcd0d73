package engine

import (
	"context"
	"sync"

	"drawbridge/bridge"
)

// streams are the runs whose end is waited for at the API's own stream. What
// they say is a hint that makes us look at once, as a webhook does; it is kept
// nowhere, and without it polling finds the same end later.
type streams struct {
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

// open lets streams be followed until ctx ends.
func (s *streams) open(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
}

// close waits for every follower; their context has ended with Run's.
func (s *streams) close() {
	s.mu.Lock()
	s.ctx = nil
	for _, r := range s.runs {
		r.cancel()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// begin returns the context for following a turn's run, or nil when it is
// followed already, or too many are.
func (s *streams) begin(id bridge.TurnID, limit int) (context.Context, *stream) {
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

// ended reports whether the stream told of the run's end, and ends its watch.
func (s *streams) ended(id bridge.TurnID) bool {
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

// follow waits for the end of a turn's run beside the polling, if the Runtime can.
func (e *Engine) follow(j job) {
	f, ok := e.o.Runtime.(bridge.Follower)
	if !ok || j.agent.API != bridge.APIv1 || j.turn.Run == "" {
		return
	}
	ctx, r := e.streams.begin(j.turn.ID, e.o.Streams)
	if ctx == nil {
		return
	}
	go func() {
		defer e.streams.all.Done()
		err := f.Follow(ctx, runOf(j))
		if err != nil {
			if ctx.Err() == nil {
				e.o.Log.Debug().Err(err).Str("turn", string(j.turn.ID)).Msg("stream lost; polling goes on")
			}
			e.streams.forget(j.turn.ID, r)
			return
		}
		e.streams.mark(r)
		if err := e.update(ctx, func(c *change) error { return c.WakeLane(agentLane(j.agent.ID), c.now) }); err != nil && ctx.Err() == nil {
			e.o.Log.Warn().Err(err).Str("turn", string(j.turn.ID)).Msg("wake after the stream's end")
		}
	}()
}

// forget lets a run be followed again, at its next look.
func (s *streams) forget(id bridge.TurnID, r *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.cancel()
	if s.runs[id] == r {
		delete(s.runs, id)
	}
}

func (s *streams) mark(r *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.over = true
	r.cancel()
}
