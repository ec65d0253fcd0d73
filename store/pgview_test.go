package store_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// TestPostgresHintedViewIsOneSnapshot: a view that looks at more than its hints name sees all of it as it was at one moment.
func TestPostgresHintedViewIsOneSnapshot(t *testing.T) {
	t.Parallel()
	s := open(t, pg.Database(t))
	for _, id := range []bridge.AgentID{"agt_1", "agt_2"} {
		insertTree(t, s, id)
	}
	var depths [2]int
	runs := 0
	must(t, s.View(t.Context(), func(tx *bridge.Scene) error {
		runs++
		for i, id := range []bridge.AgentID{"agt_1", "agt_2"} {
			a, err := tx.Agent(id)
			if err != nil {
				return err
			}
			if depths[i] = a.Depth; i == 0 {
				must(t, deepenBoth(t, s))
			}
		}
		return nil
	}, bridge.NeedAgent{ID: "agt_1"}))
	if depths[0] != depths[1] || runs != 2 {
		t.Errorf("after %d runs the view saw depths %v; both agents change together", runs, depths)
	}
	must(t, s.View(t.Context(), func(tx *bridge.Scene) error {
		if _, err := tx.Search(bridge.PassageQuery{Agent: "agt_1"}); err != nil {
			return err
		}
		_, err := tx.Agent("agt_1")
		return err
	}, bridge.NeedAgent{ID: "agt_1"}))
}

func deepenBoth(t *testing.T, s bridge.Store) error {
	t.Helper()
	return s.Update(t.Context(), func(tx *bridge.Scene) error {
		for _, id := range []bridge.AgentID{"agt_1", "agt_2"} {
			a, err := tx.Agent(id)
			if err != nil {
				return err
			}
			a.Depth++
			if err := tx.UpdateAgent(a); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestAGuessThatPanicsDoesNotCount: a step that cannot go on from a guess runs again with the rows.
func TestAGuessThatPanicsDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*store.Store{"postgres": open(t, pg.Database(t)), "sqlite": open(t, t.TempDir()+"/store.db")} {
		insertTree(t, s, "agt_1")
		var seen int
		err := s.Update(t.Context(), func(tx *bridge.Scene) error {
			all, err := tx.Agents(bridge.AgentFilter{Root: "agt_1", Limit: 5})
			if err != nil {
				return err
			}
			seen = len(all)
			_ = all[0]
			return nil
		})
		if err != nil || seen != 1 {
			t.Errorf("%s: %d agents, %v", name, seen, err)
		}
	}
}

// TestPostgresClaimKeepsItsLimit: PostgreSQL may run a subquery in IN once a row, and each run locks other rows. The planner does so for
// some statistics; here it cannot do otherwise.
func TestPostgresClaimKeepsItsLimit(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(pg.Database(t))
	must(t, err)
	settings := at.Query()
	for _, way := range []string{"enable_hashjoin", "enable_mergejoin", "enable_hashagg", "enable_sort", "enable_material", "enable_memoize"} {
		settings.Set(way, "off")
	}
	at.RawQuery = settings.Encode()
	s, now := open(t, at.String()), time.Now()
	for n := range 6 {
		must(t, s.Update(t.Context(), func(tx *bridge.Scene) error {
			return tx.Enqueue(bridge.Work{Lane: fmt.Sprint("lane", n), Kind: bridge.WorkAction, Ref: "x", Due: now.Add(-time.Minute)})
		}))
	}
	for range 3 {
		if got, err := s.Claim(t.Context(), bridge.Claim{Now: now, Lease: time.Hour, Limit: 2}); err != nil || len(got) != 2 {
			t.Fatalf("claimed %d works, want 2: %v", len(got), err)
		}
	}
}
