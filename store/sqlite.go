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
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver named "sqlite"

	"drawbridge/bridge"
	"drawbridge/store/kept"
)

// sqliteDB is a file: WAL, synchronous=FULL, one connection that writes.
type sqliteDB struct {
	read  *sql.DB
	write *sql.DB
	conn  *sql.Conn
	stmts map[string]cachedStmt
	// kept are rows that need not be read again.
	kept kept.Rows
	// prepared are the statements of views.
	prepared readStmts
	// lazy is true while commits do not wait for the disk.
	lazy bool
	// written counts updates since the log was last written back.
	written atomic.Int64
	// tidying is held by whoever writes the log back.
	tidying sync.Mutex
	// lock is the lock file beside the database, held the lock on the database itself.
	lock, held *os.File
	// lockIsNew says that this process made the lock file.
	lockIsNew bool
	anchor    *anchor
	// longer is the size of the log, in bytes, at which the writer waits for its readers again.
	longer int64
}

func openSQLite(ctx context.Context, path string) (*Store, error) {
	d := &sqliteDB{stmts: map[string]cachedStmt{}, prepared: readStmts{all: map[string]*sql.Stmt{}}}
	s := &Store{group: newGroup(d), db: d}
	err := d.open(ctx, path)
	if err == nil {
		// Whoever held leases is gone: the lock is ours.
		err = s.ReleaseAll(ctx)
	}
	if err != nil {
		if d.lock != nil && d.lockIsNew { // beside a file that is not ours
			_ = os.Remove(d.lock.Name())
		}
		return nil, errors.Join(fmt.Errorf("open store %q: %w", path, startTrouble(err, path)), s.Close())
	}
	return s, nil
}

func (d *sqliteDB) open(ctx context.Context, given string) error {
	path, err := realPath(given)
	if err != nil {
		return err
	}
	if given, err = filepath.Abs(given); err != nil {
		return err
	}
	_, missing := os.Lstat(path + ".lock")
	d.lockIsNew = errors.Is(missing, fs.ErrNotExist)
	if d.lock, err = lockFile(path + ".lock"); err != nil {
		return err
	}
	if d.held, err = createOwnerOnly(path); err != nil {
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
	return d.hold(ctx, given, path)
}

// hold remembers the files, once it is sure that the connection is to the one that is locked.
func (d *sqliteDB) hold(ctx context.Context, given, path string) error {
	for _, word := range []string{"BEGIN IMMEDIATE", "COMMIT"} { // with a transaction the log is there
		if _, err := d.conn.ExecContext(ctx, word); err != nil {
			return err
		}
	}
	a, err := newAnchor(given, path)
	if err != nil {
		return err
	}
	info, err := d.held.Stat()
	if err != nil {
		return err
	}
	if idOf(info) != a.files[0].id {
		return bridge.Errorf(bridge.Conflict, "somebody replaced the database %q while it was opened; start again", path)
	}
	d.anchor = a
	return nil
}

// begin opens the one write transaction; only the leader of the group calls it and
// end. With durable false the commit need not wait for the disk. IMMEDIATE, because a transaction that starts by
// reading could not become a writer when another process looks in with a tool.
func (d *sqliteDB) begin(ctx context.Context, durable bool) (querier, error) {
	if d.conn == nil {
		return nil, sql.ErrConnDone
	}
	if err := d.anchor.check(); err != nil {
		return nil, err
	}
	if err := d.bound(ctx); err != nil {
		return nil, err
	}
	if err := d.setLazy(ctx, !durable); err != nil {
		return nil, err
	}
	q := cachedConn{d}
	if _, err := q.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	version, err := selectOne(&tx{ctx: ctx, q: q}, scanInt, "PRAGMA data_version")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read data version: %w", err), d.end(ctx, q, false))
	}
	d.kept.Since(version)
	return q, nil
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

// end commits, or takes back; either way the transaction is over. A caller that hears of a commit must find it in
// the file that the path leads to, so it looks once more.
func (d *sqliteDB) end(ctx context.Context, q querier, commit bool) error {
	word := "ROLLBACK"
	if commit {
		word = "COMMIT"
	}
	_, err := q.ExecContext(ctx, word)
	if err == nil && commit {
		d.kept.Committed()
		return d.anchor.check()
	}
	return err
}

// The log's sizes, in bytes. When it is larger than tidySize, a caller copies it
// into the file, every tidyEvery updates and beside the writer that comes next.
// SQLite begins the log again when nothing is left to copy and nobody reads it, and
// cuts it to tidySize. Readers that overlap never let it come to that, so at
// logSize the writer waits up to logPatience for those who read now. Our own views
// end within viewLimit; another program's may not, and at logLimit work is refused.
const (
	tidyEvery   = 32
	tidySize    = 2 << 20
	logSize     = 4 << 20
	logPatience = 250 * time.Millisecond
	logLimit    = 64 << 20
	viewLimit   = 30 * time.Second
)

// tidy is called after commits with how many updates they held, when others may begin
// already. It works on a connection for reading. A failure goes to
// nobody: the writer's own copying meets it, too, and a commit that cannot be
// written says so.
func (d *sqliteDB) tidy(ctx context.Context, updates int) {
	if d.read == nil || d.written.Add(int64(updates)) < tidyEvery || d.anchor.logSize.Load() <= tidySize || !d.tidying.TryLock() {
		return
	}
	defer d.tidying.Unlock()
	if d.anchor.check() != nil { // a new connection would open another file
		return
	}
	d.written.Store(0)
	var busy, pages, copied int
	if err := d.read.QueryRowContext(ctx, "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &pages, &copied); err == nil && pages > copied {
		_, _ = d.read.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	}
}

// bound begins the log again when it has grown beyond logSize. Only the leader
// calls it, between transactions. After a reader was in the way it tries again
// when the log has grown by another quarter of that.
func (d *sqliteDB) bound(ctx context.Context) error {
	size := d.anchor.logSize.Load()
	if size <= max(logSize, d.longer) {
		return nil
	}
	if err := d.truncate(ctx); err != nil {
		return err
	}
	d.longer = 0
	if err := d.anchor.check(); err != nil { // it looks at the size again
		return err
	}
	if size = d.anchor.logSize.Load(); size <= logSize {
		return nil
	}
	d.longer = size + logSize/4
	if size < logLimit {
		return nil
	}
	d.longer = size - 1 // ask each time
	return bridge.Errorf(bridge.Unavailable, "the database's log has grown to %d MB, because another program does not stop reading the database. End that program, such as a sqlite3 shell or a backup. This change was not recorded", size>>20)
}

// truncate copies the whole log and empties it, or gives up after logPatience.
func (d *sqliteDB) truncate(ctx context.Context) error {
	for _, word := range []string{
		fmt.Sprintf("PRAGMA busy_timeout = %d", logPatience.Milliseconds()),
		"PRAGMA wal_checkpoint(TRUNCATE)", // that it was busy is a row and not an error
		fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()),
	} {
		if _, err := d.conn.ExecContext(ctx, word); err != nil {
			return fmt.Errorf("write the log back: %w", err)
		}
	}
	return nil
}

