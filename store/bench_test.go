package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
	"drawbridge/proof/stores"
	"drawbridge/store"
)

var benchTime = stores.GrownAt

type updateFunc func(context.Context, func(*bridge.Scene) error, ...bridge.Need) error

// BenchmarkUpdate measures what sharing commits is worth: rows a second with
// group commit, and how many times that is of one transaction each. The rounds
// alternate on one file and the median counts, because the disk is others' too.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "drawbridge.db"))
			var one sync.Mutex
			alone := func(ctx context.Context, fn func(*bridge.Scene) error, _ ...bridge.Need) error {
				one.Lock() // a commit of one's own
				defer one.Unlock()
				return s.Update(ctx, fn)
			}
			var shared, single []time.Duration // a row
			for b.Loop() {
				single = append(single, timed(b, alone, callers, 1)/time.Duration(callers))
				shared = append(shared, timed(b, s.Update, callers, 10)/time.Duration(10*callers))
			}
			slices.Sort(shared)
			slices.Sort(single)
			with, without := shared[b.N/2].Seconds(), single[b.N/2].Seconds()
			b.ReportMetric(1/with, "rows/s")
			b.ReportMetric(1/without, "rows/s-alone")
			b.ReportMetric(without/with, "times")
		})
	}
}

// timed lets callers insert rows side by side, one row an update.
func timed(b *testing.B, update updateFunc, callers, each int) time.Duration {
	start := time.Now()
	var all errgroup.Group
	for range callers {
		all.Go(func() error {
			for range each {
				if err := update(b.Context(), func(tx *bridge.Scene) error {
					return tx.AppendEvent(bridge.Event{At: benchTime, Kind: bridge.EventTurn, Text: "what happened"})
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// BenchmarkGrowth measures the hot look-ups on 1e3 and 1e6 rows of each kind;
// "times" is how much slower the large store is.
func BenchmarkGrowth(b *testing.B) {
	small, large := open(b, filepath.Join(b.TempDir(), "small.db")), open(b, filepath.Join(b.TempDir(), "large.db"))
	for s, n := range map[*store.Store]int{small: 1_000, large: 1_000_000} {
		if err := stores.Grow(b.Context(), s, n); err != nil {
			b.Fatal(err)
		}
	}
	ops := map[string]func(*testing.B, *store.Store){
		"claim": claimAndPutBack,
		"next-due": func(b *testing.B, s *store.Store) {
			if _, err := s.NextFor(b.Context(), bridge.Claim{Now: benchTime}); err != nil {
				b.Fatal(err)
			}
		},
		"turns": viewing(func(tx *bridge.Scene) error {
			return last(tx.Turns(bridge.TurnFilter{Agent: "agt_000001", Limit: 20}))
		}),
		"open-turn": viewing(func(tx *bridge.Scene) error { return last(tx.OpenTurn("agt_000001")) }),
		"caps": viewing(func(tx *bridge.Scene) error {
			if _, err := tx.CountLaunches(benchTime.Add(-time.Hour)); err != nil {
				return err
			}
			return last(tx.CountOpenSubagents(""))
		}),
	}
	for name, op := range ops {
		b.Run(name, func(b *testing.B) {
			var onSmall, onLarge time.Duration
			for b.Loop() {
				start := time.Now()
				op(b, small)
				middle := time.Now()
				op(b, large)
				onSmall += middle.Sub(start)
				onLarge += time.Since(middle)
			}
			b.ReportMetric(float64(onSmall.Microseconds())/float64(b.N), "µs-1e3")
			b.ReportMetric(float64(onLarge.Microseconds())/float64(b.N), "µs-1e6")
			b.ReportMetric(onLarge.Seconds()/onSmall.Seconds(), "times")
		})
	}
}

func viewing(fn func(*bridge.Scene) error) func(*testing.B, *store.Store) {
	return func(b *testing.B, s *store.Store) {
		if err := s.View(b.Context(), fn); err != nil {
			b.Fatal(err)
		}
	}
}

func claimAndPutBack(b *testing.B, s *store.Store) {
	works, err := s.Claim(b.Context(), bridge.Claim{Now: benchTime, Lease: time.Minute, Limit: 4})
	if err != nil || len(works) != 4 {
		b.Fatalf("claimed %d, want 4: %v", len(works), err)
	}
	if err := s.Update(b.Context(), func(tx *bridge.Scene) error {
		for _, w := range works {
			if err := tx.PutBack(w, benchTime); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}
