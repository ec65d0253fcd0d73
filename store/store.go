// Package store keeps everything that must survive a restart: the nouns of
// package bridge, the ledger, and the lanes in which due work waits. It is the
// only package that knows SQL, and it decides nothing: which state may follow
// which is the bridge's business. Rule of thumb: one Update is one durable
// transaction, and the same SQL text serves every database.
package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"

	"drawbridge/bridge"
)

//go:embed migrations
var migrations embed.FS

// Store is a bridge.Store on SQLite (embedded, one process) or on PostgreSQL
// (several replicas). SQLite has one writer at a time, whose commits are shared by
// all who wait (group commit); on PostgreSQL each step has a transaction of its own.
// Safe for concurrent use.
type Store struct {
	group // SQLite's
	db    backend
	pg    *postgresDB // nil on SQLite

	closing  sync.Once
	closeErr error
}

// backend is what one kind of database does in its own way.
type backend interface {
	// view opens a snapshot for reading and returns what ends it, which fails when
	// what was read is not worth anything.
	view(ctx context.Context) (querier, func() error, error)
	// index is how memory is searched.
	index() *textIndex
	close() error
}

// IsURL reports whether a database setting names a PostgreSQL database and not a file.
func IsURL(database string) bool {
	scheme, _, there := strings.Cut(database, "://")
	return there && (strings.EqualFold(scheme, "postgres") || strings.EqualFold(scheme, "postgresql"))
}

// Open opens a database, a SQLite file by path or PostgreSQL by URL, and brings
// its schema up to date. A file is created when it is missing and taken for
// this process alone; a PostgreSQL database is shared with other replicas. It
// fails with an Invalid error when path cannot be a database, with Conflict when
// another process has the file or a newer program made the schema, with
// Unavailable when the server cannot be reached, and otherwise when what is there
// is no database of ours.
func Open(ctx context.Context, database string) (*Store, error) {
	if IsURL(database) {
		return openPostgres(ctx, database)
	}
	return openSQLite(ctx, database)
}

// Place names a database for logs: the file, or the server and database without user and password.
func Place(database string) string {
	if !IsURL(database) {
		return database
	}
	u, err := url.Parse(database)
	if err != nil {
		return "postgres"
	}
	return "postgres://" + u.Host + u.Path
}

// migrationsOf returns the migrations of one dialect.
func migrationsOf(dialect string) (fs.FS, error) { return fs.Sub(migrations, "migrations/"+dialect) }

// Close lets the commit that runs end, then closes; an Update or View that
// comes later fails. Closing twice is fine.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.leader <- struct{}{}
		defer func() { <-s.leader }()
		s.closeErr = s.db.close()
	})
	return s.closeErr
}

// View implements bridge.Store. What a look-up lacks is loaded at once, in the same snapshot.
func (s *Store) View(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if s.pg != nil {
		return s.pg.viewWhole(ctx, s, fn, hints)
	}
	return s.look(ctx, func(t *tx) error { return t.view(fn) })
}

// view runs fn on a scene that asks the transaction for what it lacks.
func (t *tx) view(fn func(*bridge.Scene) error) error {
	var sc *bridge.Scene
	sc = bridge.NewView(func(n bridge.Need) error { return t.load(sc, []bridge.Need{n}) })
	sc.Search = t.search
	return fn(sc)
}

// look runs fn on one snapshot.
func (s *Store) look(ctx context.Context, fn func(*tx) error) error {
	q, done, err := s.db.view(ctx)
	if err != nil {
		return readTrouble(canceled(ctx, fmt.Errorf("begin view: %w", err)))
	}
	ended := false
	defer func() {
		if !ended { // fn panicked
			_ = done()
		}
	}()
	err = canceled(ctx, fn(&tx{ctx: ctx, q: q, index: s.db.index()}))
	ended = true
	if trouble := done(); trouble != nil {
		return canceled(ctx, trouble)
	}
	return readTrouble(err)
}

// Update implements bridge.Store. The hints are loaded with the first look-ups where that saves a round trip.
func (s *Store) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if s.pg != nil {
		return s.pg.update(ctx, fn, hints)
	}
	return s.update(ctx, fn)
}

// direct runs a few statements in one transaction that is not a step.
func (s *Store) direct(ctx context.Context, raw func(*tx) error) error {
	if s.pg != nil {
		return s.pg.direct(ctx, raw)
	}
	return s.group.direct(ctx, raw)
}

// once runs one statement.
func (s *Store) once(ctx context.Context, raw func(*tx) error) error {
	if s.pg != nil {
		return s.pg.once(ctx, raw)
	}
	return s.group.direct(ctx, raw)
}

// peek reads with one statement.
func (s *Store) peek(ctx context.Context, fn func(*tx) error) error {
	if s.pg != nil {
		return readTrouble(canceled(ctx, fn(&tx{ctx: ctx, q: pgDB{s.pg.db}, index: tsvector})))
	}
	return s.look(ctx, fn)
}
