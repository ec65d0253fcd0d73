package hub_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
)

// cutStore loses its connection for a while.
type cutStore struct {
	bridge.Store
	left atomic.Int32
}

// Update implements bridge.Store.
func (s *cutStore) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if s.left.Add(-1) >= 0 {
		return bridge.Errorf(bridge.Unavailable, "bad connection")
	}
	return s.Store.Update(ctx, fn, hints...)
}

// TestCutAtTheStart: a session with the database that ends while a replica
// starts does not end the replica; it counts as there by its next beat.
func TestCutAtTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		first, err := hub.New(hub.Options{Store: disk.Open(), Shared: true, Keys: bridgeKeys("key one ")})
		if err != nil {
			t.Fatal(err)
		}
		over, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- first.Run(over) }()
		synctest.Wait() // it has made the first key
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		s := &cutStore{Store: disk.Open()}
		s.left.Store(1)
		h, err := hub.New(hub.Options{Store: s, Shared: true, Keys: bridgeKeys("key one ")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		h.Wake() // another replica wrote before the first beat that succeeds
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		default:
		}
		cancel()
		if err := <-done; err != nil || s.left.Load() >= -1 {
			t.Errorf("%v, and %d updates after the cut", err, -s.left.Load())
		}
	})
}
