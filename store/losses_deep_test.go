//go:build deep

package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/proof/pgproxy"
	"drawbridge/store"
)

// TestPostgresLosesACommit: a COMMIT that the server never saw, or whose answer did not come, is an error that says to look. The step
// does not run again by itself, what the server has is all of it or nothing, and the next step finds a connection that works.
func TestPostgresLosesACommit(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("recorded %t", recorded), func(t *testing.T) {
			t.Parallel()
			p, err := pgproxy.Start(pg.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			s := open(t, p.URL()+"&pool_max_conns=2")
			insertTree(t, s, "agt_1")
			want := 0
			deepen := func(tx *bridge.Scene) error {
				a, err := tx.Agent("agt_1")
				if err != nil {
					return err
				}
				a.Depth++
				return tx.UpdateAgent(a)
			}
			for range 4 { // more often than the pool has connections, each for the first time and once more
				p.LoseCommit(1, recorded)
				err := s.Update(t.Context(), deepen)
				if bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), "Check whether this change was recorded") {
					t.Fatalf("a step whose commit was lost: %v", err)
				}
				if recorded {
					want++
				}
				must(t, s.Update(t.Context(), deepen))
				want++
			}
			if p.Lost() != 4 {
				t.Errorf("%d commits were lost; want 4", p.Lost())
			}
			must(t, s.View(t.Context(), func(tx *bridge.Scene) error {
				a, err := tx.Agent("agt_1")
				if err == nil && a.Depth != want {
					t.Errorf("%d steps are recorded; want %d", a.Depth, want)
				}
				return err
			}))
		})
	}
}

// TestPostgresStepsOverTrees: steps that write in two trees each, in any order, all come to an end and lose nothing, and the work
// that they enqueue in the same lanes in any order is there.
func TestPostgresStepsOverTrees(t *testing.T) {
	t.Parallel()
	const trees, workers, each = 4, 8, 12
	address := pg.Database(t)
	stores := []*store.Store{open(t, address), open(t, address)}
	for i := range trees {
		insertTree(t, stores[0], treeAt(i))
	}
	done := make(chan error, workers)
	for w := range workers {
		go func() {
			var all []error
			for range each {
				all = append(all, deepenTwo(t, stores[w%2], rand.IntN(trees), rand.IntN(trees)))
			}
			done <- errors.Join(all...)
		}()
	}
	for range workers {
		must(t, <-done)
	}
	must(t, stores[0].View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{Limit: trees})
		sum := 0
		for _, a := range all {
			sum += a.Depth
		}
		if sum != 2*workers*each {
			t.Errorf("%d of %d updates are there", sum, 2*workers*each)
		}
		return err
	}))
}

// TestPostgresSessionEndsWithinAStep: the step is not recorded and says so, its locks are free, and the next ones find a
// connection that works; nor does a step that panics keep anything.
func TestPostgresSessionEndsWithinAStep(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	s := open(t, address)
	insertTree(t, s, "agt_1")
	deepen := func(meanwhile func()) error {
		return s.Update(t.Context(), func(tx *bridge.Scene) error {
			a, err := tx.Agent("agt_1")
			if err != nil {
				return err
			}
			meanwhile()
			a.Depth++
			return tx.UpdateAgent(a)
		})
	}
	cut := func() {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		must(t, errors.Join(err, conn.Close(t.Context())))
	}
	for range 5 {
		if err := deepen(cut); bridge.KindOf(err) != bridge.Unavailable {
			t.Errorf("a step whose session ended: %v", err)
		}
		if err := deepen(func() { panic("oh") }); err == nil {
			t.Error("a step that panicked was recorded")
		}
	}
	must(t, deepen(func() {}))
	must(t, s.View(t.Context(), deepIs1))
}

// TestReaderOfAnotherProgram: work goes on beside it, up to a bound, and the log shrinks when it ends.
func TestReaderOfAnotherProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path)
	if err := s.Update(t.Context(), insertAgent(0)); err != nil {
		t.Fatal(err)
	}
	shell, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	reader, err := shell.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM agents").Scan(&n); err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		if err := s.Update(t.Context(), large(n+1, 1<<20)); err != nil {
			t.Fatalf("update %d beside a reader: %v", n, err)
		}
	}
	if size := logFile(t, path); size < 8<<20 {
		t.Fatalf("the log has %d bytes: the reader is not in the way", size)
	}
	if err := s.Update(t.Context(), large(20, 60<<20)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Update(t.Context(), insertAgent(21)); bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), "another program does not stop reading the database") {
			t.Errorf("beyond the bound: %v", err)
		}
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := s.Update(t.Context(), insertAgent(30+n)); err != nil {
			t.Errorf("after the reader has ended: %v", err)
		}
	}
	if size := logFile(t, path); size > 1<<20 {
		t.Errorf("the log still has %d bytes", size)
	}
}
