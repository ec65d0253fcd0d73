package simulation_test

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

	"drawbridge/bridge/simulation"
	"drawbridge/bridge/simulation/coverage"
	"drawbridge/bridge/simulation/fault"
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
		t.Errorf("%s\nplay it again: go test ./bridge/simulation -run TestSeeds -sim.seeds=1 -sim.start=%d", r, r.Seed)
	}
	if len(failed) > 0 {
		again := simulation.Run(t.Context(), failed[0].Seed, simulation.Config{Trace: true})
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
func playAll(ctx context.Context, first, n uint64) (total coverage.Coverage, failed []simulation.Report) {
	var mu sync.Mutex // guards total and failed
	var next atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var mine coverage.Coverage
			for i := next.Add(1) - 1; i < n && ctx.Err() == nil; i = next.Add(1) - 1 {
				r := simulation.Run(ctx, first+i, simulation.Config{})
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
	slices.SortFunc(failed, func(a, b simulation.Report) int { return cmp.Compare(a.Seed, b.Seed) })
	return total, failed
}

// TestReplay: a seed plays the same play every time, to the last line.
func TestReplay(t *testing.T) {
	t.Parallel()
	seen := map[uint64]uint64{}
	for seed := range uint64(50) {
		first := simulation.Run(t.Context(), seed, simulation.Config{Trace: true})
		again := simulation.Run(t.Context(), seed, simulation.Config{Trace: true})
		if diff := gocmp.Diff(first, again); diff != "" {
			t.Fatalf("seed %d played twice (-first +again):\n%s", seed, diff)
		}
		if quiet := simulation.Run(t.Context(), seed, simulation.Config{}); quiet.Hash != first.Hash {
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
	var total coverage.Coverage
	for seed := range uint64(300) {
		r := simulation.Run(t.Context(), seed, simulation.Config{Calm: true})
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
	if n := total.Edges[coverage.Edge{Noun: "command", From: "finished", To: "reported"}]; n < 300 {
		t.Errorf("only %d commands of 300 plays were reported", n)
	}
}

// TestMissing: what was never reached is named.
func TestMissing(t *testing.T) {
	t.Parallel()
	var c coverage.Coverage
	c.Add(coverage.Coverage{})
	all := c.Missing()
	if want := len(fault.All) + 30; len(all) < want {
		t.Fatalf("%d things are missing from nothing, want at least %d", len(all), want)
	}
	for _, f := range fault.All {
		c.Faults[f] = 1
	}
	c.Edges[coverage.Edge{Noun: "turn", From: "queued", To: "delivering"}] = 1
	if n := len(c.Missing()); n != len(all)-len(fault.All)-1 {
		t.Errorf("%d things are missing, want %d", n, len(all)-len(fault.All)-1)
	}
}

// TestCutOff: a play whose context ends says so instead of passing.
func TestCutOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := simulation.Run(ctx, 1, simulation.Config{}); len(r.Failures) == 0 {
		t.Error("a play that was cut off has no failure")
	}
}
