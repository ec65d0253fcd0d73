//go:build deep

package pgproxy_test

import (
	"testing"
	"time"
)

// TestRoundTripTakesTheDelay: no answer is faster than the delay of both directions, and a batch waits for it once. The upper
// bound leaves a busy machine ten times the delay.
func TestRoundTripTakesTheDelay(t *testing.T) {
	t.Parallel()
	p, c := through(t)
	if err := one(t.Context(), c, "SELECT $1::int", 1); err != nil {
		t.Fatal(err)
	}
	for _, trip := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 300 * time.Millisecond} {
		p.Delay(trip/2, trip/2)
		fastest := time.Hour
		for range 5 {
			began := time.Now()
			if err := batch(t.Context(), c, 10); err != nil {
				t.Fatal(err)
			}
			fastest = min(fastest, time.Since(began))
		}
		t.Logf("a batch of 10 at %s took %s", trip, fastest)
		if fastest < trip || trip > 100*time.Millisecond && fastest > 10*trip {
			t.Errorf("a batch of 10 at %s took %s", trip, fastest)
		}
	}
}
