package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/store"
)

// TestLanesInOneOrder: two steps that share lanes take them in one order, and what happens in one lane keeps its order.
func TestLanesInOneOrder(t *testing.T) {
	t.Parallel()
	change := func(verb bridge.LaneVerb, lane string) bridge.LaneChange {
		return bridge.LaneChange{Verb: verb, Work: bridge.Work{Lane: lane}}
	}
	wake := func(lanes ...string) bridge.LaneChange {
		return bridge.LaneChange{Verb: bridge.LaneWake, Lanes: lanes}
	}
	one := []bridge.LaneChange{wake("b"), change(bridge.LaneEnqueue, "c"), change(bridge.LaneFinish, "a"), change(bridge.LaneEnqueue, "b"), wake("a")}
	other := []bridge.LaneChange{change(bridge.LaneFinish, "a"), wake("b"), wake("a"), change(bridge.LaneEnqueue, "b"), change(bridge.LaneEnqueue, "c")}
	want := []bridge.LaneChange{change(bridge.LaneFinish, "a"), wake("a"), wake("b"), change(bridge.LaneEnqueue, "b"), change(bridge.LaneEnqueue, "c")}
	for _, changes := range [][]bridge.LaneChange{one, other} {
		if diff := cmp.Diff(want, store.InLaneOrder(slices.Clone(changes))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	many := []bridge.LaneChange{change(bridge.LaneEnqueue, "c"), wake("b", "a")}
	if diff := cmp.Diff(many, store.InLaneOrder(many)); diff != "" {
		t.Errorf("a step that wakes many lanes (-want +got):\n%s", diff)
	}
}
