package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// pgStep is one step on PostgreSQL. It takes the locks of what it looks at with the
// statements that load it, and writes everything with the commit: a step whose rows
// are known beforehand is two round trips. Locks are held until the commit.
type pgStep struct {
	d    *postgresDB
	conn *pgxpool.Conn
	sc   *bridge.Scene
	// want are the locks that the step begins with, sorted; held are those that it has.
	want []string
	held map[string]bool
	// jobs are hints that say whose tree it is.
	jobs []bridge.NeedJob
	// busy are locks that somebody else had, or that came too late.
	busy []string
	// fresh says that the transaction has just begun: the step may wait for one lock.
	fresh bool
}

// errBusy says that the step wants locks beside those that it holds; it begins again with all of them.
var errBusy = errors.New("the step needs more locks")

// again reports whether a step that failed so may succeed when it runs again: it
// met another one (deadlock, serialization), or what it had read was not there any
// more (unique). PostgreSQL's manual, appendix A.
func again(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, errBusy) || errors.As(err, &pg) && slices.Contains([]string{"40001", "40P01", "23505"}, pg.Code)
}

// stepTries bounds how often a step runs that meets others, lockTries how often it
// begins again with more locks.
const (
	stepTries = 20
	lockTries = 1000
)

// Update implements bridge.Store on PostgreSQL.
func (d *postgresDB) update(ctx context.Context, fn func(*bridge.Scene) error, hints []bridge.Need) error {
	var want []string
	for try, grown := 1, 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := &pgStep{d: d, sc: bridge.NewScene(), want: want, held: map[string]bool{}}
		err := s.run(ctx, fn, hints)
		var pg *pgconn.PgError
		if err == nil || !again(err) || try == stepTries || errors.As(err, &pg) && pg.Code == "23505" && try > 2 {
			return runTrouble(err)
		}
		if len(s.busy) > 0 {
			if grown++; grown < lockTries {
				try--
			}
			want = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(s.busy, maps.Keys(s.held)))))
			continue
		}
		_ = pause.For(ctx, time.Duration(try)*time.Millisecond) // a context that has ended is seen above
	}
}

// run runs the step once. A panic of fn is its error.
func (s *pgStep) run(ctx context.Context, fn func(*bridge.Scene) error, hints []bridge.Need) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update panicked: %v", p)
		}
		s.end()
	}()
	if len(hints) > 0 {
		if err := s.fetch(ctx, hints); err != nil {
			return err
		}
	}
	if err := decide(ctx, s.sc, fn, s.fetch); err != nil {
		return err
	}
	if !s.sc.Changed() {
		return nil
	}
	return s.commit(ctx)
}

// end lets go of the connection; a transaction that was not committed is rolled back.
func (s *pgStep) end() {
	if s.conn == nil {
		return
	}
	if s.conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, failed := s.conn.Exec(ctx, "ROLLBACK"); failed != nil {
			_ = s.conn.Conn().Close(ctx)
		}
	}
	s.conn.Release()
}

// begin takes a connection and opens the transaction with the next batch.
func (s *pgStep) begin(ctx context.Context, b *pgx.Batch) error {
	if s.conn != nil {
		return nil
	}
	conn, err := s.d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	s.conn, s.fresh = conn, true
	b.Queue("BEGIN")
	for _, lock := range s.want {
		b.Queue("SELECT "+takeLock+" FROM ("+lockName+") AS lock", lock)
		s.held[lock] = true
	}
	return nil
}

// fetch loads needs in one round trip, with the locks of what they are about.
func (s *pgStep) fetch(ctx context.Context, needs []bridge.Need) error {
	b := &pgx.Batch{}
	if err := s.begin(ctx, b); err != nil {
		return err
	}
	s.lock(b, needs)
	for _, n := range needs {
		queries, err := queriesOf(s.sc, n)
		if err != nil {
			return err
		}
		for _, q := range queries {
			s.queue(b, n, q)
		}
	}
	if err := s.conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if len(s.busy) > 0 {
		return errBusy
	}
	return nil
}

