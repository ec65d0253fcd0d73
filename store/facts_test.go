package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"

	"drawbridge/proof/pg"
)

// eachDatabase runs test on a fresh database of each kind; edit changes it from outside of a store.
func eachDatabase(t *testing.T, test func(t *testing.T, database string, edit func(...string))) {
	t.Helper()
	for name, place := range map[string]struct{ driver, database string }{
		"sqlite":   {"sqlite", filepath.Join(t.TempDir(), "facts.db")},
		"postgres": {"pgx", pg.Database(t)},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, place.database, func(statements ...string) {
				t.Helper()
				db, err := sql.Open(place.driver, place.database)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range statements {
					if _, err := db.ExecContext(t.Context(), s); err != nil {
						t.Fatalf("%s: %v", s, err)
					}
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestSwapFact(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, database string, _ func(...string)) {
		s := open(t, database)
		for _, step := range []struct {
			value string
			from  []string
			want  string
		}{{"a", nil, "a"}, {"a", nil, "a"}, {"b", nil, "a"}, {"b", []string{"c"}, "a"}, {"b", []string{"c", "a"}, "b"}, {"a", nil, "b"}} {
			if got, err := s.SwapFact(t.Context(), "color", step.value, step.from...); err != nil || got != step.want {
				t.Errorf("swap to %s from %v: %s stands, %v; want %s", step.value, step.from, got, err, step.want)
			}
		}
	})
}

// TestSwapFactAtOnce: replicas that start at one moment on a new database agree on its first fact, and none fails.
func TestSwapFactAtOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, database string, _ func(...string)) {
		s := open(t, database)
		for round := range 20 {
			name := fmt.Sprintf("color-%d", round)
			var all errgroup.Group
			var stands [8]string
			for i := range stands {
				all.Go(func() (err error) {
					stands[i], err = s.SwapFact(t.Context(), name, strconv.Itoa(i))
					return err
				})
			}
			if err := all.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := slices.Compact(stands[:]); len(got) != 1 {
				t.Fatalf("they found %q", stands)
			}
		}
	})
}
