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
	"drawbridge/parser"
	"drawbridge/store"
)

var benchTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type updateFunc func(context.Context, func(bridge.Tx) error) error

// BenchmarkUpdate measures what sharing commits is worth: rows a second with
// group commit, and how many times that is of one transaction each. The rounds
// alternate on one file and the median counts, because the disk is others' too.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "drawbridge.db"))
			var one sync.Mutex
			alone := func(ctx context.Context, fn func(bridge.Tx) error) error {
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
				if err := update(b.Context(), func(tx bridge.Tx) error {
					_, err := tx.AppendEvent(bridge.Event{At: benchTime, Kind: bridge.EventTurn, Text: "what happened"})
					return err
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

// BenchmarkGrowth measures the hot look-ups on 1e3 and 1e5 rows of each kind;
// "times" is how much slower the large store is.
func BenchmarkGrowth(b *testing.B) {
	small, large := open(b, filepath.Join(b.TempDir(), "small.db")), open(b, filepath.Join(b.TempDir(), "large.db"))
	grow(b, small, 1_000)
	grow(b, large, 100_000)
	ops := map[string]func(*testing.B, *store.Store){
		"claim":    claimAndPutBack,
		"next-due": viewing(func(tx bridge.Tx) error { return last(tx.NextDue(benchTime)) }),
		"turns": viewing(func(tx bridge.Tx) error {
			return last(tx.Turns(bridge.TurnFilter{Agent: "agt_000001", Limit: 20}))
		}),
		"open-turn": viewing(func(tx bridge.Tx) error { return last(tx.OpenTurn("agt_000001")) }),
		"caps": viewing(func(tx bridge.Tx) error {
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
			b.ReportMetric(float64(onLarge.Microseconds())/float64(b.N), "µs-1e5")
			b.ReportMetric(onLarge.Seconds()/onSmall.Seconds(), "times")
		})
	}
}

func viewing(fn func(bridge.Tx) error) func(*testing.B, *store.Store) {
	return func(b *testing.B, s *store.Store) {
		if err := s.View(b.Context(), fn); err != nil {
			b.Fatal(err)
		}
	}
}

func claimAndPutBack(b *testing.B, s *store.Store) {
	if err := s.Update(b.Context(), func(tx bridge.Tx) error {
		works, err := tx.ClaimWork(bridge.Claim{Now: benchTime, Lease: time.Minute, Limit: 4})
		if err != nil || len(works) != 4 {
			return fmt.Errorf("claimed %d, want 4: %w", len(works), err)
		}
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

// grow fills a store as it looks after n turns: 50 turns an agent, of which the
// last is open, half of the work waiting in one long lane, and the rest in
// lanes of their own of which ten are due.
func grow(t testing.TB, s *store.Store, n int) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		if err := s.Update(t.Context(), func(tx bridge.Tx) error {
			for i := from; i < min(from+1000, n); i++ {
				if err := growOne(tx, i); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func growOne(tx bridge.Tx, i int) error {
	agent := plainAgent(1 + i/50)
	if i%50 == 0 {
		agent.State, agent.Parent, agent.External = bridge.AgentDone, "agt_parent", fmt.Sprint("bc-", i)
		if err := tx.InsertAgent(agent); err != nil {
			return err
		}
	}
	state, turn := bridge.TurnReplied, bridge.TurnID(fmt.Sprintf("trn_%06d", i))
	if i%50 == 49 {
		state = bridge.TurnQueued
	}
	if _, err := tx.InsertTurn(bridge.Turn{ID: turn, Agent: agent.ID, State: state, Text: "a prompt of some words", Reply: "a reply of some more words"}); err != nil {
		return err
	}
	m := bridge.Command{ID: bridge.CommandID(fmt.Sprintf("cmd_%06d", i)), Turn: turn, Agent: agent.ID, Parsed: parser.Command{Verb: parser.Subagent},
		OpKey: fmt.Sprint(i), State: bridge.CommandReported, Child: "agt_child", UpdatedAt: benchTime.Add(-time.Duration(i) * time.Minute)}
	if err := tx.InsertCommand(m); err != nil {
		return err
	}
	if err := tx.InsertNotice(bridge.Notice{ID: bridge.NoticeID(fmt.Sprintf("ntc_%06d", i)), Agent: agent.ID, Turn: turn}); err != nil {
		return err
	}
	w := bridge.Work{Lane: "long", Kind: bridge.WorkTurn, Ref: string(turn), Due: benchTime.Add(-time.Hour)}
	if i%2 == 0 {
		w.Lane, w.Due = fmt.Sprint("lane/", i), benchTime.Add(time.Hour)
		if i < 20 {
			w.Due = benchTime
		}
	}
	return tx.Enqueue(w)
}
