package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/proof/pg"
)

// TestEchoesOfBefore: what an older version remembered of others' words stays, and expires as if the agent's latest turn had told it.
func TestEchoesOfBefore(t *testing.T) {
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
			text, err := os.ReadFile(filepath.Join("migrations", dialect, "00013_echoes.sql"))
			if err != nil {
				t.Fatal(err)
			}
			up, down, _ := strings.Cut(string(text), "-- +goose Down")
			for _, statement := range []string{
				"CREATE TABLE turns (agent TEXT NOT NULL, seq BIGINT NOT NULL)",
				"CREATE TABLE echoes (agent TEXT NOT NULL, key TEXT NOT NULL, created_at BIGINT NOT NULL, PRIMARY KEY (agent, key))",
				"INSERT INTO turns (agent, seq) VALUES ('agt_1', 1), ('agt_1', 7), ('agt_2', 30)",
				"INSERT INTO echoes (agent, key, created_at) VALUES ('agt_1', 'a', 5), ('agt_3', 'b', 6)",
				up,
				"INSERT INTO echoes (agent, key, created_at, digest) VALUES ('agt_1', 'new', 7, 'x')",
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			for key, want := range map[string]int64{"a": 7, "b": 0} {
				var seq, size int64
				if err := db.QueryRowContext(t.Context(), "SELECT seq, length(digest) FROM echoes WHERE key = '"+key+"'").Scan(&seq, &size); err != nil || seq != want || size != 0 {
					t.Errorf("%s: turn %d, a digest of %d bytes, %v; want turn %d", key, seq, size, err, want)
				}
			}
			if _, err := db.ExecContext(t.Context(), down); err != nil {
				t.Fatal(err)
			}
			var left int64
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM echoes").Scan(&left); err != nil || left != 2 {
				t.Errorf("%d rows after going back, %v; want the two of before", left, err)
			}
		})
	}
}
