package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
)

// TestHomesOfBefore: agents and commands of an older version keep where they live, in two columns in place of one. Going back
// brings back what stood there.
func TestHomesOfBefore(t *testing.T) {
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
			text, err := os.ReadFile(filepath.Join("migrations", dialect, "00036_homes.sql"))
			if err != nil {
				t.Fatal(err)
			}
			up, down, _ := strings.Cut(string(text), "-- +goose Down")
			before := map[string][2]string{} // table and id: api and child
			run := func(statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			run("CREATE TABLE agents (id TEXT NOT NULL, api TEXT NOT NULL)")
			run("CREATE TABLE commands (id TEXT NOT NULL, api TEXT NOT NULL, child TEXT NOT NULL)")
			wants := map[string][2]string{ // table and id: runtime and api
				"agents v0": {bridge.CloudRuntime, "v0"}, "agents v1": {bridge.CloudRuntime, "v1"}, "agents other": {"laptop", ""}, "agents none": {bridge.CloudRuntime, ""},
				"commands v0": {bridge.CloudRuntime, "v0"}, "commands v1": {bridge.CloudRuntime, "v1"}, "commands other": {"laptop", ""},
				"commands held": {"", "v0"}, "commands heldNone": {"", ""}, "commands action": {"", ""},
			}
			for row, old := range map[string][2]string{
				"agents v0": {"v0"}, "agents v1": {"v1"}, "agents other": {"laptop"}, "agents none": {""},
				"commands v0": {"v0", "agt_1"}, "commands v1": {"v1", "agt_2"}, "commands other": {"laptop", "agt_3"},
				"commands held": {"v0", ""}, "commands heldNone": {"", ""}, "commands action": {"", ""},
			} {
				before[row] = old
				table, id, _ := strings.Cut(row, " ")
				if table == "agents" {
					run("INSERT INTO agents (id, api) VALUES ('" + id + "', '" + old[0] + "')")
				} else {
					run("INSERT INTO commands (id, api, child) VALUES ('" + id + "', '" + old[0] + "', '" + old[1] + "')")
				}
			}
			for range 2 {
				run(up)
				for row, want := range wants {
					table, id, _ := strings.Cut(row, " ")
					var runtime, api string
					if err := db.QueryRowContext(t.Context(), "SELECT runtime, api FROM "+table+" WHERE id = '"+id+"'").Scan(&runtime, &api); err != nil || runtime != want[0] || api != want[1] {
						t.Errorf("%s: runtime %q, API %q, %v; want %q", row, runtime, api, err, want)
					}
					if got, old := bridge.Through(runtime, api), before[row][0]; old != "" && got != old {
						t.Errorf("%s is shown as %q and was shown as %q", row, got, old)
					}
				}
				run(down)
				for row, old := range before {
					table, id, _ := strings.Cut(row, " ")
					var api string
					if err := db.QueryRowContext(t.Context(), "SELECT api FROM "+table+" WHERE id = '"+id+"'").Scan(&api); err != nil || api != old[0] {
						t.Errorf("%s after going back: API %q, %v; want %q", row, api, err, old[0])
					}
				}
			}
		})
	}
}
