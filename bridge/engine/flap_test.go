package engine_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
)

// away plays an action whose relay never answers, and returns after which time and how many requests it was given up.
// connects is how often the relay comes by, 0 for never.
func away(t *testing.T, connects time.Duration) (took time.Duration, asked int) {
	t.Helper()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		var calls atomic.Int32
		w.relay.Fail = func(string, string) error {
			calls.Add(1)
			return bridge.Errorf(bridge.Unavailable, "not reachable")
		}
		w.start()
		w.launch("go")
		w.until("the first request", func(*bridge.Scene) bool { return calls.Load() > 0 })
		began := time.Now()
		given := make(chan struct{})
		defer func() { <-given }()
		over := make(chan struct{})
		defer close(over)
		go func() {
			defer close(given)
			if connects > 0 {
				w.flap(connects, over)
			}
		}()
		w.until("given up", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{})
			return err == nil && len(all) == 1 && !all[0].State.Open()
		})
		took, asked = time.Since(began), int(calls.Load())
	})
	return took, asked
}

// flap does what a relay that connects does to what waits for it, again and again until over is closed.
func (w *world) flap(every time.Duration, over chan struct{}) {
	s := w.disk.Open()
	defer s.Close()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		err := s.Update(w.t.Context(), func(tx *bridge.Scene) error {
			return tx.WakeLanes([]string{bridge.ActionLane("laptop", "backup_script"), bridge.ActionLane("", "backup_script")}, time.Now())
		})
		if err != nil {
			w.t.Error(err)
		}
		w.engine.Wake()
	}
}

// An action that was never sent waits as long as its rule says, however often its relay comes and goes meanwhile, and then ends
// with words that say so.
func TestFlappingRelay(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, time.Second, 8 * time.Second, 30 * time.Second} {
		took, asked := away(t, every)
		if took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("a relay that comes by every %s is given up after %s and %d requests", every, took, asked)
		}
	}
}

// What waits for a relay is tried when it connects and not when its wait is over.
func TestConnectedRelayIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		var calls atomic.Int32
		var there atomic.Bool
		w.relay.Fail = func(string, string) error {
			calls.Add(1)
			if there.Load() {
				return nil
			}
			return bridge.Errorf(bridge.Unavailable, "not reachable")
		}
		w.start()
		w.launch("go")
		w.until("the waits are long", func(*bridge.Scene) bool { return calls.Load() == 6 })
		synctest.Wait()
		there.Store(true)
		s := w.disk.Open()
		defer s.Close()
		began := time.Now()
		if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
			return tx.WakeLanes([]string{bridge.ActionLane("laptop", "backup_script")}, time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		w.engine.Wake()
		w.until("it ran", func(*bridge.Scene) bool { return len(w.relay.Log()) == 1 })
		if took := time.Since(began); took > 0 {
			t.Errorf("it was tried after %s", took)
		}
	})
}
