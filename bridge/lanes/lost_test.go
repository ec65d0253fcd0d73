package lanes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/proof/memstore"
)

// mortal is a dispatcher in a time of its own, whose process may die.
type mortal struct {
	*lanes.Dispatcher
	t     *testing.T
	store bridge.Store
	now   time.Time
	// handled are when work was handled, and stuck with how many failures it was said to be.
	handled []time.Time
	stuck   []int
}

func newMortal(t *testing.T, handle func(*mortal, bridge.Work) error) *mortal {
	s := memstore.NewDisk().Open()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	m := &mortal{t: t, store: s, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	m.Dispatcher = lanes.New(lanes.Options{Store: s, Slots: 1, Now: func() time.Time { return m.now }, Rand: func() float64 { return 0.5 },
		Handle: func(_ context.Context, w bridge.Work) error {
			m.handled = append(m.handled, m.now)
			return handle(m, w)
		},
		Stuck: func(_ context.Context, _ bridge.Work, failures int, cause error) {
			m.stuck = append(m.stuck, failures)
			if !strings.Contains(cause.Error(), "ended without an answer") {
				t.Errorf("stuck over %v", cause)
			}
		}})
	m.do(func(tx *bridge.Scene) error {
		return tx.Enqueue(bridge.Work{Lane: "lane", Kind: bridge.WorkTurn, Ref: "a", Due: m.now})
	})
	return m
}

func (m *mortal) do(fn func(*bridge.Scene) error) {
	m.t.Helper()
	if err := m.store.Update(m.t.Context(), fn); err != nil {
		m.t.Fatal(err)
	}
}

// live goes on with what is due next until some time.
func (m *mortal) live(until time.Time) {
	m.t.Helper()
	for {
		next, err := m.NextDue(m.t.Context())
		if err != nil {
			m.t.Fatal(err)
		}
		if next.IsZero() || next.After(until) {
			return
		}
		if next.After(m.now) {
			m.now = next
		}
		if _, err := m.Step(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	}
}

// die leaves work as a process does that ends in the middle of it.
func die(*mortal, bridge.Work) error { return bridge.ErrLeaseLost }

// TestDeadlyWorkIsSetAside: work that ends its process each time is tried again
// at once twice, then with growing waits, and in the end about once an hour, with an
// alarm each time. It is never dropped, and a wake brings it up at once.
func TestDeadlyWorkIsSetAside(t *testing.T) {
	t.Parallel()
	m := newMortal(t, die)
	begun := m.now
	m.live(begun.Add(10 * time.Minute))
	if len(m.handled) != lanes.StuckAfter || !slices.Equal(m.stuck, []int{lanes.StuckAfter}) {
		t.Fatalf("handled %d times in the first ten minutes, stuck with %v", len(m.handled), m.stuck)
	}
	if wait := m.handled[2].Sub(begun); wait != 30*time.Second {
		t.Errorf("the third try came after %s, want after two leases", wait)
	}
	m.live(begun.Add(12 * time.Hour))
	if n := len(m.handled) - lanes.StuckAfter; n < 10 || n > 14 || len(m.stuck) != n+1 {
		t.Errorf("handled %d times in the next 12 hours, stuck with %v", n, m.stuck)
	}
	before := len(m.handled)
	m.do(func(tx *bridge.Scene) error { return tx.WakeLane("lane", m.now) })
	m.live(m.now.Add(time.Minute))
	if len(m.handled) != before+1 {
		t.Errorf("a wake brought it up %d times", len(m.handled)-before)
	}
}

// TestDeathsOfOthersAreForgotten: what was held beside deadly work clears itself
// as soon as it gets through, and kills that are not in a row never add up.
func TestDeathsOfOthersAreForgotten(t *testing.T) {
	t.Parallel()
	deaths := 0
	m := newMortal(t, func(m *mortal, w bridge.Work) error {
		if deaths++; deaths%10 != 0 {
			return bridge.ErrLeaseLost
		}
		return m.store.Update(t.Context(), func(tx *bridge.Scene) error { return tx.PutBack(w, m.now.Add(time.Second)) })
	})
	m.live(m.now.Add(3 * time.Hour))
	if len(m.stuck) > 0 || len(m.handled) < 50 {
		t.Errorf("handled %d times, stuck with %v", len(m.handled), m.stuck)
	}
}

// TestStopIsNoDeath: a bridge that is told to stop gives back what it holds, so
// that however many restarts leave no trace.
func TestStopIsNoDeath(t *testing.T) {
	t.Parallel()
	var stop context.CancelFunc
	m := newMortal(t, func(*mortal, bridge.Work) error {
		stop()
		return context.Canceled
	})
	for range 3 * lanes.StuckAfter {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop = cancel
		if worked, err := m.Step(ctx); !worked || err != nil {
			t.Fatalf("worked: %t, %v", worked, err)
		}
	}
	works, err := m.store.Claim(t.Context(), bridge.Claim{Now: m.now, Lease: time.Minute, Limit: 1})
	if err != nil || len(works) != 1 || works[0].Lost != 0 || works[0].Failures != 0 || len(m.stuck) > 0 {
		t.Errorf("after %d restarts: %+v, %v, stuck with %v", len(m.handled), works, err, m.stuck)
	}
}

// heardStore counts the updates that wake somebody.
type heardStore struct {
	bridge.Store
	heard int
}

func (s *heardStore) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if !bridge.IsUnheard(ctx) {
		s.heard++
	}
	return s.Store.Update(ctx, fn, hints...)
}

// TestLookingForWorkWakesNobody: two idle replicas on one database once woke each other by each claim of nothing, without end.
func TestLookingForWorkWakesNobody(t *testing.T) {
	t.Parallel()
	inner := memstore.NewDisk().Open()
	s := &heardStore{Store: inner}
	d := lanes.New(lanes.Options{Store: s, Slots: 1, Now: time.Now, Handle: func(context.Context, bridge.Work) error { return nil }})
	worked, err := d.Step(t.Context())
	if err := errors.Join(err, inner.Close()); worked || err != nil || s.heard != 0 {
		t.Errorf("worked %v, error %v, %d updates that wake others; want none", worked, err, s.heard)
	}
}
