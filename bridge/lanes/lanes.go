// Package lanes hands out due work from a store: one item at a time within a
// lane, lanes side by side. It keeps leases alive while a handler lives, takes
// over what a process left behind, refuses what was done by someone who no
// longer holds it, and sets aside what fails again and again, or ends its
// process again and again, without losing it.
// It knows nothing of what the work is. Rule of thumb: whatever must go on
// after a restart is a row, and nobody but this package claims one.
package lanes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
)

// Lease times. A handler that lives keeps its lease by heartbeat, so the lease
// only bounds how long work lies still after a crash of someone else.
const (
	leaseTime      = 15 * time.Second
	leaseHeartbeat = 5 * time.Second
	maxIdle        = 30 * time.Second
	recordTimeout  = 30 * time.Second
)

// StuckAfter is how many times in a row a handler fails, or dies, before its work
// counts as stuck: somebody is told, and from then on it is tried at long intervals
// only. Until then the waits add up to about four minutes.
const StuckAfter = 10

// suspectAfter is how many claims in a row end without an answer until work is
// no longer taken up at once after the next: it may be what ends the process. It
// waits as work that failed does, so that what was held beside it only by chance
// is handled at another time and clears itself. A bridge that is stopped gives
// everything back, and one that was killed now and then comes nowhere near it.
const suspectAfter = 3

// errNoAnswer is the failure of work whose holders died.
var errNoAnswer = errors.New("the process that handled it ended without an answer: the bridge crashed, was killed or hung")

// Options configures a Dispatcher. Store and Handle are required.
type Options struct {
	Store bridge.Store
	// Handle does one piece of work. It gives the work back in its own transaction
	// (FinishWork or PutBack); an error means that it could not, and the work is
	// tried again later. Its context ends when the lease is lost.
	Handle func(ctx context.Context, w bridge.Work) error
	// Stuck is called when work has failed StuckAfter times in a row, once for
	// every further failure too; claims that were lost count. It may be nil.
	Stuck func(ctx context.Context, w bridge.Work, failures int, cause error)
	// Slots bounds the work of one kind that is handled side by side; required. The shares that use some divide them evenly,
	// and one part is left for the next share.
	Slots int
	// Slow bounds the work of one kind that goes on for longer than Patience and has left its slot; 16 times Slots unless set. One
	// share may use a quarter of it.
	Slow int
	// Patience is how long work may keep its slot, 25 ms unless set: longer than a look into the database, shorter than an answer of the API.
	Patience time.Duration
	// Grace is how long handlers may go on when Run is told to stop.
	Grace time.Duration
	Now   func() time.Time
	// Rand spreads waits: numbers from 0 up to 1. Safe for concurrent use.
	Rand func() float64
	Log  zerolog.Logger
}

// The defaults of Options.
const (
	defaultPatience = 25 * time.Millisecond
	slowForSlot     = 16
)

// claimAtOnce bounds one claim. It is how far the bounds of a share may be passed.
const claimAtOnce = 16

// Dispatcher hands out work. Its methods are safe for concurrent use; Run is called once.
type Dispatcher struct {
	o    Options
	wake chan struct{}
	book *book
}

// New returns a dispatcher that does nothing until Run.
func New(o Options) *Dispatcher {
	o.Slow, o.Patience = cmp.Or(o.Slow, slowForSlot*o.Slots), cmp.Or(o.Patience, defaultPatience)
	return &Dispatcher{o: o, wake: make(chan struct{}, 1), book: newBook(o.Slots, o.Slow)}
}

// Wake makes Run look for work now.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run hands out due work until ctx ends, then waits for the handlers that run.
// They get Options.Grace to end by themselves, so that a launch which cannot be
// repeated is answered. Calls under a context of Repeatable end at once. What is
// cut off is in doubt, and the next Run takes it up.
func (d *Dispatcher) Run(ctx context.Context) error {
	handlers, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(d.o.Grace, cut) })()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c := d.free()
		works, err := d.claim(ctx, c)
		if err != nil && ctx.Err() == nil {
			d.o.Log.Error().Err(err).Msg("claim work")
		}
		for _, w := range works {
			d.book.begin(w)
			running.Go(func() { d.slot(context.WithValue(handlers, stopKey{}, ctx), w) })
		}
		if len(works) > 0 {
			continue // something ran; look once more before waiting
		}
		if !d.rest(ctx, c, err) {
			return nil
		}
	}
}

