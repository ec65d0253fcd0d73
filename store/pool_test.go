package store_test

import (
	"strings"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/proof/pgproxy"
	"drawbridge/store"
)

// TestPoolSize: as many connections as the address says are used side by side, and not one more, counted in front of the server.
func TestPoolSize(t *testing.T) {
	t.Parallel()
	p, err := pgproxy.Start(pg.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	s := open(t, p.URL()+"&pool_max_conns=3")
	var readers, inside sync.WaitGroup
	inside.Add(3)
	enter := make(chan struct{}, 3)
	for range 3 {
		enter <- struct{}{}
	}
	for range 12 {
		readers.Go(func() {
			if err := s.View(t.Context(), func(*bridge.Scene) error {
				select {
				case <-enter: // the first three wait for each other, so that each has a connection of its own
					inside.Done()
					inside.Wait()
				default:
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	if n := p.Connections(); n != 3 {
		t.Errorf("%d connections were opened; want 3", n)
	}
}

// TestPoolSizeIsChecked: a size that cannot be is an error that says what to write.
func TestPoolSizeIsChecked(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"0", "1", "1001", "-4", "many", ""} {
		address := "postgres://user:hunter2hunter2@127.0.0.1:1/db?pool_max_conns=" + size
		s, err := store.Open(t.Context(), address)
		if err == nil {
			t.Fatal("opened", s.Close())
		}
		if checked := store.CheckSchema(t.Context(), address); checked == nil || checked.Error() != err.Error() {
			t.Errorf("a pool of %q: check says %v", size, checked)
		}
		if bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "2 to 1000") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a pool of %q: %v", size, err)
		}
	}
	address := pg.Database(t) + "&pool_max_conns=2&pool_min_conns=1"
	s := open(t, address)
	if err := s.Update(t.Context(), func(*bridge.Scene) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := store.CheckSchema(t.Context(), address); err != nil {
		t.Errorf("check refuses what serve takes: %v", err)
	}
}
