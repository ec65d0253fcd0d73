package simulation_test

import (
	"cmp"
	"context"
	"flag"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drawbridge/bridge/simulation"
)

var (
	seeds = flag.Uint64("sim.seeds", 10_000, "how many seeds to play")
	start = flag.Uint64("sim.start", 1, "the first seed")
)

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
func playAll(ctx context.Context, first, n uint64) (total simulation.Coverage, failed []simulation.Report) {
	var mu sync.Mutex // guards total and failed
	var next atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var mine simulation.Coverage
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
