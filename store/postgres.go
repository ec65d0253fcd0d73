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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"drawbridge/bridge"
)

// Names that replicas share: the lock that makes one of them the writer, and
// the channel on which they wake each other.
const (
	writerLock  = 0x6472617762726467 // "drawbrdg"
	wakeChannel = "drawbridge_wake"
)

// The server's own limits on our sessions. A replica that is stopped in the
// middle of a transaction would hold the writer's lock for all; the server ends
// its session instead, and what it did is rolled back.
var sessionLimits = map[string]string{
	"idle_in_transaction_session_timeout": "5000",
	"lock_timeout":                        "20000",
	"statement_timeout":                   "60000",
	"application_name":                    "drawbridge",
	"timezone":                            "UTC",
}

// postgresDB is a database that several replicas share.
type postgresDB struct {
	db     *sql.DB
	config *pgx.ConnConfig
	// id tells our own wake-ups from the others'.
	id string
}

// errAddress does not repeat what the library says: its text may hold the address, and with it the password.
var errAddress = bridge.Errorf(bridge.Invalid, "the database address is no PostgreSQL URL; write postgres://user:password@host:5432/database")

func openPostgres(ctx context.Context, address string) (*Store, error) {
	config, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	for name, value := range sessionLimits {
		config.RuntimeParams[name] = value
	}
	size, err := poolSize(config)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	asking := config.Copy()
	asking.DialFunc = bound(config.DialFunc) // who listens may wait for as long as nothing happens
	d := &postgresDB{db: stdlib.OpenDB(*asking), config: config, id: bridge.NewID("rep_")}
	d.db.SetMaxOpenConns(size)
	d.db.SetMaxIdleConns(size)
	s := &Store{group: newGroup(d)}
	if err := d.db.PingContext(ctx); err != nil {
		return nil, errors.Join(connectTrouble(err, config), s.Close())
	}
	if err := migratePostgres(ctx, d.db); err != nil {
		return nil, errors.Join(cutOff(err, config), s.Close())
	}
	return s, nil
}

// poolParam is the address's parameter for the size of the pool, by the name that pgxpool gave it.
const poolParam = "pool_max_conns"

// The bounds of the pool. Listening takes one connection more.
const (
	usualPool, smallestPool, largestPool = 16, 2, 1000
)

// poolSize takes the size of the pool out of what the server would get as its own setting.
func poolSize(c *pgx.ConnConfig) (int, error) {
	text, given := c.RuntimeParams[poolParam]
	if !given {
		return usualPool, nil
	}
	delete(c.RuntimeParams, poolParam)
	n, err := strconv.Atoi(text)
	if err != nil || n < smallestPool || n > largestPool {
		return 0, bridge.Errorf(bridge.Invalid, "%s in the database address must be a number from %d to %d; write for example postgres://host/database?%s=16", poolParam, smallestPool, largestPool, poolParam)
	}
	return n, nil
}

// cutOff tells a connection that ended while the schema was looked at from a schema that is wrong.
func cutOff(err error, c *pgx.ConnConfig) error {
	if !unreachable(err) && !errors.Is(err, io.EOF) {
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Cause: scrubbed(err, c),
		Message: fmt.Sprintf("the database at %s ended the connection while its schema was looked at; nothing was lost, start again when it runs", place(c))}
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
	return migrateUp(ctx, p, db, "postgres")
}

// begin implements backend. The advisory lock makes this replica the one
// writer until the transaction ends, so that what a function reads cannot
// change before it writes, as on SQLite. Every commit is durable: a server that
// lost a lease would hand it out again while the first holder lives.
func (d *postgresDB) begin(ctx context.Context, _ bool) (querier, error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	q := pgConn{conn}
	for _, word := range []string{"BEGIN", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", writerLock)} {
		if _, err := q.ExecContext(ctx, word); err != nil {
			return nil, errors.Join(err, d.discard(conn))
		}
	}
	return q, nil
}

// end implements backend. A connection that cannot end its transaction is thrown away.
func (d *postgresDB) end(ctx context.Context, q querier, commit bool) error {
	c, ok := q.(pgConn)
	if !ok {
		return fmt.Errorf("end of a foreign transaction %T", q)
	}
	word := "ROLLBACK"
	if commit {
		word = "COMMIT"
	}
	if _, err := c.ExecContext(ctx, word); err != nil {
		return errors.Join(err, d.discard(c.conn))
	}
	return c.conn.Close()
}

// announce implements backend. The server tells it to the others when it commits.
func (d *postgresDB) announce(ctx context.Context, q querier) error {
	_, err := q.ExecContext(ctx, "SELECT pg_notify($1, $2)", wakeChannel, d.id)
	return err
}

// discard closes a connection for good instead of giving it back to the pool.
func (d *postgresDB) discard(conn *sql.Conn) error {
	_ = conn.Raw(func(driverConn any) error {
		if c, ok := driverConn.(*stdlib.Conn); ok {
			return c.Conn().Close(context.Background()) //nolint:contextcheck // the caller's may have ended
		}
		return nil
	})
	err := conn.Close()
	if errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// view implements backend: one snapshot for all that fn reads.
func (d *postgresDB) view(ctx context.Context) (querier, func() error, error) {
	t, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	return pgTx{t}, func() error { _ = t.Rollback(); return nil }, nil // a view has nothing to keep
}

// tidy implements backend: the server does that by itself.
func (d *postgresDB) tidy(context.Context, int) {}

// rows implements backend: between two transactions another replica may have written.
func (d *postgresDB) rows() *kept { return &kept{} }

func (d *postgresDB) index() *textIndex { return tsvector }

func (d *postgresDB) close() error { return d.db.Close() }

// pgConn and pgTx give PostgreSQL arguments that it can take.
type pgConn struct{ conn *sql.Conn }

// ExecContext implements querier.
func (c pgConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return c.conn.ExecContext(ctx, query, plain(args)...)
}

// QueryContext implements querier.
func (c pgConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return c.conn.QueryContext(ctx, query, plain(args)...)
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
		timer := time.NewTimer(min(time.Duration(100<<min(failed, 6))*time.Millisecond, 5*time.Second))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
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
