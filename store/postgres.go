package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// wakeChannel is the channel on which replicas wake each other.
const wakeChannel = "drawbridge_wake"

// The server's own limits on our sessions. A replica that is stopped in the
// middle of a transaction would hold its trees' locks for all; the server ends
// its session instead, and what it did is rolled back.
var sessionLimits = map[string]string{
	"idle_in_transaction_session_timeout": "5000",
	"lock_timeout":                        "20000",
	"statement_timeout":                   "60000",
	"application_name":                    sessionName(),
	"timezone":                            "UTC",
	// The server would plan a statement for its first five runs on each connection, which costs more than most of them. Almost all
	// look rows up by a key; a search for words is planned each time (textIndex.plan).
	"plan_cache_mode": "force_generic_plan",
}

// postgresDB is a database that several replicas share.
type postgresDB struct {
	pool *pgxpool.Pool
	// db hands out the pool's connections as package database/sql has them.
	db     *sql.DB
	config *pgx.ConnConfig
	wakes  wakes
	// id tells our own wake-ups from the others'.
	id string
}

// errAddress does not repeat what the library says: its text may hold the address, and with it the password.
var errAddress = bridge.Errorf(bridge.Invalid, "the database address is not a PostgreSQL URL; write postgres://user:password@host:5432/database")

// poolParam is the address's parameter for the size of the pool, by the name that pgxpool gave it.
const poolParam = "pool_max_conns"

// The bounds of the pool. Listening takes one connection more.
const (
	usualPool, smallestPool, largestPool = 16, 2, 1000
)

// poolSize is the size of the pool that an address asks for.
func poolSize(c *pgx.ConnConfig) (int32, error) {
	text, given := c.RuntimeParams[poolParam]
	if !given {
		return usualPool, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < smallestPool || n > largestPool {
		return 0, bridge.Errorf(bridge.Invalid, "%s in the database address must be a number from %d to %d; write for example postgres://host/database?%s=16", poolParam, smallestPool, largestPool, poolParam)
	}
	return int32(n), nil
}

func openPostgres(ctx context.Context, address string) (*Store, error) {
	_, size, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(lowerScheme(address))
	if err != nil {
		return nil, errAddress
	}
	for name, value := range sessionLimits {
		config.ConnConfig.RuntimeParams[name] = value
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	config.MaxConns = size
	listening := config.ConnConfig.Copy()
	config.ConnConfig.DialFunc = bound(config.ConnConfig.DialFunc) // who listens may wait for as long as nothing happens
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, errAddress
	}
	d := &postgresDB{pool: pool, db: stdlib.OpenDBFromPool(pool), config: listening, id: bridge.NewID("rep_"), wakes: wakes{closed: make(chan struct{})}}
	s := &Store{group: newGroup(nil), db: d, pg: d}
	if err := d.db.PingContext(ctx); err != nil {
		return nil, errors.Join(connectTrouble(err, d.config), s.Close())
	}
	if err := migratePostgres(ctx, d.db); err != nil {
		return nil, errors.Join(cutOff(err, d.config), s.Close())
	}
	return s, nil
}

// cutOff tells a connection that ended while the schema was looked at from a schema that is wrong.
func cutOff(err error, c *pgx.ConnConfig) error {
	if !unreachable(err) && !errors.Is(err, io.EOF) {
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Cause: scrubbed(err, c),
		Message: fmt.Sprintf("the database at %s closed the connection during the schema check. Nothing was lost. Start again when the database runs", place(c))}
}

// place names the server and the database, without user and password.
func place(c *pgx.ConnConfig) string {
	return (&url.URL{Scheme: "postgres", Host: fmt.Sprintf("%s:%d", c.Host, c.Port), Path: c.Database}).String()
}

// scrubbed keeps the password out of an error's text.
func scrubbed(err error, c *pgx.ConnConfig) error {
	if c.Password == "" || !strings.Contains(err.Error(), c.Password) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), c.Password, "[redacted]"))
}

func migratePostgres(ctx context.Context, db *sql.DB) error {
	dir, err := migrationsOf("postgres")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker() // replicas that start together migrate one after another
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	return migrateUp(ctx, p)
}

// direct runs a few statements in one transaction.
func (d *postgresDB) direct(ctx context.Context, raw func(*tx) error) error {
	t, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return runTrouble(err)
	}
	if err := raw(&tx{ctx: ctx, q: pgTx{t}, index: tsvector}); err != nil {
		_ = t.Rollback()
		return runTrouble(err)
	}
	return runTrouble(t.Commit())
}

