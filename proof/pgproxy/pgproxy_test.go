package pgproxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"drawbridge/proof/pg"
	"drawbridge/proof/pgproxy"
)

func TestMain(m *testing.M) { os.Exit(pg.Main(m, func() error { return goleak.Find() })) }

// through opens a proxy in front of a database of the test's own and a connection through it, with nothing counted yet.
func through(t *testing.T) (*pgproxy.Proxy, *pgx.Conn) {
	t.Helper()
	p, err := pgproxy.Start(pg.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	c := connect(t, p)
	p.Reset()
	return p, c
}

func connect(t *testing.T, p *pgproxy.Proxy) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func one(ctx context.Context, c *pgx.Conn, query string, args ...any) error {
	var n int
	return c.QueryRow(ctx, query, args...).Scan(&n)
}

// batch sends so many statements without waiting in between.
func batch(ctx context.Context, c *pgx.Conn, n int) error {
	var b pgx.Batch
	for i := range n {
		b.Queue("SELECT $1::int", i)
	}
	return c.SendBatch(ctx, &b).Close()
}

// TestCounts: what real pgx does, as it is counted on the wire.
func TestCounts(t *testing.T) {
	t.Parallel()
	exec := func(queries ...string) func(context.Context, *pgx.Conn) error {
		return func(ctx context.Context, c *pgx.Conn) error {
			for _, q := range queries {
				if _, err := c.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		do                                            func(context.Context, *pgx.Conn) error
		trips, statements, transactions, largestTrips int
	}{
		"a simple query":                     {exec("SELECT 1"), 1, 1, 1, 1},
		"a simple query of three statements": {exec("SELECT 1; SELECT 2; SELECT 3"), 1, 3, 1, 1},
		"BEGIN, one statement, COMMIT":       {exec("BEGIN", "SELECT 1", "COMMIT"), 3, 3, 1, 3},
		"two transactions":                   {exec("BEGIN", "COMMIT", "BEGIN", "SELECT 1", "ROLLBACK"), 5, 5, 2, 3},
		"an error":                           {func(ctx context.Context, c *pgx.Conn) error { _, _ = c.Exec(ctx, "SELECT 1/0"); return nil }, 1, 1, 1, 1},
		"a text longer than a buffer":        {exec("SELECT '" + strings.Repeat("x", 1<<20) + "'"), 1, 1, 1, 1},
		"the first use of a prepared statement": {func(ctx context.Context, c *pgx.Conn) error {
			return one(ctx, c, "SELECT $1::int", 1)
		}, 2, 1, 1, 2},
		"its further uses": {func(ctx context.Context, c *pgx.Conn) error {
			for range 3 {
				if err := one(ctx, c, "SELECT $1::int", 1); err != nil {
					return err
				}
			}
			return nil
		}, 4, 3, 3, 2},
		"a batch of 10, not yet prepared": {func(ctx context.Context, c *pgx.Conn) error { return batch(ctx, c, 10) }, 2, 10, 1, 2},
		"a batch of 10, prepared": {func(ctx context.Context, c *pgx.Conn) error {
			if err := one(ctx, c, "SELECT $1::int", 1); err != nil {
				return err
			}
			return batch(ctx, c, 10)
		}, 3, 11, 2, 2},
		"COPY": {func(ctx context.Context, c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "CREATE TEMP TABLE copied (n int4)"); err != nil {
				return err
			}
			_, err := c.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}, {2}}))
			return err
		}, 3, 2, 2, 1}, // the largest counts no round trip that only prepares
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, conn := through(t)
			if err := c.do(t.Context(), conn); err != nil {
				t.Fatal(err)
			}
			got := p.Snapshot()
			if got.Total.RoundTrips != c.trips || got.Total.Statements != c.statements || got.Total.Transactions != c.transactions || got.Total.Largest.RoundTrips != c.largestTrips {
				t.Errorf("counted %+v, texts %v; want %+v", got.Total, got.Statements, c)
			}
			p.Reset()
			if got := p.Snapshot(); got.Total != (pgproxy.Counts{}) || len(got.Statements) != 0 {
				t.Errorf("after a reset: %+v", got)
			}
		})
	}
}

