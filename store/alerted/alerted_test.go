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
			change := func(c alerts.Change) {
				t.Helper()
				if err := r.Change(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			one := api.Alert{ID: "msg_1", Need: "cmd_1", Kind: "approval", Turn: "trn_1", Agent: "main", State: api.AlertWaiting, MadeAt: now, DueAt: now, SeenAt: now}
			two, again := one, one
			two.ID, two.Kind, again.ID = "msg_2", "question", "msg_3" // two is about another kind, again about the same
			change(alerts.Change{Add: []api.Alert{one, two}, Now: now})
			change(alerts.Change{Add: []api.Alert{again}, Now: now}) // another bridge sees the same
			open, err := r.Open(t.Context())
			is(open, err, one, two)
			page, err := r.List(t.Context(), "", 1)
			is(page, err, two)
			page, err = r.List(t.Context(), "msg_2", 10)
			is(page, err, one)
			until := now.Add(time.Minute)
			for taker, want := range []bool{true, false} {
				if mine, err := r.Take(t.Context(), one, until); err != nil || mine != want {
					t.Errorf("taker %d: %v, %v", taker, mine, err)
				}
			}
			one.State, one.Tries, one.Trouble, one.TriedAt, one.DueAt = api.AlertFailed, 1, "the address answered 500", now, time.Time{}
			tried := func(a api.Alert, until time.Time) {
				t.Helper()
				if err := r.Tried(t.Context(), a, until); err != nil {
					t.Fatal(err)
				}
			}
			wrong := one
			wrong.Trouble = "of a try whose lease has ended"
			tried(wrong, now)
			tried(one, until)
			if mine, err := r.Take(t.Context(), one, now); err != nil || mine {
				t.Errorf("what has failed is taken again: %v", err)
			}
			later := now.Add(time.Hour)
			change(alerts.Change{Seen: []string{"msg_1"}, Before: now.Add(time.Second), Now: later}) // nobody has seen two for long
			one.SeenAt = later
			over := two
			over.State, over.DueAt = api.AlertOver, time.Time{}
			page, err = r.List(t.Context(), "", 10)
			is(page, err, over, one)
			late := two
			late.State = api.AlertSent // its try ended after it was over
			tried(late, now)
			over.State = api.AlertSent
			again.Kind, again.SeenAt = two.Kind, later
			change(alerts.Change{Add: []api.Alert{again}, Now: later.Add(alerts.Kept)})
			page, err = r.List(t.Context(), "", 10)
			is(page, err, again, over, one)
			change(alerts.Change{Now: later.Add(alerts.Kept + time.Second)})
			open, err = r.List(t.Context(), "", 10)
			is(open, err, again, one)
		})
	}
}
