package alerted_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/alerts"
	"drawbridge/api"
	"drawbridge/proof/pg"
	"drawbridge/store"
	"drawbridge/store/alerted"
)

func TestMain(m *testing.M) { os.Exit(pg.Main(m)) }

// TestAlerts: one alert is open for each need, one taker gets it, and what was closed long ago goes.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "drawbridge.db") },
		"postgres": func(t *testing.T) string { return pg.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), database(t))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r, now := alerted.New(s), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
			is := func(got []api.Alert, err error, want ...api.Alert) {
				t.Helper()
				if d := cmp.Diff(want, got); err != nil || d != "" {
					t.Errorf("%v (-want +got):\n%s", err, d)
				}
			}
			change := func(add []api.Alert, over []string, now time.Time) {
				t.Helper()
				if err := r.Change(t.Context(), add, over, now); err != nil {
					t.Fatal(err)
				}
			}
			one := api.Alert{ID: "msg_1", Need: "cmd_1", Kind: "approval", Agent: "main", State: api.AlertWaiting, MadeAt: now, DueAt: now}
			two, again := one, one
			two.ID, two.Need, again.ID = "msg_2", "cmd_2", "msg_3"
			change([]api.Alert{one, two}, nil, now)
			change([]api.Alert{again}, nil, now) // another bridge sees the same
			open, err := r.Open(t.Context())
			is(open, err, one, two)
			page, err := r.List(t.Context(), "", 1)
			is(page, err, two)
			page, err = r.List(t.Context(), "msg_2", 10)
			is(page, err, one)
			for taker, want := range []bool{true, false} {
				if mine, err := r.Take(t.Context(), one, now.Add(time.Minute)); err != nil || mine != want {
					t.Errorf("taker %d: %v, %v", taker, mine, err)
				}
			}
			one.State, one.Tries, one.Trouble, one.TriedAt, one.DueAt = api.AlertFailed, 10, "the address answered 500", now, time.Time{}
			if err := r.Tried(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			if mine, err := r.Take(t.Context(), one, now); err != nil || mine {
				t.Errorf("what has failed is taken again: %v", err)
			}
			change(nil, []string{"msg_1", "msg_2"}, now)
			two.State, two.DueAt = api.AlertOver, time.Time{}
			page, err = r.List(t.Context(), "", 10)
			is(page, err, two, one)
			late := two
			late.State, late.Tries = api.AlertWaiting, 1 // its try ended after it was over
			if err := r.Tried(t.Context(), late); err != nil {
				t.Fatal(err)
			}
			two.Tries = 1
			change([]api.Alert{again}, nil, now.Add(alerts.Kept))
			page, err = r.List(t.Context(), "", 10)
			is(page, err, again, two, one)
			change(nil, nil, now.Add(alerts.Kept+time.Second))
			open, err = r.List(t.Context(), "", 10)
			is(open, err, again)
		})
	}
}
