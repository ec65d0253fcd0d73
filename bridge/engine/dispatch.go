package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"drawbridge/bridge"
)

// Lease times. A handler that lives keeps its lease by heartbeat, so the lease
// only bounds how long work lies still after a crash of someone else.
const (
	leaseTime      = 15 * time.Second
	leaseHeartbeat = 5 * time.Second
	maxIdle        = 30 * time.Second
)

// Run hands out due work until ctx ends, then waits for the handlers that run.
// They get Options.Grace to end by themselves, so that a launch under way is
// answered; what is cut off then is in doubt and is taken up by the next Run.
func (e *Engine) Run(ctx context.Context) error {
	handlers, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(e.o.Grace, cut) })()
	var running sync.WaitGroup
	defer running.Wait()
	e.streams.open(ctx)
	defer e.streams.close()
	slots := make(chan struct{}, e.o.Slots)
	for {
		free := cap(slots) - len(slots)
		works, err := e.claim(ctx, free)
		if err != nil && ctx.Err() == nil {
			e.o.Log.Error().Err(err).Msg("claim work")
		}
		for _, w := range works {
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots; e.Wake() }()
				e.handle(handlers, w)
			})
		}
		if len(works) > 0 && len(works) < free {
			continue // something ran; look once more before waiting
		}
		if !e.rest(ctx, free == 0, err) {
			return nil
		}
	}
}

// claim takes up to n pieces of due work.
func (e *Engine) claim(ctx context.Context, n int) (works []bridge.Work, err error) {
	if n == 0 || ctx.Err() != nil {
		return nil, nil
	}
	err = e.o.Store.Update(ctx, func(tx bridge.Tx) error {
		works, err = tx.ClaimWork(bridge.Claim{Now: e.o.Now(), Lease: leaseTime, Limit: n})
		return err
	})
	return works, err
}

// rest waits for a wake, for the next due time or for ctx's end, and reports
// whether to go on. When every slot is taken only a wake or the end counts.
func (e *Engine) rest(ctx context.Context, full bool, failed error) bool {
	wait := maxIdle
	if failed != nil {
		wait = time.Second
	} else if next, err := e.nextDue(ctx); !full && err == nil && !next.IsZero() {
		wait = min(wait, max(next.Sub(e.o.Now()), 0))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-e.wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

func (e *Engine) nextDue(ctx context.Context) (next time.Time, err error) {
	err = e.o.Store.View(ctx, func(tx bridge.Tx) error {
		next, err = tx.NextDue(e.o.Now())
		return err
	})
	return next, err
}

// handle runs one piece of work with a heartbeat, and puts it back when the handler failed.
func (e *Engine) handle(ctx context.Context, w bridge.Work) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &lease{until: w.Lease}
	ctx = context.WithValue(ctx, leaseKey{}, l)
	var beat sync.WaitGroup
	beat.Go(func() { e.heartbeat(ctx, w, cancel) })
	err := e.dispatch(ctx, w)
	cancel(nil)
	beat.Wait()
	if err = e.conclude(ctx, w, err); err != nil {
		e.o.Log.Error().Err(err).Str("lane", w.Lane).Msg("put back")
	}
}

// conclude puts work back when its handler failed. A lease that was lost is no failure.
func (e *Engine) conclude(ctx context.Context, w bridge.Work, err error) error {
	switch {
	case err == nil, errors.Is(err, bridge.ErrLeaseLost):
		return nil
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		err = e.putBack(ctx, w, 0)
	default:
		e.o.Log.Error().Err(err).Str("lane", w.Lane).Str("ref", w.Ref).Int("attempt", w.Attempts).Msg("work put back")
		err = e.putBack(ctx, w, e.backoff(w.Attempts, time.Second, time.Minute))
	}
	if errors.Is(err, bridge.ErrLeaseLost) {
		return nil
	}
	return err
}

// dispatch sends work to its handler. A panic is a bug of ours: it is logged
// with its stack and treated as an error, so that other work goes on.
func (e *Engine) dispatch(ctx context.Context, w bridge.Work) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.o.Log.Error().Str("lane", w.Lane).Bytes("stack", debug.Stack()).Msg("handler panicked")
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	switch w.Kind {
	case bridge.WorkTurn:
		return e.turnWork(ctx, w)
	case bridge.WorkAction:
		return e.actionWork(ctx, w)
	case bridge.WorkRemind:
		return e.remindWork(ctx, w)
	}
	return fmt.Errorf("no handler for work of kind %q", w.Kind)
}

// heartbeat extends the lease until ctx ends; when the lease is lost it ends the handler.
func (e *Engine) heartbeat(ctx context.Context, w bridge.Work, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(leaseHeartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		until := e.o.Now().Add(leaseTime)
		err := e.o.Store.Update(ctx, func(tx bridge.Tx) error { return tx.ExtendLease(w, until) })
		if errors.Is(err, bridge.ErrLeaseLost) {
			cancel(bridge.ErrLeaseLost)
			return
		}
		if err == nil {
			ctx.Value(leaseKey{}).(*lease).extend(until) //nolint:forcetypeassert // handle put it there
		}
	}
}

// putBack makes work due again after a wait.
func (e *Engine) putBack(ctx context.Context, w bridge.Work, wait time.Duration) error {
	return e.update(ctx, func(c *change) error { return c.PutBack(w, c.now.Add(wait)) })
}

// lease is until when the handler of a context holds its work.
type lease struct {
	mu    sync.Mutex // guards until
	until time.Time
}

type leaseKey struct{}

func (l *lease) extend(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

// holds reports whether the handler's lease still runs. It is asked right
// before a request that has an effect: a process that was stopped for longer
// than its lease must not go on with what another has taken over.
func (e *Engine) holds(ctx context.Context) bool {
	l, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.o.Now().Before(l.until)
}
