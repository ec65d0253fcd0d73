//go:build failpoint

package failport

import (
	"context"
	"errors"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/failpoint"
)

// Store marks store.begin, before anything is written; store.commit.before, when everything is written and nothing is
// committed; and store.commit.after, when it is durable and nobody has been told.
func Store(s bridge.Store) bridge.Store { return store{s} }

// Runtime marks runtime.<method>.before and .after.
func Runtime(r bridge.Runtime) bridge.Runtime { return runtime{r} }

// Actions marks action.run.before and .after.
func Actions(a bridge.ActionRunner) bridge.ActionRunner { return actions{a} }

type store struct{ bridge.Store }

// Update implements bridge.Store.
func (s store) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	failpoint.Here("store.begin")
	err := s.Store.Update(ctx, func(t *bridge.Scene) error {
		if err := fn(t); err != nil {
			return err
		}
		failpoint.Here("store.commit.before")
		return nil
	}, hints...)
	if err == nil {
		failpoint.Here("store.commit.after")
	}
	return err
}

// Claim hands out leases of another length and Extend never extends one: whoever works longer loses the work to somebody else,
// which is what a pause beyond a lease does.
func (s store) Claim(ctx context.Context, c bridge.Claim) ([]bridge.Work, error) {
	if d := failpoint.Lease(); d > 0 {
		c.Lease = d
	}
	failpoint.Here("store.begin")
	works, err := s.Store.Claim(ctx, c)
	if err == nil {
		failpoint.Here("store.commit.after")
	}
	return works, err
}

var errNoExtension = errors.New("leases are not extended in this proof")

// Extend implements bridge.Store.
func (s store) Extend(ctx context.Context, w bridge.Work, until time.Time) error {
	if failpoint.Lease() > 0 {
		return errNoExtension
	}
	return s.Store.Extend(ctx, w, until)
}

// around runs call between two points.
func around[T any](name string, call func() (T, error)) (T, error) {
	failpoint.Here(name + ".before")
	v, err := call()
	failpoint.Here(name + ".after")
	return v, err
}

type runtime struct{ bridge.Runtime }

// Launch implements bridge.Launcher.
func (r runtime) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	return around("runtime.launch", func() (bridge.Started, error) { return r.Runtime.Launch(ctx, l) })
}

// found is an answer of which two parts are no error.
type found struct {
	started bridge.Started
	known   bridge.Found
}

// FindLaunch implements bridge.Launcher.
func (r runtime) FindLaunch(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	f, err := around("runtime.findlaunch", func() (f found, err error) {
		f.started, f.known, err = r.Runtime.FindLaunch(ctx, l)
		return f, err
	})
	return f.started, f.known, err
}

// Send implements bridge.Sender.
func (r runtime) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	return around("runtime.send", func() (bridge.Started, error) { return r.Runtime.Send(ctx, f) })
}

// FindSend implements bridge.Sender.
func (r runtime) FindSend(ctx context.Context, u bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	f, err := around("runtime.findsend", func() (f found, err error) {
		f.started, f.known, err = r.Runtime.FindSend(ctx, u)
		return f, err
	})
	return f.started, f.known, err
}

// Observe implements bridge.Observer.
func (r runtime) Observe(ctx context.Context, ref bridge.RunRef) (bridge.Observation, error) {
	return around("runtime.observe", func() (bridge.Observation, error) { return r.Runtime.Observe(ctx, ref) })
}

// Cancel implements bridge.Observer.
func (r runtime) Cancel(ctx context.Context, ref bridge.RunRef) error {
	_, err := around("runtime.cancel", func() (struct{}, error) { return struct{}{}, r.Runtime.Cancel(ctx, ref) })
	return err
}

var errCannotFollow = errors.New("this runtime cannot follow runs")

// Follow implements bridge.Follower where the runtime does.
func (r runtime) Follow(ctx context.Context, ref bridge.RunRef) error {
	f, ok := r.Runtime.(bridge.Follower)
	if !ok {
		return errCannotFollow
	}
	_, err := around("runtime.follow", func() (struct{}, error) { return struct{}{}, f.Follow(ctx, ref) })
	return err
}

// SentSince implements bridge.Transcriber where the runtime does.
func (r runtime) SentSince(ctx context.Context, ref bridge.RunRef) ([]bridge.SentRun, error) {
	t, ok := r.Runtime.(bridge.Transcriber)
	if !ok {
		return nil, nil
	}
	return around("runtime.sentsince", func() ([]bridge.SentRun, error) { return t.SentSince(ctx, ref) })
}

type actions struct{ bridge.ActionRunner }

// RunAction implements bridge.ActionRunner.
func (a actions) RunAction(ctx context.Context, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	return around("action.run", func() (bridge.ActionOutcome, error) { return a.ActionRunner.RunAction(ctx, r) })
}
