package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver named "sqlite"

	"drawbridge/bridge"
)

// sqliteDB is a file: WAL, synchronous=FULL, one connection that writes.
type sqliteDB struct {
	read  *sql.DB
	write *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	// lazy is true while commits do not wait for the disk.
	lazy bool
	// kept are rows as they were committed, good while version stays what it is.
	kept    kept
	version int64
	// written counts updates since the log was last written back.
	written atomic.Int64
	// tidying is held by whoever writes the log back.
	tidying sync.Mutex
	lock    *os.File
}

func openSQLite(ctx context.Context, path string) (*Store, error) {
	d := &sqliteDB{stmts: map[string]*sql.Stmt{}}
	s := &Store{group: newGroup(d)}
	err := d.open(ctx, path)
	if err == nil {
		// Whoever held leases is gone: the lock is ours.
		err = s.Update(ctx, func(tx bridge.Tx) error { return tx.ReleaseAll() })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store %q: %w", path, startTrouble(err, path)), s.Close())
	}
	return s, nil
}

func (d *sqliteDB) open(ctx context.Context, path string) error {
	path, err := realPath(path)
	if err != nil {
		return err
	}
	if d.lock, err = lockFile(path + ".lock"); err != nil {
		return err
	}
	if err := createOwnerOnly(path); err != nil {
		return err
	}
	if d.write, err = sql.Open("sqlite", dsn(path)); err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	if err := migrateSQLite(ctx, d.write); err != nil {
		return err
	}
	if d.conn, err = d.write.Conn(ctx); err != nil {
		return err
	}
	if d.read, err = sql.Open("sqlite", dsn(path)+"&_pragma=query_only(true)"); err != nil {
		return err
	}
	readers := 4 + runtime.NumCPU()
	d.read.SetMaxOpenConns(readers)
	d.read.SetMaxIdleConns(readers) // a new connection costs more than a look-up
	return nil
}

// begin implements backend. IMMEDIATE, because a transaction that starts by
// reading could not become a writer when another process looks in with a tool.
func (d *sqliteDB) begin(ctx context.Context, durable bool) (querier, error) {
	if d.conn == nil {
		return nil, sql.ErrConnDone
	}
	if err := d.setLazy(ctx, !durable); err != nil {
		return nil, err
	}
	q := cachedConn{d}
	if _, err := q.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	if err := d.checkKept(ctx, q); err != nil {
		return nil, errors.Join(err, d.end(ctx, q, false))
	}
	return q, nil
}

// checkKept forgets what is kept when another program wrote: the lock keeps
// other bridges off the file, but not a person with a sqlite3 shell.
func (d *sqliteDB) checkKept(ctx context.Context, q querier) error {
	version, err := selectOne(&tx{ctx: ctx, q: q}, scanInt, "PRAGMA data_version")
	if err != nil {
		return fmt.Errorf("read data version: %w", err)
	}
	if version != d.version {
		d.kept.forget()
		d.version = version
	}
	return nil
}

// setLazy chooses whether commits wait for the disk. The next one that does
// takes those before it along, because all are in one log, in order.
func (d *sqliteDB) setLazy(ctx context.Context, lazy bool) error {
	if lazy == d.lazy {
		return nil
	}
	word := "PRAGMA synchronous = FULL"
	if lazy {
		word = "PRAGMA synchronous = NORMAL"
	}
	if _, err := d.conn.ExecContext(ctx, word); err != nil {
		return fmt.Errorf("set synchronous: %w", err)
	}
	d.lazy = lazy
	return nil
}

// end implements backend.
func (d *sqliteDB) end(ctx context.Context, q querier, commit bool) error {
	word := "ROLLBACK"
	if commit {
		word = "COMMIT"
	}
	_, err := q.ExecContext(ctx, word)
	if err == nil || !commit { // a commit that failed is rolled back next
		d.kept.settle()
	}
	return err
}

// announce implements backend: there is nobody else.
func (d *sqliteDB) announce(context.Context, querier) error { return nil }

// Every tidyEvery updates somebody looks how many pages stand in the log alone,
// and copies them into the file when they are more than tidyPages. SQLite begins
// the log anew when nothing is left to copy. What a commit finds left when the log
// has grown to logPages it copies itself, and everybody waits.
const (
	tidyEvery = 256
	tidyPages = 1000
	logPages  = 8000
)

// tidy implements backend. It copies beside the writer that comes next, on a
// connection for reading. A failure is told to nobody: the writer's own copying
// meets it, too, and a commit that cannot be written says so.
func (d *sqliteDB) tidy(ctx context.Context, updates int) {
	if d.read == nil || d.written.Add(int64(updates)) < tidyEvery || !d.tidying.TryLock() {
		return
	}
	defer d.tidying.Unlock()
	d.written.Store(0)
	var busy, pages, copied int
	if err := d.read.QueryRowContext(ctx, "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &pages, &copied); err == nil && pages-copied > tidyPages {
		_, _ = d.read.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	}
}

// rows implements backend.
func (d *sqliteDB) rows() *kept { return &d.kept }

// view implements backend.
func (d *sqliteDB) view(ctx context.Context) (querier, func(), error) {
	if d.read == nil {
		return nil, nil, sql.ErrConnDone
	}
	t, err := d.read.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	return t, func() { _ = t.Rollback() }, nil // a view has nothing to keep
}

func (d *sqliteDB) index() *textIndex { return fts5 }

func (d *sqliteDB) close() error {
	var errs []error
	for _, st := range d.stmts {
		errs = append(errs, st.Close())
	}
	clear(d.stmts)
	d.tidying.Lock() // whoever is at it ends first
	defer d.tidying.Unlock()
	if d.read != nil {
		errs = append(errs, d.read.Close())
	}
	if d.conn != nil {
		// Whoever copies the file of a bridge that was stopped gets all of it. A
		// look-up that was cut off may still hold its snapshot; then the log keeps the rest.
		_, _ = d.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
		errs = append(errs, d.conn.Close())
	}
	if d.write != nil {
		errs = append(errs, d.write.Close())
	}
	if d.lock != nil {
		// A lock goes with the last descriptor, and a child that this process is just
		// starting holds copies of all of them until its exec: closing alone would
		// leave the file locked for as long as that takes.
		errs = append(errs, unix.Flock(int(d.lock.Fd()), unix.LOCK_UN), d.lock.Close())
	}
	return errors.Join(errs...)
}

// dsn sets what every connection needs. synchronous=FULL because an
// acknowledged webhook must survive a power loss (facts: Webhook receiver, rule 7).
// temp_store=MEMORY keeps what a savepoint would put back in memory: an update
// that touches more than 16 pages, such as a message with its letters and
// indexes, would write each of them to a temporary file first.
func dsn(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)&_pragma=temp_store(memory)" +
		fmt.Sprintf("&_pragma=wal_autocheckpoint(%d)", logPages)
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

func migrateSQLite(ctx context.Context, db *sql.DB) error {
	dir, err := migrationsOf("sqlite")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return migrateUp(ctx, p, db, "sqlite")
}
