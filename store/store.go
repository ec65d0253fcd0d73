// Package store keeps everything that must survive a restart: the nouns of
// package bridge, the ledger, and the lanes in which due work waits. It is the
// only package that knows SQL, and it decides nothing: which state may follow
// which is the bridge's business. Rule of thumb: one Update is one durable
// transaction, and the same SQL text serves every database.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver named "sqlite"

	"drawbridge/bridge"
)

//go:embed migrations/sqlite/*.sql
var migrations embed.FS

// maxBatch bounds how many updates share one commit; it keeps one slow batch
// from starving whoever comes next.
const maxBatch = 256

// Store is the embedded SQLite store: WAL, synchronous=FULL, one writer whose
// commits are shared by all who wait (group commit). Safe for concurrent use.
type Store struct {
	read  *sql.DB
	write *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	lock  *os.File

	// leader is held by the caller that commits for everyone in queue.
	leader chan struct{}

	mu    sync.Mutex // guards queue
	queue []*update
}

type update struct {
	ctx  context.Context
	fn   func(bridge.Tx) error
	err  error
	done chan struct{}
}

// Open opens or creates the database file at path, brings its schema up to
// date and takes the file for this process alone. It fails when another
// process has it, when the file is no database, or when a migration fails.
func Open(ctx context.Context, path string) (*Store, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, stmts: map[string]*sql.Stmt{}, leader: make(chan struct{}, 1)}
	if err := s.open(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %q: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) error {
	if err := createOwnerOnly(path); err != nil {
		return err
	}
	var err error
	if s.write, err = sql.Open("sqlite", dsn(path)); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	if s.conn, err = s.write.Conn(ctx); err != nil {
		return err
	}
	if s.read, err = sql.Open("sqlite", dsn(path)+"&_pragma=query_only(true)"); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(4 + runtime.NumCPU())
	return s.Update(ctx, func(tx bridge.Tx) error { return tx.ReleaseAll() })
}

// dsn sets what every connection needs. synchronous=FULL because an
// acknowledged webhook must survive a power loss (facts: Webhook receiver, rule 7).
func dsn(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)"
}

// createOwnerOnly makes the file before SQLite does: it holds prompts and replies, which are nobody else's.
func createOwnerOnly(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// lockFile keeps two bridges off one file: each would think that the other's
// leases were left by a crash.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open store lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(bridge.Errorf(bridge.Conflict, "database lock %q is held: another drawbridge serves this database; stop it or use another file", path), f.Close())
	}
	return f, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Close waits for no one: call it after everyone who updates has ended.
func (s *Store) Close() error {
	var errs []error
	for _, st := range s.stmts {
		errs = append(errs, st.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// View implements bridge.Store.
func (s *Store) View(ctx context.Context, fn func(bridge.Tx) error) error {
	t, err := s.read.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin view: %w", err)
	}
	defer t.Rollback() //nolint:errcheck // a view has nothing to keep
	return fn(&tx{ctx: ctx, q: t})
}

// Update implements bridge.Store. Callers that meet share one commit: whoever
// gets to lead runs everybody's function, each in its savepoint, and commits once.
func (s *Store) Update(ctx context.Context, fn func(bridge.Tx) error) error {
	u := &update{ctx: ctx, fn: fn, done: make(chan struct{})}
	s.mu.Lock()
	s.queue = append(s.queue, u)
	s.mu.Unlock()
	select {
	case <-u.done:
	case s.leader <- struct{}{}:
		s.lead(u)
		<-s.leader
	}
	<-u.done
	return u.err
}

// lead commits batches until its own update is done.
func (s *Store) lead(own *update) {
	for {
		select {
		case <-own.done:
			return
		default:
		}
		s.mu.Lock()
		n := min(len(s.queue), maxBatch)
		batch := s.queue[:n:n]
		s.queue = s.queue[n:]
		if len(s.queue) == 0 {
			s.queue = nil
		}
		s.mu.Unlock()
		s.commit(batch)
		for _, u := range batch {
			close(u.done)
		}
	}
}

// commit runs a batch in one transaction and sets each update's error.
func (s *Store) commit(batch []*update) {
	ctx := context.WithoutCancel(batch[0].ctx)
	t := &tx{ctx: ctx, q: cachedConn{s}}
	if err := t.exec("BEGIN IMMEDIATE"); err != nil {
		failAll(batch, fmt.Errorf("begin update: %w", err))
		return
	}
	for _, u := range batch {
		u.err = runInSavepoint(t, u)
	}
	if err := t.exec("COMMIT"); err != nil {
		failAll(batch, errors.Join(fmt.Errorf("commit: %w", err), t.exec("ROLLBACK")))
	}
}

func failAll(batch []*update, err error) {
	for _, u := range batch {
		if u.err == nil {
			u.err = err
		}
	}
}

func runInSavepoint(t *tx, u *update) (err error) {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	if err := t.exec("SAVEPOINT u"); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update panicked: %v", p)
		}
		if err != nil {
			err = errors.Join(err, t.exec("ROLLBACK TO u"))
		}
		if e := t.exec("RELEASE u"); e != nil && err == nil {
			err = e
		}
	}()
	return u.fn(t)
}
