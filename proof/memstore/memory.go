// Package memory is a bridge.Store whose database is a value in memory, for
// simulations and tests that need thousands of databases, copies of them as they
// were earlier, and the same answer every time. It is not for production: what
// it calls durable ends with the process, and look-ups walk where a database has
// an index. Rule of thumb: it behaves as package store does and passes the same
// contract, down to the microseconds that a time keeps.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"drawbridge/bridge"
	"drawbridge/bridge/search"
)

// ErrClosed is returned by a Store that was closed.
var ErrClosed = errors.New("the store is closed")

// Disk is the medium that a Store works on: it keeps what was committed over
// Close and Open. Safe for concurrent use; make one with NewDisk.
type Disk struct {
	mu    sync.Mutex // guards state; an Update holds it while it runs
	state *state
	// updates counts the steps, guarded by mu.
	updates int
}

// maxStumble bounds how many look-ups of a step go well in its first run.
const maxStumble = 23

// state is the whole database.
type state struct {
	viewers int // guarded by the disk's lock
	rows    *bridge.Rows
	lanes   lanes
}

func (s *state) copy() *state { return &state{rows: s.rows.Copy(), lanes: s.lanes.copy()} }

// NewDisk returns an empty database.
func NewDisk() *Disk {
	return &Disk{state: &state{rows: &bridge.Rows{}, lanes: lanes{all: map[string]lane{}}}}
}

// Open returns a store over the disk. Several may be open at a time, as
// replicas of a bridge are on one database.
func (d *Disk) Open() *Store { return &Store{disk: d} }

// Copy returns a disk of its own with what is committed now, as a backup is.
// It waits for the Update that runs.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{state: d.state.copy()}
}

// Restore puts back what backup holds, as an operator does with an older copy:
// everything that was committed since is gone. The backup can be used again.
func (d *Disk) Restore(backup *Disk) {
	older := backup.Copy()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = older.state
}

// Store is a bridge.Store on a Disk. Safe for concurrent use. Its methods must not
// be called from within the function of an Update: they would wait without end.
// From within a View's they may.
type Store struct {
	disk *Disk
	// closed is guarded by disk.mu.
	closed bool
}

// Close makes later calls fail; what was committed stays on the disk. Closing twice is fine.
func (s *Store) Close() error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.closed = true
	return nil
}

// usable is called with the disk's lock held.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return ErrClosed
	}
	return ctx.Err()
}

// own is called with the disk's lock held, before anything is written: those who look keep what they look at.
func (d *Disk) own() *state {
	if d.state.viewers > 0 {
		d.state = d.state.copy()
	}
	return d.state
}

// Update implements bridge.Store. A function that panics is an error and leaves no
// trace. It runs twice, and what the first run did is taken back: a database runs it
// again, too, when it lacked rows, so that no function may count on running once. In
// the first run one look-up fails, another one each time.
func (s *Store) Update(ctx context.Context, fn func(*bridge.Scene) error, _ ...bridge.Need) (err error) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	state := s.disk.own()
	sc := bridge.WholeScene(state.rows, false)
	committed := false
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update panicked: %v", p)
		}
		if !committed {
			sc.Rewind()
		}
	}()
	s.disk.updates++
	sc.Stumble(s.disk.updates % maxStumble)
	if err := fn(sc); err != nil && len(sc.Lacks()) == 0 {
		return err
	}
	sc.Rewind()
	sc.Stumble(-1)
	if err := fn(sc); err != nil {
		return err
	}
	committed = true
	state.apply(sc)
	return nil
}

// Once is Update for a test that plays within one step: fn runs once.
func (s *Store) Once(ctx context.Context, fn func(*bridge.Scene) error) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	state := s.disk.own()
	sc := bridge.WholeScene(state.rows, false)
	if err := fn(sc); err != nil {
		sc.Rewind()
		return err
	}
	state.apply(sc)
	return nil
}

// apply makes what a step changed what the database has.
func (s *state) apply(sc *bridge.Scene) {
	for _, e := range sc.News {
		e.Seq = int64(s.rows.Past.Len() + 1)
		s.rows.Past.Load(e.Seq, e)
	}
	s.rows.Settle()
	for _, c := range sc.Lanes {
		s.change(c)
	}
}

// View implements bridge.Store.
func (s *Store) View(ctx context.Context, fn func(*bridge.Scene) error, _ ...bridge.Need) error {
	seen, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer s.leave(seen)
	sc := bridge.WholeScene(seen.rows, true)
	sc.Search = func(q bridge.PassageQuery) ([]bridge.Passage, error) { return find(seen.rows, q) }
	return fn(sc)
}

func find(rows *bridge.Rows, q bridge.PassageQuery) ([]bridge.Passage, error) {
	query, err := search.Parse(q)
	if err != nil {
		return nil, err
	}
	var all []bridge.Passage
	for p := range rows.Passages.All() {
		all = append(all, *p)
	}
	return query.Best(all), nil
}

func (s *Store) look(ctx context.Context) (*state, error) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.disk.state.viewers++
	return s.disk.state, nil
}

func (s *Store) leave(seen *state) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	seen.viewers--
}
