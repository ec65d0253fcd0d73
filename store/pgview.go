package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
)

// eventsLock keeps the order of events. Steps that record events share it from the first event to the commit, so that they commit
// side by side: one commit after another would wait for the disk each. A reader of events has it alone; then each number that
// was given out is committed or will never be.
const eventsLock = "7237954716518474855"

const (
	recordEvents = "SELECT pg_advisory_xact_lock_shared(" + eventsLock + ")"
	readEvents   = "SELECT pg_advisory_xact_lock(" + eventsLock + ")"
)

// viewWhole is Store.View on PostgreSQL. Events are read before the view's snapshot, with eventsLock: a snapshot may show an
// event and miss one with a lower number, whose step commits later. A reader that goes on after the higher number would not see it.
func (d *postgresDB) viewWhole(ctx context.Context, s *Store, fn func(*bridge.Scene) error, hints []bridge.Need) error {
	if len(hints) > 0 && !slices.ContainsFunc(hints, isEvents) {
		if whole, err := d.foreseen(ctx, fn, hints); whole || err != nil {
			return err
		}
	}
	var past []bridge.Need
	for {
		lacks, err := d.viewAfter(ctx, s, fn, past)
		if len(lacks) == 0 {
			return err
		}
		past = append(past, lacks...)
		if whole, err := d.foreseen(ctx, fn, past); whole || err != nil {
			return err
		}
	}
}

func isEvents(n bridge.Need) bool {
	switch n := n.(type) {
	case bridge.NeedEvents:
		return true
	case bridge.NeedHistory: // nobody goes on after the others
		return n.End
	}
	return false
}

// viewAfter loads events and runs fn on one snapshot that is later. It returns the events that fn lacked; then nothing of what fn
// did counts.
func (d *postgresDB) viewAfter(ctx context.Context, s *Store, fn func(*bridge.Scene) error, past []bridge.Need) (lacks []bridge.Need, err error) {
	var t *tx
	var sc *bridge.Scene
	sc = bridge.NewView(func(n bridge.Need) error {
		if isEvents(n) {
			lacks = append(lacks, n)
			return bridge.ErrLacking
		}
		return t.load(sc, []bridge.Need{n})
	})
	if len(past) > 0 {
		if err := d.loadOnce(ctx, sc, past); err != nil {
			return nil, err
		}
	}
	err = s.look(ctx, func(began *tx) error {
		t, sc.Search = began, began.search
		return attempt(sc, fn, func() bool { return len(lacks) > 0 })
	})
	return lacks, err
}

// foreseen is a view whose rows are known beforehand: one round trip. It reports
// false when fn lacked others; then nothing of what fn did counts.
func (d *postgresDB) foreseen(ctx context.Context, fn func(*bridge.Scene) error, hints []bridge.Need) (whole bool, err error) {
	sc := bridge.NewScene()
	if err := d.loadOnce(ctx, sc, hints); err != nil {
		return false, err
	}
	lacks := false
	sc.Seal(func(bridge.Need) error { lacks = true; return bridge.ErrLacking })
	sc.Search = func(bridge.PassageQuery) ([]bridge.Passage, error) { lacks = true; return nil, bridge.ErrLacking }
	if err = attempt(sc, fn, func() bool { return lacks }); lacks {
		return false, nil
	}
	return true, readTrouble(canceled(ctx, err))
}

// loadOnce loads needs in one transaction that is one round trip: one snapshot, or events alone.
func (d *postgresDB) loadOnce(ctx context.Context, sc *bridge.Scene, needs []bridge.Need) error {
	b := &pgx.Batch{}
	if isEvents(needs[0]) { // each statement sees what is committed when it begins, and readEvents has waited
		b.Queue("BEGIN READ ONLY")
		b.Queue(readEvents)
	} else {
		b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	s := &pgStep{d: d, sc: sc}
	for _, n := range needs {
		queries, err := queriesOf(sc, n)
		if err != nil {
			return err
		}
		for _, q := range queries {
			s.queue(b, n, q)
		}
	}
	b.Queue("COMMIT")
	if err := d.pool.SendBatch(ctx, b).Close(); err != nil {
		return readTrouble(canceled(ctx, fmt.Errorf("view: %w", err)))
	}
	return nil
}
