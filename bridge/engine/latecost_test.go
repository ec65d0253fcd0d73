package engine_test

import (
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
)

// An agent whose tree has nothing left says so, whatever it is told meanwhile.
func TestGatedByTheBudgetStaysGatedWhenSpokenTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(nil))
	r := rules
	r.Limits.Tree.Turns = 1
	w.allow(r)
	a := w.launch("go")
	w.idle(1)
	for _, text := range []string{"one", "two"} {
		if _, err := w.engine.Say(t.Context(), a.ID, text); err != nil {
			t.Fatal(err)
		}
		w.until("gated", func(tx bridge.Tx) bool {
			got, err := tx.Agent(a.ID)
			return err == nil && got.State == bridge.AgentGated
		})
	}
	if n := w.cloud.Effects("send"); n != 0 {
		t.Errorf("sent: %q", w.cloud.Log())
	}
}

// A cost that the API stops telling is not forgotten.
func TestCostThatIsNotToldAnyMoreStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(nil))
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
	err := w.engine.View(t.Context(), func(tx bridge.Tx) error {
		tree, err := tx.Tree(a.ID)
		if tree.CostMicros != 5_000_000 || tree.Tokens != 20 {
			t.Errorf("the tree is said to have cost %d and used %d", tree.CostMicros, tree.Tokens)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A cost that the API tells late does not gate a tree for ever.
func TestLateCostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(nil))
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
	w.until("gated", func(tx bridge.Tx) bool {
		got, err := tx.Agent(a.ID)
		return err == nil && got.State == bridge.AgentGated
	})
	known.Store(true)
	if _, err := w.engine.Say(t.Context(), a.ID, "two"); err != nil { // instead of waiting for the next look
		t.Fatal(err)
	}
	w.idle(3)
}
