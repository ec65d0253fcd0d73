package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
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

func closed(t *testing.T, database string) {
	t.Helper()
	s, err := store.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEditedMigrationIsRefused: two programs that mean different schemas by one version must not share a database.
func TestEditedMigrationIsRefused(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, database string, edit func(...string)) {
		closed(t, database)
		closed(t, database)
		edit("UPDATE schema_sums SET sum = 'edited' WHERE version = 4")
		s, err := store.Open(t.Context(), database)
		for what, err := range map[string]error{"open": err, "check": store.CheckSchema(t.Context(), database)} {
			if bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "00004_mail.sql of this program is not the one that the database was made with") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if s != nil {
			t.Fatal("opened", s.Close())
		}
	})
}

// TestOldDatabaseGetsItsDigests: a database of a program that knew no digests gets those of the release, and is
// refused when the program's own migration is not the released one.
func TestOldDatabaseGetsItsDigests(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, database string, edit func(...string)) {
		closed(t, database)
		edit("DELETE FROM schema_sums")
		closed(t, database) // it fills in what is missing
		edit("UPDATE schema_sums SET sum = 'edited' WHERE version = 12")
		if s, err := store.Open(t.Context(), database); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("open: %v, and the digest of version 12 was not filled in", err)
			if s != nil {
				t.Fatal(s.Close())
			}
		}
		edit("UPDATE schema_sums SET sum = '' WHERE version = 12", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (19999, true)")
		if err := store.CheckSchema(t.Context(), database); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("a migration that this program does not know: %v", err)
		}
	})
}

// TestReleasedMigrationsAreNotEdited compares the files with released.txt. A change of the schema belongs into a new migration.
func TestReleasedMigrationsAreNotEdited(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"sqlite", "postgres"} {
		edited, n := store.EditedMigrations(t, dialect)
		if len(edited) > 0 || n < 12 {
			t.Errorf("%s: of %d released migrations these were edited: %v", dialect, n, edited)
		}
	}
	if err := store.Unedited(map[int64]string{1: ""}, "as released", "as edited"); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("an edited file and a database without digests: %v", err)
	}
	if err := store.Unedited(map[int64]string{1: ""}, "as released", "as released"); err != nil {
		t.Error(err)
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
