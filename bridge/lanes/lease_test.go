package lanes_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/proof/memstore"
)

// cutStore is a store that one of two dispatchers cannot reach for a while.
type cutStore struct {
	bridge.Store
	cut atomic.Bool
}

func (s *cutStore) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if s.cut.Load() {
		return errors.New("the database cannot be reached")
	}
	return s.Store.Update(ctx, fn, hints...)
}

// Extend implements bridge.Store.
func (s *cutStore) Extend(ctx context.Context, w bridge.Work, until time.Time) error {
	if s.cut.Load() {
		return errors.New("the database cannot be reached")
	}
	return s.Store.Extend(ctx, w, until)
}

// Claim implements bridge.Store.
func (s *cutStore) Claim(ctx context.Context, c bridge.Claim) ([]bridge.Work, error) {
	if s.cut.Load() {
		return nil, errors.New("the database cannot be reached")
	}
	return s.Store.Claim(ctx, c)
}

// replicas runs a dispatcher on each store until the test's part is over.
func replicas(t *testing.T, handle func(context.Context, *lanes.Dispatcher, bridge.Store, bridge.Work) error, stores ...bridge.Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, s := range stores {
		var d *lanes.Dispatcher
		d = lanes.New(lanes.Options{Store: s, Slots: 4, Now: time.Now, Rand: func() float64 { return 0.5 },
			Handle: func(ctx context.Context, w bridge.Work) error { return handle(ctx, d, s, w) }})
		all.Go(func() {
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func oneWork(t *testing.T) bridge.Store {
	s := memstore.NewDisk().Open()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		return tx.Enqueue(bridge.Work{Lane: "lane", Kind: bridge.WorkTurn, Ref: "a", Due: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHeartbeat: work that takes many times its lease stays with the one who does it.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := oneWork(t)
		var handled atomic.Int32
		defer replicas(t, func(ctx context.Context, d *lanes.Dispatcher, s bridge.Store, w bridge.Work) error {
			handled.Add(1)
			time.Sleep(5 * time.Minute) // a launch that is slow to answer
			if ctx.Err() != nil || !d.Holds(ctx) {
				t.Errorf("the lease was lost: %v", context.Cause(ctx))
			}
			return s.Update(ctx, func(tx *bridge.Scene) error { return tx.FinishWork(w) })
		}, s, s)()
		time.Sleep(time.Hour)
		if n := handled.Load(); n != 1 {
			t.Errorf("handled %d times", n)
		}
	})
}

// TestLostLease: who cannot extend a lease knows when it is over, is told to end when another has taken the work, and can give
// nothing back.
func TestLostLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := oneWork(t)
		first, second := &cutStore{Store: s}, &cutStore{Store: s}
		second.cut.Store(true)
		var handled, ended atomic.Int32
		defer replicas(t, func(ctx context.Context, d *lanes.Dispatcher, s bridge.Store, w bridge.Work) error {
			finish := func(tx *bridge.Scene) error { return tx.FinishWork(w) }
			if handled.Add(1) > 1 {
				time.Sleep(time.Minute)
				ended.Add(1)
				return s.Update(ctx, finish)
			}
			first.cut.Store(true)
			second.cut.Store(false)
			time.Sleep(20 * time.Second)
			if d.Holds(ctx) || ctx.Err() != nil {
				t.Errorf("holds %v, %v; its lease is over and it cannot know yet who has it", d.Holds(ctx), context.Cause(ctx))
			}
			first.cut.Store(false)
			<-ctx.Done()
			if err := s.Update(context.WithoutCancel(ctx), finish); !errors.Is(context.Cause(ctx), bridge.ErrLeaseLost) || !errors.Is(err, bridge.ErrLeaseLost) {
				t.Errorf("ended by %v; gave back with %v", context.Cause(ctx), err)
			}
			ended.Add(1)
			return context.Cause(ctx)
		}, first, second)()
		time.Sleep(time.Hour)
		if handled.Load() != 2 || ended.Load() != 2 {
			t.Errorf("handled %d times, of which %d ended", handled.Load(), ended.Load())
		}
	})
}
