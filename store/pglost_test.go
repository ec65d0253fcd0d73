package store_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/proof/pgproxy"
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
				if bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), "Look whether this was recorded") {
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
