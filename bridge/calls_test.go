package bridge_test

import (
	"testing"

	"drawbridge/bridge"
)

// Calls for a turn are told at once; those of a look at its end, if it found something new.
func TestCallsTell(t *testing.T) {
	t.Parallel()
	told := 0
	tell := func() { told++ }
	expect := func(what string, want int) {
		t.Helper()
		if told != want {
			t.Errorf("%s: %d told, want %d", what, told, want)
		}
		told = 0
	}
	none := bridge.CallsOf(t.Context())
	none.Tell(tell)
	expect("no calls", 1)
	ctx := bridge.CallsFor(t.Context(), "trn_1")
	if c := bridge.CallsOf(ctx); c.Turn != "trn_1" {
		t.Errorf("calls for %q", c.Turn)
	}
	bridge.CallsOf(ctx).Tell(tell)
	expect("calls for a turn", 1)

	look, end := bridge.LookFor(ctx, "trn_1")
	for range 1000 {
		bridge.CallsOf(look).Tell(tell)
	}
	expect("before the end of the look", 0)
	end(true)
	if told == 0 || told >= 1000 {
		t.Errorf("%d calls of a look are told, want some and not all", told)
	}
	told = 0
	end(true)
	expect("a second end", 0)
	bridge.CallsOf(look).Tell(tell)
	expect("after the end", 1)

	look, end = bridge.LookFor(ctx, "trn_1")
	bridge.CallsOf(look).Tell(tell)
	end(false)
	end(true)
	bridge.CallsOf(look).Tell(tell)
	expect("a look that found nothing new", 0)
}
