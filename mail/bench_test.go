package mail_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"drawbridge/bridge"
	"drawbridge/mail"
	"drawbridge/proof/pg"
	"drawbridge/proof/stores"
	"drawbridge/store"
)

// BenchmarkSend measures messages a second and their 99th percentile, from so
// many agents at once to as many others, on SQLite: with commits that wait for
// the disk (full) and such that do not (normal). On PostgreSQL every commit waits.
func BenchmarkSend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, mode := range []string{"full", "normal"} {
			b.Run(fmt.Sprintf("writers=%d/%s", writers, mode), func(b *testing.B) {
				benchSend(b, newFileWorld(b, mail.Options{PerPair: -1}), writers, mode == "normal")
			})
		}
		b.Run(fmt.Sprintf("postgres/writers=%d", writers), func(b *testing.B) {
			benchSend(b, newWorldAt(b, pg.Database(b), mail.Options{PerPair: -1}), writers, false)
		})
	}
}

func benchSend(b *testing.B, w *world, writers int, lazy bool) {
	w.root("hello", "boss")
	boss := w.id("boss")
	ids := make([]bridge.AgentID, 2*writers)
	w.update(func(tx *bridge.Scene) error {
		for i := range ids {
			ids[i] = bridge.AgentID(bridge.NewID("agt_"))
			if err := tx.InsertAgent(bridge.Agent{ID: ids[i], Name: fmt.Sprint("a", i), Parent: boss, Root: boss, External: fmt.Sprint("bc-", i), State: bridge.AgentDone}); err != nil {
				return err
			}
		}
		return nil
	})
	ctx := b.Context()
	if lazy {
		ctx = bridge.Forgettable(ctx)
	}
	var mu sync.Mutex // guards all
	var all []time.Duration
	used := processorTime(b)
	b.ResetTimer()
	var group errgroup.Group
	for n := range writers {
		group.Go(func() error {
			took, err := sendMany(ctx, w.mail, [2]bridge.AgentID{ids[2*n], ids[2*n+1]}, b.N/writers+1)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(len(all)), "cpu-µs/message")
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// processorTime is what this process has used of the processors. Unlike the
// time that passed it does not grow with what else runs on the machine.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func sendMany(ctx context.Context, post *mail.Service, pair [2]bridge.AgentID, n int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range n {
		start := time.Now()
		if _, err := post.Send(ctx, pair[0], mail.Draft{To: string(pair[1]), Text: "a message of some words", Sync: true}); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	return took, nil
}

// BenchmarkScale sends, fetches and lists on a database with a thousand messages
// and one with a million, by turns; "times" is how much slower the median of
// the large one is.
func BenchmarkScale(b *testing.B) {
	small, large := grown(b, 1_000), grown(b, 1_000_000)
	ops := map[string]func(*world, int) error{
		"send": func(w *world, n int) error {
			_, err := w.mail.Send(bridge.Forgettable(w.ctx), w.id("ann"), mail.Draft{To: "bob", Text: fmt.Sprint(n)})
			return err
		},
		"inbox": func(w *world, _ int) error {
			_, err := w.mail.Inbox(bridge.Forgettable(w.ctx), w.id("bob"))
			return err
		},
		"messages": func(w *world, _ int) error {
			_, err := w.mail.PeekAgent(w.ctx, string(stores.GrownAgent(7)), "", 10)
			return err
		},
		"channel": func(w *world, _ int) error {
			return w.store.View(w.ctx, func(tx *bridge.Scene) error {
				_, err := tx.Messages(bridge.MessageFilter{Conversation: stores.GrownChannel, Limit: 10})
				return err
			})
		},
	}
	for name, op := range ops {
		b.Run(name, func(b *testing.B) {
			var few, many []time.Duration
			for n := 0; b.Loop(); n++ {
				few, many = append(few, timed(b, small, n, op)), append(many, timed(b, large, n, op))
			}
			slices.Sort(few)
			slices.Sort(many)
			onSmall, onLarge := few[len(few)/2], many[len(many)/2]
			b.ReportMetric(float64(onSmall.Microseconds()), "µs-1e3")
			b.ReportMetric(float64(onLarge.Microseconds()), "µs-1e6")
			b.ReportMetric(onLarge.Seconds()/onSmall.Seconds(), "times")
		})
	}
}

func timed(b *testing.B, w *world, n int, op func(*world, int) error) time.Duration {
	start := time.Now()
	if err := op(w, n); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func grown(b *testing.B, n int) *world {
	b.Helper()
	w := newFileWorld(b, mail.Options{PerPair: -1})
	w.team("ann", "bob")
	if err := stores.Grow(b.Context(), w.store.(*store.Store), n); err != nil {
		b.Fatal(err)
	}
	return w
}