// free is a claim of what there are slots for.
func (d *Dispatcher) free() bridge.Claim {
	c := bridge.Claim{Now: d.o.Now(), Lease: leaseTime, Limit: min(claimAtOnce, max(d.o.Slots/2, 1))}
	c.Without, c.Spent = d.book.spent()
	return c
}

// slot handles work in a slot of its kind, which it leaves when it takes long.
func (d *Dispatcher) slot(ctx context.Context, w bridge.Work) {
	defer d.Wake()
	ended, yielded := make(chan struct{}), make(chan bool)
	go func() { yielded <- d.yield(w, ended) }()
	defer func() {
		close(ended)
		d.book.end(w, <-yielded)
	}()
	d.handle(ctx, w)
}

// yield waits until the work has ended or has taken long and leaves its slot, and reports whether it left.
func (d *Dispatcher) yield(w bridge.Work, ended <-chan struct{}) bool {
	long := time.NewTicker(d.o.Patience)
	defer long.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-long.C:
		}
		if d.book.yield(w) {
			d.Wake()
			return true
		}
	}
}

// Step claims the piece of work that has been due for longest and handles it
// before it returns, on the caller's goroutine and without a heartbeat, so that
// a driver decides what happens when. It reports whether there was work to
// claim; an error is the store's, from claiming or from putting back, and what
// a handler stumbled over is logged and tried again later, as in Run. Several
// Steps may run side by side or within each other's calls to the ports; Run
// must not run beside them.
func (d *Dispatcher) Step(ctx context.Context) (worked bool, err error) {
	works, err := d.claim(ctx, bridge.Claim{Now: d.o.Now(), Lease: leaseTime, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("claim work: %w", err)
	}
	if len(works) == 0 {
		return false, nil
	}
	w := works[0]
	ctx = context.WithValue(ctx, leaseKey{}, &lease{until: w.Lease})
	if err := d.conclude(ctx, w, d.try(ctx, w)); err != nil {
		return true, fmt.Errorf("put work of lane %q back: %w", w.Lane, err)
	}
	return true, nil
}

// NextDue returns when the next work can be claimed, or the zero time when
// there is none. Work that someone holds counts from the end of its lease.
func (d *Dispatcher) NextDue(ctx context.Context) (time.Time, error) {
	return d.o.Store.NextFor(ctx, bridge.Claim{Now: d.o.Now()})
}

// claim takes due work.
func (d *Dispatcher) claim(ctx context.Context, c bridge.Claim) ([]bridge.Work, error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	return d.o.Store.Claim(ctx, c)
}

// rest waits for a wake, for the next due time or for ctx's end, and reports
// whether to go on. Work that the claim left out counts when a slot is free again, which is a wake.
func (d *Dispatcher) rest(ctx context.Context, c bridge.Claim, failed error) bool {
	wait := maxIdle
	if failed != nil {
		wait = time.Second
	} else if next, err := d.o.Store.NextFor(ctx, c); err == nil && !next.IsZero() {
		wait = min(wait, max(next.Sub(d.o.Now()), 0))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-d.wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// handle runs one piece of work with a heartbeat, and puts it back when the handler failed.
func (d *Dispatcher) handle(ctx context.Context, w bridge.Work) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &lease{until: w.Lease}
	ctx = context.WithValue(ctx, leaseKey{}, l)
	var beat sync.WaitGroup
	beat.Go(func() { d.heartbeat(ctx, w, cancel) })
	err := d.try(ctx, w)
	cancel(nil)
	beat.Wait()
	if err = d.conclude(ctx, w, err); err != nil {
		d.o.Log.Error().Err(err).Str("lane", w.Lane).Msg("put back")
	}
}

// suspect reports whether work may be what ends the process that handles it.
func suspect(w bridge.Work) bool { return w.Lost > 0 && w.Failures+w.Lost >= suspectAfter }

// try calls the handler. A panic is a bug of ours: it is logged with its stack
// and treated as an error, so that other work goes on.
func (d *Dispatcher) try(ctx context.Context, w bridge.Work) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.o.Log.Error().Str("lane", w.Lane).Bytes("stack", debug.Stack()).Msg("handler panicked")
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	if suspect(w) {
		return errNoAnswer
	}
	return d.o.Handle(ctx, w)
}

// conclude puts work back when its handler failed. A lease that was lost is no failure.
func (d *Dispatcher) conclude(ctx context.Context, w bridge.Work, cause error) error {
	if cause == nil || errors.Is(cause, bridge.ErrLeaseLost) {
		return nil
	}
	var err error
	if errors.Is(cause, context.Canceled) && ctx.Err() != nil {
		err = d.giveBack(ctx, w, func(tx *bridge.Scene) error { return tx.PutBack(w, d.o.Now()) })
	} else {
		if errors.Is(cause, errNoAnswer) {
			w.Lost-- // this claim was not lost, nor did it try
		}
		failures := w.Failures + w.Lost + 1
		limit := time.Minute
		if failures >= StuckAfter {
			limit = time.Hour
		}
		d.o.Log.Error().Err(cause).Str("lane", w.Lane).Str("ref", w.Ref).Int("failures", failures).Msg("work put back")
		due := d.o.Now().Add(Backoff(d.o.Rand, failures, time.Second, limit))
		err = d.giveBack(ctx, w, func(tx *bridge.Scene) error { return tx.FailWork(w, due) })
		if err == nil && failures >= StuckAfter && d.o.Stuck != nil {
			d.o.Stuck(ctx, w, failures, cause)
		}
	}
	if errors.Is(err, bridge.ErrLeaseLost) {
		return nil
	}
	return err
}

// giveBack records although the handler's context may have ended.
func (d *Dispatcher) giveBack(ctx context.Context, w bridge.Work, fn func(*bridge.Scene) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := d.o.Store.Update(ctx, fn, bridge.NeedWork{ID: w.ID})
	d.Wake()
	return err
}

// heartbeat extends the lease until ctx ends; when the lease is lost it ends the handler.
func (d *Dispatcher) heartbeat(ctx context.Context, w bridge.Work, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(leaseHeartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		until := d.o.Now().Add(leaseTime)
		err := d.o.Store.Extend(ctx, w, until)
		if errors.Is(err, bridge.ErrLeaseLost) {
			cancel(bridge.ErrLeaseLost)
			return
		}
		if err == nil {
			ctx.Value(leaseKey{}).(*lease).extend(until) //nolint:forcetypeassert // handle put it there
		}
	}
}

type stopKey struct{}

// Repeatable returns a context for a call that may be cut off and made again: it
// ends when ctx does, and at once when Run is told to stop, without Options.Grace.
// The caller cancels it.
func Repeatable(ctx context.Context) (context.Context, context.CancelFunc) {
	call, cancel := context.WithCancel(ctx)
	stop, ok := ctx.Value(stopKey{}).(context.Context)
	if !ok {
		return call, cancel
	}
	undo := context.AfterFunc(stop, cancel)
	return call, func() { undo(); cancel() }
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

// Holds reports whether the handler's lease still runs. It is asked right
// before a request that has an effect: a process that was stopped for longer
// than its lease must not go on with what another has taken over.
func (d *Dispatcher) Holds(ctx context.Context) bool {
	l, ok := ctx.Value(leaseKey{}).(*lease)
	if !ok {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return d.o.Now().Before(l.until)
}

// Backoff returns a wait that doubles from base up to limit, spread by a fifth
// so that many who wait do not all come back at once. Attempts count from 1.
func Backoff(random func() float64, attempt int, base, limit time.Duration) time.Duration {
	d := base << min(max(attempt-1, 0), 20)
	if d > limit || d <= 0 {
		d = limit
	}
	return time.Duration(float64(d) * (0.9 + 0.2*random()))
}
