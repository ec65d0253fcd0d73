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

	closing  sync.Once
	closeErr error

	mu    sync.Mutex // guards queue
	queue []*update
}

type update struct {
	ctx  context.Context
	fn   func(bridge.Tx) error
	err  error
	done chan struct{}
}

// errAborted is what everyone in a batch gets when it could not be committed as a whole.
var errAborted = errors.New("the shared transaction was rolled back; nothing of it is recorded")

// Open opens or creates the database file at path, brings its schema up to
// date and takes the file for this process alone. It fails with an Invalid
// error when path cannot be a database file, with Conflict when another process
// has it, and otherwise when the file is no database or a migration fails.
func Open(ctx context.Context, path string) (*Store, error) {
	s := &Store{stmts: map[string]*sql.Stmt{}, leader: make(chan struct{}, 1)}
	if err := s.open(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %q: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) error {
	path, err := realPath(path)
	if err != nil {
		return err
	}
	if s.lock, err = lockFile(path + ".lock"); err != nil {
		return err
	}
	if err := createOwnerOnly(path); err != nil {
		return err
	}
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
	readers := 4 + runtime.NumCPU()
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers) // a new connection costs more than a look-up
	return s.Update(ctx, func(tx bridge.Tx) error { return tx.ReleaseAll() })
}

// dsn sets what every connection needs. synchronous=FULL because an
// acknowledged webhook must survive a power loss (facts: Webhook receiver, rule 7).
func dsn(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)"
}

// realPath returns the one path of the file that path leads to, so that a link
// to a database meets the same lock. It opens nothing: closing a descriptor of
// the file would drop the locks that SQLite holds on it in this process.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return "", bridge.Errorf(bridge.Invalid, "the folder %q does not exist; create it or choose another path", filepath.Dir(abs))
	}
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	if err != nil {
		return "", err
	}
	return target, checkRegular(target)
}

func checkRegular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return bridge.Errorf(bridge.Invalid, "%q is a directory; name a file in it, such as %q", path, filepath.Join(path, "drawbridge.db"))
	case !info.Mode().IsRegular():
		return bridge.Errorf(bridge.Invalid, "%q is no regular file; choose another path", path)
	}
	return nil
}

// createOwnerOnly makes the file before SQLite does, because it holds prompts
// and replies, which are nobody else's. A file that others could read is closed to them.
func createOwnerOnly(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	return errors.Join(err, f.Close())
}

// lockFile keeps two bridges off one file: each would think that the other's
// leases were left by a crash.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
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

// Close lets the commit that runs end, then closes; an Update or View that
// comes later fails. Closing twice is fine.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.leader <- struct{}{}
		defer func() { <-s.leader }()
		s.closeErr = s.close()
	})
	return s.closeErr
}

func (s *Store) close() error {
	var errs []error
	for _, st := range s.stmts {
		errs = append(errs, st.Close())
	}
	clear(s.stmts)
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
// gets to lead runs everybody's function, each in its savepoint, and commits
// once. A function that panics is an error of its own caller alone. Calling
// Update from within fn waits for ever.
func (s *Store) Update(ctx context.Context, fn func(bridge.Tx) error) error {
	u := &update{ctx: ctx, fn: fn, done: make(chan struct{})}
	s.mu.Lock()
	s.queue = append(s.queue, u)
	s.mu.Unlock()
	select {
	case <-u.done:
	case s.leader <- struct{}{}:
		s.lead(u)
	}
	return u.err
}

// lead commits batches until its own update is done.
func (s *Store) lead(own *update) {
	defer func() { <-s.leader }()
	for {
		select {
		case <-own.done:
			return
		default:
		}
		// Those whom the last commit let go get to queue up again first;
		// otherwise every other commit is for one caller alone.
		runtime.Gosched()
		s.commit(s.nextBatch())
	}
}

// nextBatch takes the oldest updates off the queue.
func (s *Store) nextBatch() []*update {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), maxBatch)
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	if len(s.queue) == 0 {
		s.queue = nil
	}
	return batch
}

// commit runs a batch in one transaction, sets each update's error and lets
// its caller go, even when one of the functions ends this goroutine.
func (s *Store) commit(batch []*update) {
	t := &tx{ctx: context.WithoutCancel(batch[0].ctx), q: cachedConn{s}}
	err := errAborted
	defer func() {
		if err != nil {
			abort(t, batch, err)
		}
		for _, u := range batch {
			close(u.done)
		}
	}()
	err = runBatch(t, batch)
}

// abort fails every update of a batch; those that failed by themselves keep their own error.
func abort(t *tx, batch []*update, err error) {
	// It fails when there is no transaction any more, which is what is wanted;
	// were there still one, the next BEGIN would say so.
	_ = t.exec("ROLLBACK")
	for _, u := range batch {
		if u.err == nil {
			u.err = err
		}
	}
}

// runBatch returns an error when nothing of the batch was committed.
func runBatch(t *tx, batch []*update) error {
	if err := t.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin update: %w", err)
	}
	for _, u := range batch {
		if u.err = u.ctx.Err(); u.err != nil {
			continue
		}
		if err := t.exec("SAVEPOINT u"); err != nil {
			return fmt.Errorf("savepoint: %w", err)
		}
		undo := "" // what to run before the savepoint goes
		if u.err = u.run(t); u.err != nil {
			undo = "ROLLBACK TO u"
		}
		if err := endSavepoint(t, undo); err != nil {
			return err
		}
	}
	if err := t.exec("COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// endSavepoint fails when the database gave up the whole transaction by
// itself, for example on a full disk. Going on would start a new one unseen,
// and commit half of a batch.
func endSavepoint(t *tx, undo string) error {
	if undo != "" {
		if err := t.exec(undo); err != nil {
			return fmt.Errorf("roll back to savepoint: %w", err)
		}
	}
	if err := t.exec("RELEASE u"); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}

// run calls the update's function; a panic becomes its error.
func (u *update) run(t *tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update panicked: %v", p)
		}
	}()
	return u.fn(t)
}
