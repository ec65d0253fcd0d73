package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
)

// StartTrouble is startTrouble.
func StartTrouble(err error, path string) error { return startTrouble(err, path) }

// OnNetwork is the error for a path on a network file system.
func OnNetwork(path, name string) error { return onNetwork(path, name) }

// Plan is one statement that ran and how SQLite goes about it.
type Plan struct {
	Query string
	Steps []string
}

// Plans runs fn in a transaction that is rolled back and explains each of its statements.
func (s *Store) Plans(ctx context.Context, fn func(*bridge.Scene) error) ([]Plan, error) {
	var plans []Plan
	undo := fmt.Errorf("undo")
	err := s.direct(ctx, func(*tx) error {
		e := &explainer{q: cachedConn{s.sqlite()}}
		t := &tx{ctx: ctx, q: e, index: fts5}
		sc := bridge.NewScene()
		sc.Search = t.search
		err := t.step(sc, fn)
		plans = e.plans
		return errors.Join(err, undo)
	})
	if errors.Is(err, undo) {
		err = nil
	}
	return plans, err
}

// ErrBroken is the error of a look-up that FailAt fails.
var ErrBroken = errors.New("the disk cannot be read")

// FailAt runs fn as a step whose look-up number n fails, and rolls it back. It returns how many statements the step wrote.
func (s *Store) FailAt(ctx context.Context, n int, fn func(*bridge.Scene) error) (writes int, err error) {
	undo := errors.New("undo")
	direct := s.direct(ctx, func(*tx) error {
		q := &failing{querier: cachedConn{s.sqlite()}, left: n}
		err = (&tx{ctx: ctx, q: q, index: fts5}).step(bridge.NewScene(), fn)
		writes = q.writes
		return undo
	})
	if !errors.Is(direct, undo) {
		err = errors.Join(err, direct)
	}
	return writes, err
}

type failing struct {
	querier
	left, writes int
}

func (f *failing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if f.left--; f.left == 0 {
		return nil, ErrBroken
	}
	return f.querier.QueryContext(ctx, query, args...)
}

func (f *failing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	f.writes++
	return f.querier.ExecContext(ctx, query, args...)
}

// LanePlans is Plans for what is done with work beside steps.
func (s *Store) LanePlans(ctx context.Context, fn func(Lanes) error) ([]Plan, error) {
	e := &explainer{q: cachedConn{s.sqlite()}}
	undo := errors.New("undo")
	err := s.direct(ctx, func(*tx) error { return errors.Join(fn(Lanes{&tx{ctx: ctx, q: e, index: fts5}}), undo) })
	if errors.Is(err, undo) {
		err = nil
	}
	return e.plans, err
}

// Lanes is what is done with work beside steps.
type Lanes struct{ t *tx }

// Claim, NextFor and Extend are those of a Store; Apply is what a step does with work.
func (l Lanes) Claim(c bridge.Claim) ([]bridge.Work, error) { return l.t.claim(c) }
func (l Lanes) NextFor(c bridge.Claim) (time.Time, error)   { return l.t.nextFor(c) }
func (l Lanes) Extend(w bridge.Work, until time.Time) error { return l.t.extend(w, until) }
func (l Lanes) Apply(c bridge.LaneChange) error {
	for _, st := range laneStatements([]bridge.LaneChange{c}, "") {
		if err := l.t.exec(st.sql, st.args...); err != nil {
			return err
		}
	}
	return nil
}

type explainer struct {
	q     querier
	plans []Plan
}

func (e *explainer) explain(ctx context.Context, query string, args []any) error {
	steps, err := selectAll(&tx{ctx: ctx, q: e.q}, func(row scanner) (step string, err error) {
		var id, parent, unused int
		err = row.Scan(&id, &parent, &unused, &step)
		return step, err
	}, "EXPLAIN QUERY PLAN "+query, args...)
	e.plans = append(e.plans, Plan{Query: strings.Join(strings.Fields(query), " "), Steps: steps})
	return err
}

func (e *explainer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := e.explain(ctx, query, args); err != nil {
		return nil, err
	}
	return e.q.ExecContext(ctx, query, args...)
}

func (e *explainer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := e.explain(ctx, query, args); err != nil {
		return nil, err
	}
	return e.q.QueryContext(ctx, query, args...)
}

