package engine_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// An agent whose tree has nothing left says so, whatever it is told meanwhile.
func TestGatedByTheBudgetStaysGatedWhenSpokenTo(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		r := rules
		r.Limits.Tree.Turns = 1
		w.allow(r)
		a := w.launch("go")
		w.idle(1)
		for _, text := range []string{"one", "two"} {
			if _, err := w.engine.Say(t.Context(), a.ID, text); err != nil {
				t.Fatal(err)
			}
			w.until("gated", func(tx *bridge.Scene) bool {
				got, err := tx.Agent(a.ID)
				return err == nil && got.State == bridge.AgentGated
			})
		}
		if n := w.cloud.Effects("send"); n != 0 {
			t.Errorf("sent: %q", w.cloud.Log())
		}
	})
}

// A cost that the API stops telling is not forgotten.
func TestCostThatIsNotToldAnyMoreStays(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		var known atomic.Bool
		known.Store(true)
		w.cloud.Inspected = func(string) (bridge.Evidence, error) {
			if known.Load() {
				return bridge.Evidence{Usage: &bridge.Usage{Tokens: 10, CostMicros: 5_000_000, CostKnown: true}}, nil
			}
			return bridge.Evidence{Usage: &bridge.Usage{Tokens: 20}}, nil
		}
		a := w.launch("go")
		w.idle(1)
		known.Store(false)
		if _, err := w.engine.Say(t.Context(), a.ID, "more"); err != nil {
			t.Fatal(err)
		}
		w.idle(2)
		err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
			tree, err := tx.Tree(a.ID)
			if tree.CostMicros != 5_000_000 || tree.Tokens != 20 {
				t.Errorf("the tree is said to have cost %d and used %d", tree.CostMicros, tree.Tokens)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A cost that the API tells late does not gate a tree without end.
func TestLateCostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		var known atomic.Bool
		w.cloud.Inspected = func(string) (bridge.Evidence, error) {
			return bridge.Evidence{Usage: &bridge.Usage{Tokens: 10, CostMicros: 10, CostKnown: known.Load()}}, nil
		}
		r := rules
		r.Limits.Tree.CostUSD = 1
		w.allow(r)
		a := w.launch("go")
		w.idle(1)
		if _, err := w.engine.Say(t.Context(), a.ID, "one"); err != nil {
			t.Fatal(err)
		}
		w.until("gated", func(tx *bridge.Scene) bool {
			got, err := tx.Agent(a.ID)
			return err == nil && got.State == bridge.AgentGated
		})
		known.Store(true)
		if _, err := w.engine.Say(t.Context(), a.ID, "two"); err != nil { // instead of waiting for the next look
			t.Fatal(err)
		}
		w.idle(3)
	})
}

// lateUsage plays one turn of a v1 agent whose use grows after its run's end, and
// returns how often it was asked for and what the tree is said to have used.
func lateUsage(t *testing.T, within time.Duration, bound func(*policy.Budget)) (asked int64, used int64) {
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		r := rules
		bound(&r.Limits.Tree)
		w.allow(r)
		var looks atomic.Int64
		w.cloud.Inspected = func(string) (bridge.Evidence, error) {
			switch n := looks.Add(1); n {
			case 3:
				return bridge.Evidence{}, bridge.Errorf(bridge.Unavailable, "not now")
			default:
				return bridge.Evidence{Usage: &bridge.Usage{Tokens: 10 * n, CostMicros: n, CostKnown: n != 2}}, nil
			}
		}
		w.start()
		a := w.launch("go")
		w.resting()
		<-time.After(within)
		synctest.Wait()
		err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
			tree, err := tx.Tree(a.ID)
			asked, used = looks.Load(), tree.Tokens
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return asked, used
}

// What an agent used is asked for three times more within half an hour of its
// run's end, and not without end; without a bound on it nothing is asked again.
func TestLateUsageIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		within      time.Duration
		bound       func(*policy.Budget)
		asked, used int64
	}{
		"no bound":           {24 * time.Hour, func(*policy.Budget) {}, 1, 10},
		"turns":              {24 * time.Hour, func(b *policy.Budget) { b.Turns = 9 }, 1, 10},
		"tokens, soon":       {2 * time.Minute, func(b *policy.Budget) { b.Tokens = 1000 }, 2, 20},
		"tokens":             {24 * time.Hour, func(b *policy.Budget) { b.Tokens = 1000 }, 4, 40},
		"cost, not told yet": {2 * time.Minute, func(b *policy.Budget) { b.CostUSD = 5 }, 2, 10},
		"cost, told at last": {24 * time.Hour, func(b *policy.Budget) { b.CostUSD = 5 }, 4, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if asked, used := lateUsage(t, tt.within, tt.bound); asked != tt.asked || used != tt.used {
				t.Errorf("asked %d times and used %d, want %d and %d", asked, used, tt.asked, tt.used)
			}
		})
	}
}

// Use that is told late counts against the bound at once: the next turn waits.
func TestLateUsageGates(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		r := rules
		r.Limits.Tree.Tokens = 100
		w.allow(r)
		var looks atomic.Int64
		w.cloud.Inspected = func(string) (bridge.Evidence, error) {
			return bridge.Evidence{Usage: &bridge.Usage{Tokens: 60 * looks.Add(1)}}, nil
		}
		w.start()
		w.launch("go")
		w.resting()
		<-time.After(2 * time.Minute)
		w.say("more")
		w.until("gated", func(tx *bridge.Scene) bool {
			a, err := tx.FindAgent(bridge.ByName, "main")
			return err == nil && a.State == bridge.AgentGated
		})
		if got := w.sent(boss); len(got) != 0 || looks.Load() != 2 {
			t.Errorf("sent %q after %d looks", got, looks.Load())
		}
	})
}