// lock queues the locks of needs. The first of a step may be waited for; each
// further one is only tried, because two steps could wait for each other.
func (s *pgStep) lock(b *pgx.Batch, needs []bridge.Need) {
	seen, first := map[string]bool{}, s.fresh
	for _, n := range needs {
		key, args := s.lockOf(n)
		id := key + fmt.Sprint(args...)
		if key == "" || seen[id] {
			continue
		}
		seen[id] = true
		wait := s.fresh && len(s.want) == 0 && len(seen) == 1
		take := tryLock
		if wait {
			take = takeLock + "::text IS NOT NULL" // nothing that a planner could leave out
		}
		b.Queue("SELECT name, "+take+" FROM ("+key+") AS lock", plain(args)...).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var name string
				var got bool
				if err := rows.Scan(&name, &got); err != nil {
					return err
				}
				switch {
				case s.held[name]:
				case got && (first || name == capsLock): // what it is for is counted with it and never before
					s.held[name] = true
				default: // what was loaded before may have changed since
					s.busy = append(s.busy, name)
				}
			}
			return rows.Err()
		})
	}
	s.fresh = false
}

// lockOf returns a query for the lock of a need, "" when it has none or the step has it.
// Whose tree it is often follows from what the step knows, so that nothing has to be looked up.
func (s *pgStep) lockOf(n bridge.Need) (key string, args []any) {
	if j, ok := n.(bridge.NeedJob); ok {
		s.jobs = append(s.jobs, j)
	}
	if root := s.rootOf(bridge.OwnerOf(n)); root != "" {
		if s.held[treeLock(root)] {
			return "", nil
		}
		return treeOfRoot, []any{root}
	}
	if key, args = lockOf(n); key == lockName && s.held[fmt.Sprint(args...)] {
		return "", nil
	}
	return key, args
}

// rootOf returns the root of an owner's tree, "" when it is not known. It never changes.
func (s *pgStep) rootOf(o bridge.Owner) bridge.AgentID {
	if o.Root != "" {
		return o.Root
	}
	if c := s.sc.Rows.Commands.Row(o.Command); c != nil {
		o.Agent = c.Agent
	}
	if t := s.sc.Rows.Turns.Row(o.Turn); t != nil {
		o.Agent = t.Agent
	}
	if a := s.sc.Rows.Agents.Row(o.Agent); a != nil {
		return a.Root
	}
	for _, j := range s.jobs {
		if o.Agent != "" && (o.Agent == j.Agent || o.Agent == j.Parent) || o.Turn != "" && o.Turn == j.Turn {
			return j.Root
		}
	}
	return ""
}

func (s *pgStep) queue(b *pgx.Batch, n bridge.Need, q query) {
	sql := q.sql
	if _, work := n.(bridge.NeedWork); work {
		sql += " FOR UPDATE" // nobody else gives it back or takes it over until this step has ended
	}
	b.Queue(sql, plain(q.args)...).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		count := 0
		for rows.Next() {
			if err := q.row(pgRow{rows}); err != nil {
				return fmt.Errorf("%T: %w", n, err)
			}
			count++
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("%T: %w", n, err)
		}
		if q.done != nil {
			q.done(count)
		}
		return nil
	})
}

// commit writes what the step changed, in one round trip with the commit.
func (s *pgStep) commit(ctx context.Context) error {
	all, err := statementsOf(s.sc, tsvector)
	if err != nil {
		return err
	}
	if err := s.guard(ctx); err != nil {
		return err
	}
	b := &pgx.Batch{}
	if err := s.begin(ctx, b); err != nil {
		return err
	}
	for _, st := range all {
		b.Queue(st.sql, plain(st.args)...)
	}
	if len(s.sc.News) > 0 {
		news, err := eventStatements(s.sc)
		if err != nil {
			return err
		}
		b.Queue(recordEvents)
		for _, st := range news {
			b.Queue(st.sql, plain(st.args)...)
		}
	}
	b.Queue("COMMIT")
	// Who is let go before the answer is there would not know whether it is recorded.
	if err := s.conn.SendBatch(context.WithoutCancel(ctx), b).Close(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if !bridge.IsUnheard(ctx) {
		s.d.announce()
	}
	return nil
}

// pgRow gives a row's values to what scans them as database/sql does.
type pgRow struct{ rows pgx.Rows }

// Scan implements scanner. The database keeps truths as numbers.
func (r pgRow) Scan(dest ...any) error {
	for i, d := range dest {
		if b, ok := d.(*bool); ok {
			dest[i] = truth{b}
		}
	}
	return r.rows.Scan(dest...)
}

// truth scans a number into a truth.
type truth struct{ dst *bool }

// Scan implements sql.Scanner.
func (t truth) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("truth column holds %T", src)
	}
	*t.dst = n != 0
	return nil
}
