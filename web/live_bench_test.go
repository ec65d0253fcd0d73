package web_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/internal/pause"
	"drawbridge/store"
)

// atWork is a bridge in SQLite with so many agents, whose page somebody can open.
func atWork(b *testing.B, agents int) *world {
	b.Helper()
	db, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "drawbridge.db"))
	if err != nil {
		b.Fatal(err)
	}
	runtime := &cloud{runs: map[string]string{}, reply: func(text string) string {
		if _, what, asks := strings.Cut(text, "ask "); asks {
			return "SUBAGENT: repo=github.com/me/careful, prompt=Look at " + strings.Fields(what)[0]
		}
		return "Done."
	}}
	w := benchWorld(b, db, runtime)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.engine.Run(ctx) })
	b.Cleanup(func() { cancel(); running.Wait(); db.Close() })
	for n := range agents {
		if _, err := w.client.Launch(owner(b.Context()), api.LaunchRequest{Repo: "github.com/me/agent-env", Prompt: "begin", Name: fmt.Sprintf("agent-%d", n)}); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// BenchmarkSeen is how long it takes from what an agent asks to its row on an open page, while 64 agents get a turn each second, for 20 seconds. Each
// tenth turn asks.
func BenchmarkSeen(b *testing.B) {
	const agents, span = 64, 20 * time.Second
	for b.Loop() {
		w := atWork(b, agents)
		ctx, cancel := context.WithCancel(owner(b.Context()))
		r := w.listen("")
		var all sync.WaitGroup
		for n := range agents {
			all.Go(func() {
				for i := 0; pause.For(ctx, time.Second) == nil; i++ {
					text := "work"
					if (i+n)%10 == 0 {
						text = fmt.Sprintf("ask %d-%d", n, i)
					}
					if _, err := w.client.Say(ctx, fmt.Sprintf("agent-%d", n), text); err != nil && ctx.Err() == nil {
						b.Error(err)
					}
				}
			})
		}
		var took []time.Duration
		seen := map[string]bool{}
		for began := time.Now(); time.Since(began) < span; {
			n := r.next(b)
			at := time.Now()
			list, err := w.client.Needs(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for _, i := range n.Items {
				if where := slices.IndexFunc(list.Needs, func(d api.Need) bool { return d.Key == i.Key }); where >= 0 && !seen[i.Key] {
					seen[i.Key] = true
					took = append(took, at.Sub(list.Needs[where].Since))
					if _, err := w.client.Deny(ctx, i.Key, ""); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		cancel()
		r.end()
		all.Wait()
		slices.Sort(took)
		b.ReportMetric(float64(len(took)), "asks")
		b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms-p50")
		b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "ms-p99")
	}
}

// BenchmarkIdlePage is the processor time that open pages cost while nothing happens, of 64 agents without work.
func BenchmarkIdlePage(b *testing.B) {
	const span = 30 * time.Second
	for b.Loop() {
		w := atWork(b, 64)
		_ = pause.For(b.Context(), 5*time.Second) // the launches end
		used := func() time.Duration {
			var u syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
			return time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		cost := func() time.Duration {
			before := used()
			_ = pause.For(b.Context(), span)
			return used() - before
		}
		closed := cost()
		var open []reader
		for range 4 {
			r := w.listen("")
			go func() { _, _ = io.Copy(io.Discard, r.lines) }()
			open = append(open, r)
		}
		_ = pause.For(b.Context(), time.Second)
		with := cost()
		for _, r := range open {
			r.end()
		}
		perMinute := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 * float64(time.Minute/span) }
		b.ReportMetric(perMinute(closed), "ms/min-without")
		b.ReportMetric(perMinute(with-closed)/4, "ms/min-a-page")
	}
}
