//go:build deep

package measure_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/proof/runtimes"
)

// stories is how many stories the bytes are measured over; each has three turns.
const stories, turnsOfAStory = 60, 3

// BenchmarkBytesATurn plays stories in one tree: the operator asks, a subagent does the work, its result of 800 bytes comes back, and
// the orchestrator says a sentence about it. It reports how many bytes of the database a turn takes: files without free pages, indexes
// included, and for PostgreSQL the rows alone. The first story counts as the empty database.
func BenchmarkBytesATurn(b *testing.B) {
	for name, database := range map[string]func(*testing.B) string{
		"sqlite":   func(b *testing.B) string { return filepath.Join(b.TempDir(), "bytes.db") },
		"postgres": func(b *testing.B) string { return pg.Database(b) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				place, cloud := database(b), authors()
				tell(b, cloud, place, 0, 1)
				before := sizes(b, name, place)
				tell(b, cloud, place, 1, stories)
				for what, size := range sizes(b, name, place) {
					b.ReportMetric((size-before[what])/(stories*turnsOfAStory), what+"-bytes/turn")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// result is a subagent's report, as long as such reports are.
func result(n string) string {
	return "Report " + n + ".\n" + strings.Repeat("The handler checks the length first, then the signature, and answers 400 with the reason. ", 9)
}

// authors are agents that play the stories.
func authors() *runtimes.Cloud {
	return &runtimes.Cloud{Answer: func(repo, text string) bridge.Observation {
		first, _, _ := strings.Cut(text, "\n")
		o := bridge.Observation{State: bridge.RunFinished, Reply: "The report is in; nothing is left to do for it."}
		if repo == childRepo {
			o.Reply = result(first)
		} else if i := strings.LastIndex(text, "Please do number "); i >= 0 && !strings.Contains(text, "Report ") {
			o.Reply = "I hand it to a subagent.\nSUBAGENT: repo=" + childRepo + ", prompt=Add the missing checks to the handler and run its tests, " + text[i:]
		}
		return o
	}}
}

// tell opens the database, plays n stories from the given number on, and closes it.
func tell(t testing.TB, cloud *runtimes.Cloud, database string, from, n int) {
	t.Helper()
	s := openStore(t, database)
	defer s.Close()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC).Add(time.Duration(from) * 100 * time.Hour)
	o := options(t)
	turns := 0
	o.Store, o.Runtime, o.Now, o.Rand = s, cloud, func() time.Time { return now }, func() float64 { return 0.5 }
	o.OnEvent = func(e bridge.Event) {
		if e.Kind == bridge.EventReply {
			turns++
		}
	}
	e, _ := newEngine(t, o)
	for i := from; i < from+n; i++ {
		text := fmt.Sprintf("Please do number %d", i)
		if i == 0 {
			if _, err := launch(t.Context(), e, "main", text); err != nil {
				t.Fatal(err)
			}
		} else if a, err := e.FindAgent(t.Context(), "main"); err != nil {
			t.Fatal(err)
		} else if _, err := e.Say(t.Context(), a.ID, text); err != nil {
			t.Fatal(err)
		}
		for steps, stop := 0, turns+turnsOfAStory; turns < stop; steps++ {
			if steps > 1000 {
				t.Fatalf("story %d goes on after %d turns", i, turns)
			}
			worked, err := e.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !worked {
				now = now.Add(10 * time.Second)
			}
		}
	}
	if turns != n*turnsOfAStory {
		t.Fatalf("%d turns in %d stories", turns, n)
	}
}

// sizes are the bytes of a database that nobody uses, without what was freed in it.
func sizes(t testing.TB, kind, place string) map[string]float64 {
	t.Helper()
	driver := map[string]string{"sqlite": "sqlite", "postgres": "pgx"}[kind]
	db, err := sql.Open(driver, place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if kind == "sqlite" {
		if _, err := db.ExecContext(t.Context(), "VACUUM"); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil { // the last connection brings the log into the file
			t.Fatal(err)
		}
		info, err := os.Stat(place)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]float64{"sqlite": float64(info.Size())}
	}
	if _, err := db.ExecContext(t.Context(), "VACUUM FULL"); err != nil {
		t.Fatal(err)
	}
	return map[string]float64{"postgres": relations(t, db), "rows": rows(t, db)}
}

// relations sums tables, their long texts and their indexes.
func relations(t testing.TB, db *sql.DB) (size float64) {
	t.Helper()
	const query = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
	if err := db.QueryRowContext(t.Context(), query).Scan(&size); err != nil {
		t.Fatal(err)
	}
	return size
}

// rows sums what the rows of all tables take, by their own count.
func rows(t testing.TB, db *sql.DB) (size float64) {
	t.Helper()
	var query string
	const build = "SELECT string_agg(format('SELECT coalesce(sum(pg_column_size(x.*)), 0) AS n FROM %I x', relname), ' UNION ALL ') FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
	if err := db.QueryRowContext(t.Context(), build).Scan(&query); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRowContext(t.Context(), "SELECT sum(n) FROM ("+query+") AS all_tables").Scan(&size); err != nil {
		t.Fatal(err)
	}
	return size
}
