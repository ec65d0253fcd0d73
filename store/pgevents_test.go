package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// between is a replica's transaction between its events and its commit, with one event.
func between(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{"BEGIN", store.RecordEvents,
		"INSERT INTO events (at, kind, agent, name, root, turn, command, body, fields, attempt) VALUES (0, 'slow', '', '', '', '', '', '', '{}', 0)"} {
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	return conn
}

func record(ctx context.Context, s *store.Store, kind string) error {
	return s.Update(ctx, func(tx *bridge.Scene) error { return tx.AppendEvent(bridge.Event{Kind: kind}) })
}

func kindsAfter(ctx context.Context, s *store.Store, after int64) (kinds []string, last int64, err error) {
	err = s.View(ctx, func(tx *bridge.Scene) error {
		kinds, last = nil, after
		found, err := tx.Events(after, 50)
		for _, e := range found {
			kinds, last = append(kinds, e.Kind), e.Seq
		}
		return err
	})
	return kinds, last, err
}

// TestPostgresEventsCommitSideBySide: a step that records an event does not wait for the commit of another one.
func TestPostgresEventsCommitSideBySide(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	s := open(t, address)
	slow := between(t, address)
	must(t, record(t.Context(), s, "quick")) // lock_timeout would end a wait
	_, err := slow.Exec(t.Context(), "COMMIT")
	must(t, err)
	kinds, _, err := kindsAfter(t.Context(), s, 0)
	must(t, err)
	if !slices.Equal(kinds, []string{"slow", "quick"}) {
		t.Errorf("the events are %q", kinds)
	}
}

// TestPostgresEventsShowNoGap: a reader does not see an event while one with a lower number may still come, and sees both then.
func TestPostgresEventsShowNoGap(t *testing.T) {
	t.Parallel()
	for end, want := range map[string][]string{"COMMIT": {"slow", "quick"}, "ROLLBACK": {"quick"}} {
		address := pg.Database(t)
		s := open(t, address)
		slow := between(t, address)
		must(t, record(t.Context(), s, "quick"))
		var kinds []string
		done := make(chan error, 1)
		go func() {
			var err error
			kinds, _, err = kindsAfter(t.Context(), s, 0)
			done <- err
		}()
		if !readerWaits(t, address, done) {
			t.Fatalf("a reader saw %q before the event with the lower number was committed", kinds)
		}
		_, err := slow.Exec(t.Context(), end)
		must(t, err)
		must(t, <-done)
		if !slices.Equal(kinds, want) {
			t.Errorf("after %s the events are %q, want %q", end, kinds, want)
		}
	}
}

// readerWaits waits until a session waits for a lock; it reports false when done has a value before.
func readerWaits(t *testing.T, address string, done chan error) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var waiting int
		must(t, conn.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&waiting))
		if waiting > 0 {
			return true
		}
		select {
		case err := <-done:
			must(t, err)
			return false
		default:
		}
	}
}
