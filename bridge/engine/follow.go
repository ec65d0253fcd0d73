package engine

import (
	"context"
	"sync"

	"drawbridge/bridge"
)

// followers is the runs that are followed now. The zero value follows nothing until
// Open. Its methods are safe for concurrent use.
type followers struct {
	mu   sync.Mutex // guards the fields below
	ctx  context.Context
	runs map[bridge.TurnID]*stream
	// over are the runs that ended, oldest first. Another replica may take their turns, so that ended is never asked about them here.
	over []bridge.TurnID
	// following counts the streams that are read.
	following int
	all       sync.WaitGroup
}

type stream struct {
	cancel context.CancelFunc
	// over is true once the stream said that the run ended.
	over bool
}

// open lets runs be followed until ctx ends.
func (s *followers) open(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.runs, s.over = ctx, map[bridge.TurnID]*stream{}, nil
}

// close ends every follower and waits for it.
func (s *followers) close() {
	s.mu.Lock()
	s.ctx = nil
	for _, r := range s.runs {
		r.cancel()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// follow calls wait on a goroutine of its own, unless the turn's run is
// followed already, limit runs are, or the set is not open. When wait returns
// nil the run seems to be over, which is noted for ended, and over is called;
// after an error the run may be followed again, and lost is called. Of runs that are over the last limit are noted.
func (s *followers) follow(id bridge.TurnID, limit int, f follower) {
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
		s.mark(id, limit, r)
		f.Over(ctx)
	}()
}

// follower is what Follow calls. Over gets a context that has ended already
// when the set was closed meanwhile.
type follower struct {
	Wait func(context.Context) error
	Over func(context.Context)
	Lost func(error)
}

// begin returns the context for following a turn's run, or nil.
func (s *followers) begin(id bridge.TurnID, limit int) (context.Context, *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil || s.runs[id] != nil || s.following >= limit {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r := &stream{cancel: cancel}
	s.runs[id] = r
	s.following++
	s.all.Add(1)
	return ctx, r
}

// ended reports whether the stream told of the run's end, and ends its watch.
func (s *followers) ended(id bridge.TurnID) bool {
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
func (s *followers) forget(id bridge.TurnID, r *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following--
	r.cancel()
	if s.runs[id] == r {
		delete(s.runs, id)
	}
}

func (s *followers) mark(id bridge.TurnID, limit int, r *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following--
	r.over = true
	if s.over = append(s.over, id); len(s.over) <= limit {
		return
	}
	if oldest := s.runs[s.over[0]]; oldest != nil && oldest.over {
		oldest.cancel()
		delete(s.runs, s.over[0])
	}
	s.over = s.over[1:]
}

// follow waits for the end of a turn's run beside the polling, if the Runtime can.
func (e *Engine) follow(j job) {
	f, ok := e.o.Runtime.(bridge.Follower)
	if !ok || j.agent.API == bridge.APIv0 || j.turn.Run == "" {
		return
	}
	e.streams.follow(j.turn.ID, e.o.Streams, follower{
		Wait: func(ctx context.Context) error {
			look, end := bridge.LookFor(ctx, j.turn.ID)
			err := f.Follow(look, runOf(j))
			end(err == nil)
			return err
		},
		Over: func(ctx context.Context) {
			err := e.update(ctx, func(c *change) error { return c.WakeLane(agentLane(j.agent.ID), c.now) })
			if err != nil && ctx.Err() == nil {
				e.o.Log.Warn().Err(err).Str("turn", string(j.turn.ID)).Msg("wake after the stream's end")
			}
		},
		Lost: func(err error) {
			e.o.Log.Debug().Err(err).Str("turn", string(j.turn.ID)).Msg("stream lost; polling goes on")
		},
	})
}