// busyTimeout is how long a statement waits for another program's lock.
const busyTimeout = 10 * time.Second

// view implements backend. A view that lasts longer than viewLimit ends with an
// error, because it keeps the log from being begun again.
func (d *sqliteDB) view(ctx context.Context) (querier, func() error, error) {
	if d.read == nil {
		return nil, nil, sql.ErrConnDone
	}
	if err := d.anchor.checkMain(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, viewLimit)
	t, err := d.read.BeginTx(ctx, nil)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	p := &preparedTx{d: d, t: t}
	return p, func() error {
		_ = t.Rollback()                                              // a view has nothing to keep
		d.prepared.add(context.WithoutCancel(ctx), d.read, p.unknown) // it holds no connection any more
		cancel()
		return d.anchor.checkMain() // a connection that was made meanwhile may be to another file
	}, nil
}

func (d *sqliteDB) index() *textIndex { return fts5 }

func (d *sqliteDB) close() error {
	var errs []error
	for _, st := range d.stmts {
		errs = append(errs, st.Close())
	}
	clear(d.stmts)
	errs = append(errs, d.prepared.close())
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
	if d.held != nil {
		errs = append(errs, unlockInode(d.held), d.held.Close())
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
		fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)&_pragma=temp_store(memory)", busyTimeout.Milliseconds()) +
		fmt.Sprintf("&_pragma=wal_autocheckpoint(%d)&_pragma=journal_size_limit(%d)", logSize/pageSize, tidySize)
}

// pageSize is SQLite's own default, in bytes.
const pageSize = 4096

// realPath returns the one path of the file that path leads to, so that a link
// to a database meets the same lock. It opens nothing: closing a descriptor of
// the file would drop the locks that SQLite holds on it in this process.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := checkPlace(abs); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return "", bridge.Errorf(bridge.Invalid, "the folder %q does not exist; create it or choose another path", filepath.Dir(abs))
	}
	if err != nil {
		return "", systemsError(abs, err)
	}
	target, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		path := filepath.Join(dir, filepath.Base(abs))
		return path, checkDisk(path)
	}
	if err != nil {
		return "", systemsError(abs, err)
	}
	return target, errors.Join(checkRegular(target), checkDisk(target))
}

// systemsError returns the system's own error at a path, where it gives one: a loop of links has no errno in path/filepath.
func systemsError(path string, err error) error {
	if _, own := os.Stat(path); own != nil {
		return own
	}
	return err
}

func checkRegular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return bridge.Errorf(bridge.Invalid, "%q is a directory; name a file in it, such as %q", path, filepath.Join(path, "drawbridge.db"))
	case !info.Mode().IsRegular():
		return bridge.Errorf(bridge.Invalid, "%q is not a regular file; choose another path", path)
	}
	return nil
}

// createOwnerOnly makes the file before SQLite does, because it holds prompts
// and replies, which are nobody else's, and locks it. A file that others could
// read is closed to them. What it returns stays open until SQLite has closed the
// file: closing it drops the locks that SQLite holds.
func createOwnerOnly(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockInode(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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
	return migrateUp(ctx, p)
}
