//go:build deep

package measure_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/proof/pg"
	"drawbridge/proof/pgproxy"
	"drawbridge/store"
)

// The bounds of one measurement: how many turns at most, for about how long, and how many turns a first round has, which
// tells the pace and fills the pools.
const (
	mostTurns  = 400
	pilotTurns = 16
	measureFor = 6 * time.Second
)

// setting is one case of the benchmark.
type setting struct {
	// trip is the round trip to PostgreSQL that the proxy makes; direct is without a proxy, inFile is SQLite.
	trip           time.Duration
	replicas, pool int
}

// Values of trip that stand for another place.
const (
	direct time.Duration = -1
	inFile time.Duration = -2
)

// String names the setting as the benchmark's case.
func (s setting) String() string {
	switch s.trip {
	case inFile:
		return "sqlite"
	case direct:
		return fmt.Sprintf("postgres/direct/replicas=%d/pool=%d", s.replicas, s.pool)
	}
	return fmt.Sprintf("postgres/%s/replicas=%d/pool=%d", s.trip, s.replicas, s.pool)
}

// figures are what one round measured.
type figures struct {
	turns int
	rate  float64
	took  time.Duration
	// engine and server are the processor time a turn of this process and of PostgreSQL.
	engine, server time.Duration
}

// BenchmarkThroughput measures finished turns a second. Agents are launched at once, each a tree of its own; each answers after
// 50 to 100 ms and asks for nothing. Every case has a database of its own. With -benchtime 3x the median of three rounds counts.
func BenchmarkThroughput(b *testing.B) {
	settings := []setting{{inFile, 1, 1}}
	for _, trip := range []time.Duration{direct, time.Millisecond, 5 * time.Millisecond} {
		for _, pool := range []int{64, 4} {
			settings = append(settings, setting{trip, 1, pool}, setting{trip, 3, pool})
		}
	}
	var base float64 // turns a second of the first setting
	for _, s := range settings {
		b.Run(s.String(), func(b *testing.B) {
			f := throughput(b, s)
			if base == 0 {
				base = f.rate
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(f.rate, "turns/s")
			b.ReportMetric(f.rate/base, "times-sqlite")
			b.ReportMetric(float64(f.engine.Microseconds())/1000, "cpu-ms/turn")
			b.ReportMetric(float64(f.server.Microseconds())/1000, "server-cpu-ms/turn")
		})
	}
}

// throughput plays rounds of one setting and returns the one with the median rate.
func throughput(b *testing.B, s setting) figures {
	f := newFleet(b, s)
	f.play(b, pilotTurns) // connects and prepares
	pilot := f.play(b, pilotTurns)
	turns := min(max(int(pilot.rate*measureFor.Seconds()), pilotTurns), mostTurns)
	var rounds []figures
	for b.Loop() {
		rounds = append(rounds, f.play(b, turns))
	}
	slices.SortFunc(rounds, func(x, y figures) int { return int(x.rate*1000) - int(y.rate*1000) })
	return rounds[len(rounds)/2]
}

// fleet is the replicas of one bridge, which share a database and a runtime.
type fleet struct {
	engines []*engine.Engine
	proxy   *pgproxy.Proxy
	// launched counts the agents, ended their replies.
	launched int
	ended    atomic.Int64
	progress chan struct{}
}

func newFleet(b testing.TB, s setting) *fleet {
	b.Helper()
	f := &fleet{progress: make(chan struct{}, 1)}
	database := filepath.Join(b.TempDir(), "turns.db")
	if s.trip != inFile {
		database = f.postgres(b, s)
	}
	runtime := newWorker()
	for range s.replicas {
		st := openStore(b, database)
		o := options(b)
		o.Store, o.Runtime, o.OnEvent = st, runtime, f.heard
		o.Streams = 2 * mostTurns // a run that is not followed would wait for the next poll
		e, _ := newEngine(b, o)
		f.engines = append(f.engines, e)
		run(b, e, st)
	}
	if s.trip > 0 {
		f.proxy.Delay(s.trip/2, s.trip/2)
		b.Cleanup(func() { f.proxy.Delay(0, 0) })
	}
	return f
}

// postgres makes a database and returns its address, with the pool's size and through the proxy where the setting has one.
func (f *fleet) postgres(b testing.TB, s setting) string {
	database := pg.Database(b)
	if s.trip >= 0 {
		var err error
		if f.proxy, err = pgproxy.Start(database); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = f.proxy.Close() })
		database = f.proxy.URL()
	}
	return withPool(database, s.pool)
}

// withPool is the address of a database where a replica uses so many connections.
func withPool(database string, size int) string {
	mark := "?"
	if strings.Contains(database, "?") {
		mark = "&"
	}
	return fmt.Sprintf("%s%spool_max_conns=%d", database, mark, size)
}

// run runs an engine until the benchmark ends, and wakes it when another replica recorded something.
func run(b testing.TB, e *engine.Engine, s *store.Store) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = s.Listen(ctx, e.Wake) })
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
}

func (f *fleet) heard(e bridge.Event) {
	if e.Kind != bridge.EventReply {
		return
	}
	f.ended.Add(1)
	select {
	case f.progress <- struct{}{}:
	default:
	}
}

// play launches so many agents at once, by turns at each replica, and returns when all of them have answered.
func (f *fleet) play(b testing.TB, turns int) figures {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	f.ended.Store(0)
	began, engine, server := time.Now(), processorTime(b), childrenTime(b)
	var launches errgroup.Group
	for i := range turns {
		f.launched++
		name := fmt.Sprint("agent-", f.launched)
		launches.Go(func() error {
			_, err := launch(ctx, f.engines[i%len(f.engines)], name, "Look at "+name)
			return err
		})
	}
	if err := launches.Wait(); err != nil {
		b.Fatal(err)
	}
	for f.ended.Load() < int64(turns) {
		select {
		case <-f.progress:
		case <-ctx.Done():
			b.Fatalf("%d of %d turns ended in time", f.ended.Load(), turns)
		}
	}
	took := time.Since(began)
	round := figures{turns: turns, took: took, rate: float64(turns) / took.Seconds()}
	round.engine, round.server = (processorTime(b)-engine)/time.Duration(turns), (childrenTime(b)-server)/time.Duration(turns)
	return round
}
