package engine

import (
	"context"
	"fmt"
	"time"
)

// Step claims the piece of work that has been due for longest and handles it
// before it returns, on the caller's goroutine and without a heartbeat, so that
// a driver decides what happens when. It reports whether there was work to
// claim; an error is the store's, from claiming or from putting back, and what
// a handler stumbled over is logged and tried again later, as in Run. Several
// Steps may run side by side or within each other's calls to the ports; Run
// must not run beside them, and no stream is followed.
func (e *Engine) Step(ctx context.Context) (worked bool, err error) {
	works, err := e.claim(ctx, 1)
	if err != nil {
		return false, fmt.Errorf("claim work: %w", err)
	}
	if len(works) == 0 {
		return false, nil
	}
	w := works[0]
	ctx = context.WithValue(ctx, leaseKey{}, &lease{until: w.Lease})
	if err := e.conclude(ctx, w, e.dispatch(ctx, w)); err != nil {
		return true, fmt.Errorf("put work of lane %q back: %w", w.Lane, err)
	}
	return true, nil
}

// NextDue returns when the next work can be claimed, by the engine's clock, or
// the zero time when there is none. Work that someone holds counts from the end of its lease.
func (e *Engine) NextDue(ctx context.Context) (time.Time, error) { return e.nextDue(ctx) }
