package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"drawbridge/bridge"
	"drawbridge/store"
)

// troubleOf is what an update reads of an agent.
func troubleOf(t *testing.T, s *store.Store, n int) (trouble string) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx bridge.Tx) error {
		a, err := tx.Agent(plainAgent(n).ID)
		trouble = a.Trouble
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return trouble
}

func setTrouble(n int, trouble string) func(bridge.Tx) error {
	return func(tx bridge.Tx) error {
		a, err := tx.Agent(plainAgent(n).ID)
		if err != nil {
			return err
		}
		a.Trouble = trouble
		return tx.UpdateAgent(a)
	}
}

// TestKeptRowsAreAsCommitted: rows that the writer keeps between transactions
// are what a reader finds, whatever was taken back.
func TestKeptRowsAreAsCommitted(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	no := errors.New("no")
	if err := s.Update(t.Context(), insertAgent(1)); err != nil {
		t.Fatal(err)
	}
	troubleOf(t, s, 1) // it is kept now
	seen := ""
	look := func(tx bridge.Tx) error {
		a, err := tx.Agent(plainAgent(1).ID)
		seen = a.Trouble
		return err
	}
	undone := func(tx bridge.Tx) error {
		if err := errors.Join(setTrouble(1, "undone")(tx), look(tx)); err != nil {
			return err
		}
		if seen != "undone" {
			t.Errorf("a transaction reads %q of what it wrote itself", seen)
		}
		return no
	}
	errs := s.Together(t.Context(), []func(bridge.Tx) error{undone, look})
	if !errors.Is(errs[0], no) || errs[1] != nil || seen != "" {
		t.Errorf("behind an update that was taken back stands %q (%v)", seen, errs)
	}
	if got := troubleOf(t, s, 1); got != "" {
		t.Errorf("after an update that was taken back: %q", got)
	}
	lost := func(tx bridge.Tx) error {
		return errors.Join(setTrouble(1, "lost")(tx), look(tx), s.LoseTransaction(t.Context()))
	}
	if errs := s.Together(t.Context(), []func(bridge.Tx) error{lost}); errs[0] == nil {
		t.Error("an update whose transaction was lost was acknowledged")
	}
	if got := troubleOf(t, s, 1); got != "" {
		t.Errorf("after a transaction that was lost: %q", got)
	}
	if err := s.Update(t.Context(), setTrouble(1, "done")); err != nil {
		t.Fatal(err)
	}
	if got := troubleOf(t, s, 1); got != "done" {
		t.Errorf("after an update: %q", got)
	}
}

// TestKeptRowsAndOtherPrograms: what a person changes with a sqlite3 shell is
// seen by the next update.
func TestKeptRowsAndOtherPrograms(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	if err := s.Update(t.Context(), insertAgent(1)); err != nil {
		t.Fatal(err)
	}
	troubleOf(t, s, 1)
	if err := s.ExecBeside(t.Context(), "UPDATE agents SET trouble = 'by hand'"); err != nil {
		t.Fatal(err)
	}
	if got := troubleOf(t, s, 1); got != "by hand" {
		t.Errorf("after a change by hand: %q", got)
	}
}

// TestLogIsBegunAnew: what is in the log is copied into the file long before a
// commit has to do it, so that the log begins anew.
func TestLogIsBegunAnew(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	for n := range 1100 { // each puts six or seven pages into the log
		if err := s.Update(t.Context(), insertAgent(n)); err != nil {
			t.Fatal(err)
		}
	}
	if pages, err := s.Log(t.Context()); err != nil || pages > 5000 {
		t.Errorf("the log has %d pages (%v)", pages, err)
	}
}
