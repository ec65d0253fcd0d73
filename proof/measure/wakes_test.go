//go:build deep

package measure_test

import (
	"testing"
	"time"
)

// TestWakesOfReplicas: three replicas that work wake each other now and then, not once for each commit, and what they claim besides
// grows with the work and with the wake-ups alone. The bounds grow with the time that the turns took, so that a slow machine passes.
func TestWakesOfReplicas(t *testing.T) {
	t.Parallel()
	const replicas, turns = 3, 60
	// pause is the least time between two wake-ups of one replica; two more may go out, at the beginning and for what came last.
	const pause, more = 50 * time.Millisecond, 2
	// own is how many claims a turn a replica makes for its own work: its turn's steps come back to the lane a few times.
	const own = 8
	f := newFleet(t, setting{0, replicas, 8})
	round := f.play(t, turns)
	most := replicas * (int(round.took/pause) + more)
	if n := round.wire.Notifies; n == 0 || n > most {
		t.Errorf("%d wake-ups were sent in %s; want 1 to %d", n, round.took, most)
	}
	if n, most := round.claims*turns, turns*own+round.heard*turns+replicas; n > most {
		t.Errorf("work was claimed %.0f times for %d turns and %.0f wake-ups; at most %.0f", n, turns, round.heard*turns, most)
	}
	t.Logf("a turn: %.2f claims, %.2f wake-ups sent, %.2f received", round.claims, float64(round.wire.Notifies)/turns, round.heard)
}
