package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
)

// TestPostgresSessionEndsWithinAStep: the step is not recorded and says so, its locks are free, and the next ones find a
// connection that works; nor does a step that panics keep anything.
func TestPostgresSessionEndsWithinAStep(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	s := open(t, address)
	insertTree(t, s, "agt_1")
	deepen := func(meanwhile func()) error {
		return s.Update(t.Context(), func(tx *bridge.Scene) error {
			a, err := tx.Agent("agt_1")
			if err != nil {
				return err
			}
			meanwhile()
			a.Depth++
			return tx.UpdateAgent(a)
		})
	}
	cut := func() {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		must(t, errors.Join(err, conn.Close(t.Context())))
	}
	for range 5 {
		if err := deepen(cut); bridge.KindOf(err) != bridge.Unavailable {
			t.Errorf("a step whose session ended: %v", err)
		}
		if err := deepen(func() { panic("oh") }); err == nil {
			t.Error("a step that panicked was recorded")
		}
	}
	must(t, deepen(func() {}))
	must(t, s.View(t.Context(), deepIs1))
}

func deepIs1(tx *bridge.Scene) error {
	a, err := tx.Agent("agt_1")
	if err == nil && a.Depth != 1 {
		err = errors.New("other steps than the last were recorded")
	}
	return err
}
