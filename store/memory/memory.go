// Package memory is a bridge.Store whose database is a value in memory, for
// simulations and tests that need thousands of databases, copies of them as they
// were earlier, and the same answer every time. It is not for production: what
// it calls durable ends with the process, and look-ups walk where a database has
// an index. Rule of thumb: it behaves as package store does and passes the same
// contract, down to the microseconds that a time keeps.
package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"drawbridge/bridge"
)

// ErrClosed is returned by a Store that was closed.
var ErrClosed = errors.New("the store is closed")

var errReadOnly = errors.New("a view must not write")

// Disk is the medium that a Store works on: it keeps what was committed over
// Close and Open. Safe for concurrent use; make one with NewDisk.
type Disk struct {
	mu    sync.Mutex // guards state; an Update holds it while it runs
	state *state
}

// NewDisk returns an empty database.
func NewDisk() *Disk { return &Disk{state: newState()} }

// Open returns a store over the disk. Several may be open at a time, as
// replicas of a bridge are on one database.
func (d *Disk) Open() *Store { return &Store{disk: d} }

// Copy returns a disk of its own with what is committed now, as a backup is.
// It waits for the Update that runs.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{state: d.state.clone()}
}

// Restore puts back what backup holds, as an operator does with an older copy:
// everything that was committed since is gone. The backup can be used again.
func (d *Disk) Restore(backup *Disk) {
	older := backup.Copy()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = older.state
}

// Store is a bridge.Store on a Disk. Safe for concurrent use. Update and View
// must not be called from within the function of an Update: they would wait for
// ever. From within a View's they may.
type Store struct {
	disk *Disk
	// closed is guarded by disk.mu.
	closed bool
}

// Close makes later Updates and Views fail; what was committed stays on the
// disk. Closing twice is fine.
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

// Update implements bridge.Store. A function that panics is an error and leaves no trace.
func (s *Store) Update(ctx context.Context, fn func(bridge.Tx) error) (err error) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.disk.state.viewers > 0 {
		// Those who look keep what they look at; it is ours no longer.
		s.disk.state = s.disk.state.clone()
	}
	t := &tx{state: s.disk.state}
	committed := false
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update panicked: %v", p)
		}
		if !committed {
			t.rollback()
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	committed = true
	return nil
}

// View implements bridge.Store.
func (s *Store) View(ctx context.Context, fn func(bridge.Tx) error) error {
	seen, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer s.leave(seen)
	return fn(&tx{state: seen, readOnly: true})
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
