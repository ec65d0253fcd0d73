package hub_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/proof/pg"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
	"drawbridge/store"
)

// BenchmarkAction is a granted action from the hub's door to its outcome: signed, over a WebSocket on loopback, verified, in
// the journal and in the audit log on the disk, run as a process, and back. The bridge's store is SQLite.
func BenchmarkAction(b *testing.B) {
	dir := b.TempDir()
	benchmarkAction(b, filepath.Join(dir, "drawbridge.db"), realRunner(b, dir, "{ t: { argv: [/bin/true] } }"))
}

// BenchmarkActionPostgres is BenchmarkAction with the bridge's store on PostgreSQL.
func BenchmarkActionPostgres(b *testing.B) {
	benchmarkAction(b, pg.Database(b), realRunner(b, b.TempDir(), "{ t: { argv: [/bin/true] } }"))
}

// BenchmarkConnection is the same without what the relay does for it: signature, two frames and two look-ups.
func BenchmarkConnection(b *testing.B) {
	benchmarkAction(b, filepath.Join(b.TempDir(), "drawbridge.db"), newDiary("t"))
}

// BenchmarkConnectionPostgres is BenchmarkConnection with the bridge's store on PostgreSQL.
func BenchmarkConnectionPostgres(b *testing.B) {
	benchmarkAction(b, pg.Database(b), newDiary("t"))
}

// BenchmarkLargeOutput is BenchmarkConnection with an output of 512 KiB, which comes in chunks.
func BenchmarkLargeOutput(b *testing.B) {
	d := newDiary("t")
	text := strings.Repeat("0123456789abcde\n", bridge.MaxOutput/16)
	d.set("t", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
		return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted, Stdout: text}}
	})
	b.SetBytes(int64(len(text)))
	benchmarkAction(b, filepath.Join(b.TempDir(), "drawbridge.db"), d)
}

func benchmarkAction(b *testing.B, database string, relay wire.Handler) {
	b.Helper()
	db, err := store.Open(b.Context(), database)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	// No bridge asks a relay as often as a benchmark does. By the clock that both share, 10 ms go by with each look, so that what
	// the relay keeps in mind against replay ends in time, and the times of signing do not run ahead.
	var looks atomic.Int64
	began := time.Now()
	clock := func() time.Time { return began.Add(time.Duration(looks.Add(1)) * 10 * time.Millisecond) }
	s := siteOn(b, memstore.NewDisk(), func(o *hub.Options) { o.Store, o.Now = db, clock })
	defer s.stop()
	defer connect(b, joined(b, s, "laptop"), relay, func(o *link.Options) { o.Now = clock })()
	s.online(b, "laptop")
	n := 0
	var took []time.Duration
	for b.Loop() {
		n++
		request := ask(b, "t", "laptop", fmt.Sprintf("op-%d", n))
		began := time.Now()
		out, err := s.RunAction(b.Context(), request)
		took = append(took, time.Since(began))
		if err != nil || out.Status != bridge.ActionExecuted {
			b.Fatal(out, err)
		}
	}
	slices.Sort(took)
	for _, p := range []int{50, 95, 99} {
		b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("ms-p%d", p))
	}
}

// realRunner is what a relay has behind its connection, with all that it writes on the disk. By its clock a minute goes by
// with each look, so that no rate is used up.
func realRunner(b *testing.B, dir, actions string) *runner.Relay {
	b.Helper()
	path := filepath.Join(dir, "relay.yaml")
	if err := os.WriteFile(path, []byte("listen: none\nlimits: { per_minute: 600, per_day: 50000 }\nactions: "+actions+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	config, err := settings.Load(path, os.LookupEnv)
	if err != nil {
		b.Fatal(err)
	}
	log, err := audit.Open(filepath.Join(dir, "audit"), time.Now, nil)
	if err != nil {
		b.Fatal(err)
	}
	journal, err := runner.OpenJournal(config.Journal, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	pool, err := keeper.NewPool(true)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		pool.Close()
		for _, file := range []interface{ Close() error }{journal, log} {
			if err := file.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	now := time.Now()
	r, err := runner.Listen(b.Context(), runner.Options{Config: config, Executor: pool, Audit: log, Journal: journal, Now: func() time.Time { now = now.Add(time.Minute); return now }})
	if err != nil {
		b.Fatal(err)
	}
	return r
}
