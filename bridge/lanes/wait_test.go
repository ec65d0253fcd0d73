package lanes_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"drawbridge/bridge/lanes"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	const base, limit = time.Second, time.Minute
	for attempt := -3; attempt < 200; attempt++ {
		middle := limit
		if attempt <= 6 {
			middle = base << max(attempt-1, 0)
		}
		for range 20 {
			if got := lanes.Backoff(rand.Float64, attempt, base, limit); got < middle*9/10 || got > middle*11/10 {
				t.Fatalf("attempt %d waits %s, want %s within a tenth", attempt, got, middle)
			}
		}
	}
	if got := lanes.Backoff(rand.Float64, 1<<62, time.Hour, time.Minute); got > 66*time.Second || got <= 0 {
		t.Errorf("a base over the limit waits %s", got)
	}
	if got := lanes.Backoff(rand.Float64, 21, 1<<61, 1<<62); got <= 0 {
		t.Errorf("an overflow waits %s", got)
	}
}
