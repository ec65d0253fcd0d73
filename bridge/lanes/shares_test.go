package lanes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/proof/memstore"
)

// hall is a dispatcher whose work hangs for an hour or ends at once, by its reference.
type hall struct {
	store bridge.Store

	mu    sync.Mutex // guards begun
	begun map[string]time.Time
}

func newHall(t *testing.T, slots int) (*hall, *lanes.Dispatcher) {
	s := memstore.NewDisk().Open()
	h := &hall{store: s, begun: map[string]time.Time{}}
	d := lanes.New(lanes.Options{Store: h.store, Slots: slots, Now: time.Now, Rand: func() float64 { return 0.5 }, Handle: h.handle})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, d
}

func (h *hall) handle(ctx context.Context, w bridge.Work) error {
	h.mu.Lock()
	if h.begun[w.Ref].IsZero() {
		h.begun[w.Ref] = time.Now()
	}
	h.mu.Unlock()
	if w.Ref[0] == 'h' { // hangs
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Hour):
		}
	}
	return h.store.Update(context.WithoutCancel(ctx), func(tx *bridge.Scene) error { return tx.FinishWork(w) })
}

// add makes pieces of work due now, in lanes of their own, in this order.
func (h *hall) add(t *testing.T, d *lanes.Dispatcher, works ...bridge.Work) {
	t.Helper()
	err := h.store.Update(t.Context(), func(tx *bridge.Scene) error {
		for _, w := range works {
			w.Lane, w.Due = w.Ref, time.Now()
			if err := tx.Enqueue(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Wake()
}

// waited is how long a piece of work waited for its handler.
func (h *hall) waited(t *testing.T, ref string, since time.Time) time.Duration {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun[ref].IsZero() {
		t.Errorf("%s was not begun", ref)
		return time.Hour
	}
	return h.begun[ref].Sub(since)
}

func hanging(n int, kind bridge.WorkKind, share func(int) string) (works []bridge.Work) {
	for i := range n {
		works = append(works, bridge.Work{Ref: fmt.Sprintf("hangs-%s-%d", kind, i), Kind: kind, Share: share(i)})
	}
	return works
}

func alike(int) string { return "turn/hanging" }

// Work of one tree, relay or kind that hangs holds up no other, even when both come due at the same moment.
func TestHangingHoldsUpOnlyItsLike(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hanging []bridge.Work
		healthy bridge.Work
		most    time.Duration
	}{
		"another tree":  {hanging(900, bridge.WorkTurn, alike), bridge.Work{Ref: "ok", Kind: bridge.WorkTurn, Share: "turn/healthy"}, 0},
		"another kind":  {hanging(900, bridge.WorkAction, func(int) string { return "action/laptop" }), bridge.Work{Ref: "ok", Kind: bridge.WorkTurn, Share: "turn/healthy"}, 0},
		"another relay": {hanging(900, bridge.WorkAction, func(int) string { return "action/laptop" }), bridge.Work{Ref: "ok", Kind: bridge.WorkAction, Share: "action/tower"}, 0},
		"no share":      {hanging(900, bridge.WorkMail, func(int) string { return "" }), bridge.Work{Ref: "ok", Kind: bridge.WorkRemind}, 0},
		// Each tree has a slot of its own, so that all slots hang; each is left after 25 ms.
		"many trees": {hanging(150, bridge.WorkTurn, func(i int) string { return fmt.Sprint("turn/", i) }), bridge.Work{Ref: "ok", Kind: bridge.WorkTurn, Share: "turn/healthy"}, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, d := newHall(t, 64)
				since := time.Now()
				h.add(t, d, append(c.hanging, c.healthy)...)
				time.Sleep(time.Minute)
				if got := h.waited(t, "ok", since); got > c.most {
					t.Errorf("it waited %s while %d hung, at most %s", got, len(c.hanging), c.most)
				}
				// Once those that hang have left their slots, nothing is held up at all.
				c.healthy.Ref = "ok again"
				since = time.Now()
				h.add(t, d, c.healthy)
				time.Sleep(time.Minute)
				if got := h.waited(t, "ok again", since); got > 0 {
					t.Errorf("a minute later it waited %s", got)
				}
			})
		})
	}
}

// Trees that all have much to do get their turn one after the other: the second does not wait until the first is done.
func TestTreesShareTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, d := newHall(t, 8)
		since := time.Now()
		h.add(t, d, hanging(40, bridge.WorkTurn, alike)...)
		for i := range 4 {
			h.add(t, d, bridge.Work{Ref: fmt.Sprint("ok", i), Kind: bridge.WorkTurn, Share: fmt.Sprint("turn/", i)})
		}
		time.Sleep(time.Hour / 2)
		last := time.Duration(0)
		for i := range 4 {
			if got := h.waited(t, fmt.Sprint("ok", i), since); got > 0 {
				t.Errorf("tree %d waited %s", i, got)
			}
		}
		for i := range 40 {
			h.mu.Lock()
			begun, there := h.begun[fmt.Sprintf("hangs-turn-%d", i)]
			h.mu.Unlock()
			if there {
				last = max(last, begun.Sub(since))
			}
		}
		if last == 0 || last > 10*time.Second {
			t.Errorf("the last of those that hang was begun after %s", last)
		}
	})
}

// However much hangs, the work that is held at a time is bounded, and what is left out makes the dispatcher not spin.
func TestSlowWorkIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, d := newHall(t, 4)
		h.add(t, d, hanging(500, bridge.WorkTurn, func(i int) string { return fmt.Sprint("turn/", i) })...)
		time.Sleep(time.Minute) // it would not end if the dispatcher asked again and again
		h.mu.Lock()
		defer h.mu.Unlock()
		// 4 slots with what one claim may add to them, and 16 times as many that are slow.
		if n := len(h.begun); n < 64 || n > 64+4+4 {
			t.Errorf("%d are handled side by side", n)
		}
	})
}