// once runs one statement, which is a transaction of its own.
func (d *postgresDB) once(ctx context.Context, raw func(*tx) error) error {
	return runTrouble(raw(&tx{ctx: ctx, q: pgDB{d.db}, index: tsvector}))
}

// wakes is what other replicas are to be told. Telling takes a lock of the whole
// database at its commit, so that one telling stands for all commits before it.
// It has a connection of its own, so that it keeps no step from one.
type wakes struct {
	mu      sync.Mutex // guards telling and more
	telling bool
	more    bool
	conn    *pgx.Conn // of the one that tells
	told    sync.WaitGroup
	closed  chan struct{}
}

// wakePause is the least time between two wake-ups that one replica sends. The first one goes out at once. A replica that works looks
// for more work by itself, so that the others need to hear of it only now and then; each of their looks that finds nothing is two
// statements.
const wakePause = 50 * time.Millisecond

// pause waits until the next wake-up may go out, or until the database is closed.
func (w *wakes) pause() {
	timer := time.NewTimer(wakePause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.closed:
	}
}

// announce lets other replicas know that there may be something to do.
func (d *postgresDB) announce() {
	d.wakes.mu.Lock()
	defer d.wakes.mu.Unlock()
	if d.wakes.telling {
		d.wakes.more = true
		return
	}
	d.wakes.telling = true
	d.wakes.told.Go(d.tell)
}

func (d *postgresDB) tell() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		d.tellOnce(ctx)
		cancel()
		d.wakes.pause()
		d.wakes.mu.Lock()
		if !d.wakes.more {
			d.wakes.telling = false
			d.wakes.mu.Unlock()
			return
		}
		d.wakes.more = false
		d.wakes.mu.Unlock()
	}
}

// tellOnce may fail: who does not hear of it looks by itself some time.
func (d *postgresDB) tellOnce(ctx context.Context) {
	if d.wakes.conn == nil {
		conn, err := pgx.ConnectConfig(ctx, d.config)
		if err != nil {
			return
		}
		d.wakes.conn = conn
	}
	if _, err := d.wakes.conn.Exec(ctx, "SELECT pg_notify($1, $2)", wakeChannel, d.id); err != nil {
		_ = d.wakes.conn.Close(ctx)
		d.wakes.conn = nil
	}
}

// view implements backend: one snapshot for all that fn reads.
func (d *postgresDB) view(ctx context.Context) (querier, func() error, error) {
	t, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	return pgTx{t}, func() error { _ = t.Rollback(); return nil }, nil // a view has nothing to keep
}

func (d *postgresDB) index() *textIndex { return tsvector }

func (d *postgresDB) close() error {
	err := d.db.Close()
	close(d.wakes.closed)
	d.wakes.told.Wait()
	if d.wakes.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = d.wakes.conn.Close(ctx)
		cancel()
	}
	d.pool.Close()
	return err
}

// pgDB and pgTx give PostgreSQL arguments that it can take.
type pgDB struct{ db *sql.DB }

// ExecContext implements querier.
func (c pgDB) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return c.db.ExecContext(ctx, query, plain(args)...)
}

// QueryContext implements querier.
func (c pgDB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return c.db.QueryContext(ctx, query, plain(args)...)
}

type pgTx struct{ t *sql.Tx }

// ExecContext implements querier.
func (c pgTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return c.t.ExecContext(ctx, query, plain(args)...)
}

// QueryContext implements querier.
func (c pgTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return c.t.QueryContext(ctx, query, plain(args)...)
}

// plain turns named types into the basic ones that the driver encodes. Text in
// PostgreSQL holds no NUL and nothing that is not UTF-8: such bytes become
// U+FFFD, so that no reply, whatever it holds, fails to be recorded.
func plain(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		if v := reflect.ValueOf(a); v.Kind() == reflect.String {
			out[i] = strings.ReplaceAll(strings.ToValidUTF8(v.String(), "\ufffd"), "\x00", "\ufffd")
		}
	}
	return out
}

// Listen calls wake whenever another replica committed something, until ctx
// ends. A lost connection is made again, and wake is called then too, because
// something may have been missed. On SQLite there is nobody else, and it waits.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	d, ok := s.db.(*postgresDB)
	if !ok {
		<-ctx.Done()
		return nil
	}
	for failed := 0; ctx.Err() == nil; failed++ {
		if d.listenOnce(ctx, func() { failed = 0; wake() }) == nil {
			break
		}
		_ = pause.For(ctx, min(time.Duration(100<<min(failed, 6))*time.Millisecond, 5*time.Second))
	}
	return nil
}

func (d *postgresDB) listenOnce(ctx context.Context, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+wakeChannel); err != nil {
		return err
	}
	wake()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload != d.id {
			wake()
		}
	}
}