// TestConnections: each connection has counts of its own, and one that listens does not count in the total.
func TestConnections(t *testing.T) {
	t.Parallel()
	p, first := through(t)
	second := connect(t, p)
	for c, query := range map[*pgx.Conn]string{first: "LISTEN news", second: "SELECT 1"} {
		if _, err := c.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.Exec(t.Context(), "SELECT pg_notify('news', 'x')"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.WaitForNotification(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := p.Snapshot()
	if len(s.Connections) != 2 || s.Connections[0].Statements != 1 || s.Connections[1].Statements != 2 || s.Connections[1].Connections != 1 {
		t.Errorf("the connections: %+v", s.Connections)
	}
	if s.Listeners.Statements != 1 || s.Listeners.Notifications != 1 || s.Total.Statements != 2 || s.Total.Notifies != 1 {
		t.Errorf("listeners %+v, total %+v", s.Listeners, s.Total)
	}
	if s.Statements["SELECT 1"] != 1 || s.Statements["LISTEN news"] != 0 || s.Unread != 0 {
		t.Errorf("texts %v, %d unread", s.Statements, s.Unread)
	}
}

// TestRefusedTLS: a client that asks for TLS first and goes on without it is counted.
func TestRefusedTLS(t *testing.T) {
	t.Parallel()
	p, _ := through(t)
	c, err := pgx.Connect(t.Context(), strings.Replace(p.URL(), "sslmode=disable", "sslmode=prefer", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := one(t.Context(), c, "SELECT $1::int", 1); err != nil {
		t.Fatal(err)
	}
	if s := p.Snapshot(); s.Unread != 0 || s.Total.Statements != 1 {
		t.Errorf("counted %+v", s)
	}
}

// TestServerGone: a client ends its wait when the server cannot be reached, and one of a closed proxy ends.
func TestServerGone(t *testing.T) {
	t.Parallel()
	p, err := pgproxy.Start("postgres://postgres@127.0.0.1:1/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := pgx.Connect(t.Context(), p.URL()); err == nil {
		t.Error("connected to nothing", c.Close(t.Context()))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	q, conn := through(t)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a query through a closed proxy got an answer")
	}
	if _, err := pgproxy.Start("postgres:///x?host=/tmp"); err == nil {
		t.Error("a socket's address was taken")
	}
}

// TestRoundTripTakesTheDelay: no answer is faster than the delay of both directions. TestLineDelaysOnce shows that none is slower.
func TestRoundTripTakesTheDelay(t *testing.T) {
	t.Parallel()
	p, c := through(t)
	const trip = 20 * time.Millisecond
	p.Delay(trip/2, trip/2)
	began := time.Now()
	if err := batch(t.Context(), c, 10); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < trip {
		t.Errorf("a batch at %s took %s", trip, took)
	}
}

// TestLineDelaysOnce: in virtual time, bytes arrive in order and exactly so much later than they were sent, each once.
func TestLineDelaysOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 50 * time.Millisecond
		client, in := net.Pipe()
		out, server := net.Pipe()
		go pgproxy.Carry(out, in, delay)
		began := time.Now()
		go func() {
			for i := range 10 {
				_, _ = fmt.Fprintf(client, "%d", i)
				time.Sleep(time.Millisecond)
			}
			_ = client.Close()
		}()
		for i := range 10 {
			b := make([]byte, 1)
			if _, err := io.ReadFull(server, b); err != nil || string(b) != fmt.Sprint(i) {
				t.Fatalf("read %q, %v; want %d", b, err, i)
			}
			if want := delay + time.Duration(i)*time.Millisecond; time.Since(began) != want {
				t.Errorf("byte %d took %s; want %s", i, time.Since(began), want)
			}
		}
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestPrepares: a round trip that only prepares a statement counts as such.
func TestPrepares(t *testing.T) {
	t.Parallel()
	p, conn := through(t)
	for i, want := range []pgproxy.Transaction{{RoundTrips: 2, Prepares: 1, Statements: 1}, {RoundTrips: 1, Statements: 1}} {
		p.Reset()
		if err := one(t.Context(), conn, "SELECT $1::int", 1); err != nil {
			t.Fatal(err)
		}
		if got := p.Snapshot().Total; got.Largest != want || got.Prepares != want.Prepares || want.Trips() != 1 {
			t.Errorf("use %d: %+v; want %+v", i+1, got, want)
		}
	}
}