// Exec runs SQL on the write connection outside any transaction.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	s.leader <- struct{}{}
	defer func() { <-s.leader }()
	s.sqlite().kept.Wrote() // nobody else sees a statement of this connection
	_, err := s.sqlite().conn.ExecContext(ctx, query, args...)
	return err
}

// ExecBeside runs SQL on a connection of its own, as another program does.
func (s *Store) ExecBeside(ctx context.Context, query string) error {
	var path string
	if err := s.sqlite().read.QueryRowContext(ctx, "SELECT file FROM pragma_database_list").Scan(&path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, query)
	return errors.Join(err, db.Close())
}

// Log returns how many pages stand in the log.
func (s *Store) Log(ctx context.Context) (pages int, err error) {
	var busy, copied int
	err = s.sqlite().read.QueryRowContext(ctx, "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &pages, &copied)
	return pages, err
}

// Pragma reads a setting of the write connection.
func (s *Store) Pragma(ctx context.Context, name string) (value string, err error) {
	s.leader <- struct{}{}
	defer func() { <-s.leader }()
	err = s.sqlite().conn.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	return value, err
}

// ReadPragma reads a setting of a read connection.
func (s *Store) ReadPragma(ctx context.Context, name string) (value string, err error) {
	err = s.sqlite().read.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	return value, err
}

// Together runs functions as one batch, in order, and returns their errors.
func (s *Store) Together(ctx context.Context, fns []func(*bridge.Scene) error) []error {
	batch := make([]*update, len(fns))
	for i, fn := range fns {
		batch[i] = &update{ctx: ctx, fn: fn, done: make(chan struct{})}
	}
	s.leader <- struct{}{}
	s.commit(batch)
	<-s.leader
	errs := make([]error, len(batch))
	for i, u := range batch {
		errs[i] = u.err
	}
	return errs
}

func (s *Store) sqlite() *sqliteDB { return s.db.(*sqliteDB) }

// CutOff is how an error of the migration at the start is told.
func CutOff(err error) error { return cutOff(err, &pgx.ConnConfig{}) }

// Lock is the descriptor that keeps other bridges off the file.
func (s *Store) Lock() *os.File { return s.sqlite().lock }

// Bound makes dial's connections end when the server is silent for longer than its own limits allow.
var Bound = bound

// Path is where SQLite has its file.
func (s *Store) Path(ctx context.Context) (path string) {
	_ = s.sqlite().conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list").Scan(&path)
	return path
}

// Canceled is canceled.
func Canceled(ctx context.Context, err error) error { return readTrouble(canceled(ctx, err)) }

// InLaneOrder is the order in which steps that go side by side write what they do with work.
func InLaneOrder(changes []bridge.LaneChange) []bridge.LaneChange {
	return inLaneOrder(changes, "lock")
}

// Prepared returns how many look-ups SQLite's views have prepared.
func Prepared(s *Store) int {
	r := &s.db.(*sqliteDB).prepared
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// RecordEvents is the statement after which a transaction may record events; readers of events wait for its end.
const RecordEvents = recordEvents

// LoseTransaction rolls the transaction back as SQLite does by itself when the disk is full.
func (s *Store) LoseTransaction(ctx context.Context) error {
	_, err := s.sqlite().conn.ExecContext(ctx, "ROLLBACK")
	return err
}

// Statements returns how many statements a step takes that is rolled back. With kept it may use rows that are kept.
func (s *Store) Statements(ctx context.Context, kept bool, fn func(*bridge.Scene) error) (n int, err error) {
	undo := errors.New("undo")
	direct := s.direct(ctx, func(own *tx) error {
		c := &counter{querier: own.q}
		t := &tx{ctx: ctx, q: c, index: fts5}
		if kept {
			t.kept = &s.sqlite().kept
		}
		err = t.step(bridge.NewScene(), fn)
		n = c.n
		return undo
	})
	if !errors.Is(direct, undo) {
		err = errors.Join(err, direct)
	}
	return n, err
}

type counter struct {
	querier
	n int
}

func (c *counter) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.n++
	return c.querier.QueryContext(ctx, query, args...)
}

func (c *counter) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.n++
	return c.querier.ExecContext(ctx, query, args...)
}
