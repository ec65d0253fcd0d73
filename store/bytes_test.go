package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/proof/pg"
)

// TestMemoryBytesOfBefore: memory that an older version wrote counts with its bytes.
func TestMemoryBytesOfBefore(t *testing.T) {
	t.Parallel()
	for dialect, place := range map[string]struct{ driver, database string }{
		"sqlite": {"sqlite", filepath.Join(t.TempDir(), "old.db")}, "postgres": {"pgx", pg.Database(t)},
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			db, err := sql.Open(place.driver, place.database)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			text, err := os.ReadFile(filepath.Join("migrations", dialect, "00028_bounds.sql"))
			if err != nil {
				t.Fatal(err)
			}
			up, down, _ := strings.Cut(string(text), "-- +goose Down")
			for _, statement := range []string{
				"CREATE TABLE block_versions (agent TEXT NOT NULL, content TEXT NOT NULL)",
				"CREATE TABLE passages (agent TEXT NOT NULL, content TEXT NOT NULL, tags TEXT NOT NULL)",
				"CREATE TABLE files (sender TEXT NOT NULL, size BIGINT NOT NULL)",
				"CREATE TABLE conversations (creator TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL)",
				"INSERT INTO block_versions (agent, content) VALUES ('agt_1', 'ü'), ('agt_1', '12345'), ('agt_2', '')",
				`INSERT INTO passages (agent, content, tags) VALUES ('agt_1', '123', '["ä","\""]'), ('agt_1', '1', '[]'), ('agt_3', '12', 'null')`,
				up,
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			for agent, want := range map[string]int64{"agt_1": 2 + 5 + 3 + 2 + 1 + 1, "agt_2": 0, "agt_3": 2} {
				var bytes int64
				if err := db.QueryRowContext(t.Context(), "SELECT bytes FROM memory_bytes WHERE agent = '"+agent+"'").Scan(&bytes); err != nil || bytes != want {
					t.Errorf("%s: %d bytes, %v; want %d", agent, bytes, err, want)
				}
			}
			if _, err := db.ExecContext(t.Context(), down+"\n"+up); err != nil {
				t.Errorf("down and up: %v", err)
			}
		})
	}
}
