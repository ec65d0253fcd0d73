package store_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// TestNewerSchemaIsRefused: a program that is rolled back without its database
// must not write what the newer one cannot read.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]struct{ driver, database string }{
		"sqlite":   {"sqlite", filepath.Join(t.TempDir(), "newer.db")},
		"postgres": {"pgx", pg.Database(t)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := store.CheckSchema(t.Context(), place.database); err != nil {
				t.Errorf("nothing there yet: %v", err)
			}
			s := open(t, place.database)
			if err := store.CheckSchema(t.Context(), place.database); err != nil {
				t.Errorf("while it is served: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(place.driver, place.database)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s, err = store.Open(t.Context(), place.database)
			for what, err := range map[string]error{"open": err, "check": store.CheckSchema(t.Context(), place.database)} {
				if bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "newer drawbridge: its schema is version 99999") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if s != nil {
				t.Fatal("opened", s.Close())
			}
		})
	}
}

func TestCheckSchemaOfNoDatabase(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]bridge.ErrorKind{text: bridge.Invalid, filepath.Dir(text): bridge.Invalid,
		"postgres://user:hunter2hunter2@127.0.0.1:1/db?connect_timeout=1": bridge.Unavailable, "postgres://user:hunter2hunter2@127.0.0.1:notaport/db": bridge.Invalid} {
		if err := store.CheckSchema(t.Context(), path); bridge.KindOf(err) != kind || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestLockGoesWithCopies guards against a store that stays locked after its
// Close, because a child that another goroutine was just starting held a copy of
// the lock's descriptor.
func TestLockGoesWithCopies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s := open(t, path)
	child := exec.Command("cat") //nolint:noctx // ended below
	child.ExtraFiles = []*os.File{s.Lock()}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
