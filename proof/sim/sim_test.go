package sim_test

import (
	"cmp"
	"context"
	"flag"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"drawbridge/proof/sim"
)

var (
	seeds = flag.Uint64("sim.seeds", defaultSeeds, "how many seeds to play")
	start = flag.Uint64("sim.start", 1, "the first seed")
)

// A play leaves little behind and makes much garbage; collecting it rarely is a
// third of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	goleak.VerifyTestMain(m)
}

// TestSeeds plays every seed. The first that fails is played again, with a trace.
func TestSeeds(t *testing.T) {
	t.Parallel()
	total, failed := playAll(t.Context(), *start, *seeds)
	for _, r := range failed[:min(len(failed), 30)] {
		t.Errorf("%s\nplay it again: go test ./proof/sim -run TestSeeds -sim.seeds=1 -sim.start=%d", r, r.Seed)
	}
	if len(failed) > 0 {
		again := sim.Run(t.Context(), failed[0].Seed, sim.Config{Trace: true})
		t.Errorf("%d seeds failed; the first was\n%s", len(failed), strings.Join(again.Trace, "\n"))
	}
	t.Logf("%d seeds:\n%s", *seeds, total)
	if *seeds < 5000 {
		return // too few to reach everything
	}
	for _, missing := range total.Missing() {
		t.Error(missing)
	}
}

// playAll plays seeds on all processors and returns what they reached and those that failed.
func playAll(ctx context.Context, first, n uint64) (total sim.Coverage, failed []sim.Report) {
	var mu sync.Mutex // guards total and failed
	var next atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var mine sim.Coverage
			for i := next.Add(1) - 1; i < n && ctx.Err() == nil; i = next.Add(1) - 1 {
				r := sim.Run(ctx, first+i, sim.Config{})
				mine.Add(r.Coverage)
				if len(r.Failures) > 0 {
					mu.Lock()
					failed = append(failed, r)
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.Add(mine)
		})
	}
	all.Wait()
	slices.SortFunc(failed, func(a, b sim.Report) int { return cmp.Compare(a.Seed, b.Seed) })
	return total, failed
}

// TestReplay: a seed plays the same play every time, to the last line.
func TestReplay(t *testing.T) {
	t.Parallel()
	seen := map[uint64]uint64{}
	for seed := range uint64(50) {
		first := sim.Run(t.Context(), seed, sim.Config{Trace: true})
		again := sim.Run(t.Context(), seed, sim.Config{Trace: true})
		if diff := gocmp.Diff(first, again); diff != "" {
			t.Fatalf("seed %d played twice (-first +again):\n%s", seed, diff)
		}
		if quiet := sim.Run(t.Context(), seed, sim.Config{}); quiet.Hash != first.Hash {
			t.Errorf("seed %d has another hash without its trace", seed)
		}
		if len(first.Trace) < 5 {
			t.Errorf("seed %d: nothing happened", seed)
		}
		if other, twice := seen[first.Hash]; twice {
			t.Errorf("seeds %d and %d are one play", other, seed)
		}
		seen[first.Hash] = seed
	}
}

// TestCalm: without a fault every command that was granted is reported, and
// nothing is uncertain, failed or sent twice.
func TestCalm(t *testing.T) {
	t.Parallel()
	var total sim.Coverage
	for seed := range uint64(300) {
		r := sim.Run(t.Context(), seed, sim.Config{Calm: true})
		if len(r.Failures) > 0 {
			t.Error(r)
		}
		total.Add(r.Coverage)
	}
	for fault, n := range total.Faults {
		t.Errorf("%d times in calm plays: %s", n, fault)
	}
	for _, state := range []string{"uncertain", "failed"} {
		for edge, n := range total.Edges {
			if edge.To == state {
				t.Errorf("%d times in calm plays: %s", n, edge)
			}
		}
	}
	if n := total.Edges[sim.Edge{Noun: "command", From: "finished", To: "reported"}]; n < 300 {
		t.Errorf("only %d commands of 300 plays were reported", n)
	}
}

// TestCutOff: a play whose context ends says so instead of passing.
func TestCutOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := sim.Run(ctx, 1, sim.Config{}); len(r.Failures) == 0 {
		t.Error("a play that was cut off has no failure")
	}
}
