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

// through opens a proxy in front of a database of the test's own and a connection through it.
func through(t *testing.T) (*pgproxy.Proxy, *pgx.Conn) {
	t.Helper()
	p, err := pgproxy.Start(pg.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, connect(t, p)
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

// batch sends so many statements without waiting in between.
func batch(ctx context.Context, c *pgx.Conn, n int) error {
	var b pgx.Batch
	for i := range n {
		b.Queue("SELECT $1::int", i)
	}
	return c.SendBatch(ctx, &b).Close()
}

// TestLosesACommit: the chosen COMMIT, as pgx sends it or as a prepared statement, is undone or done as the test says, its client hears
// of neither, and no other COMMIT is touched. A client that asks for TLS first and goes on without it is read as well.
func TestLosesACommit(t *testing.T) {
	t.Parallel()
	commits := map[string]func(context.Context, pgx.Tx) error{
		"a query":  func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"prepared": func(ctx context.Context, tx pgx.Tx) error { return prepared(ctx, tx, "COMMIT") },
	}
	for name, commit := range commits {
		for _, recorded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/recorded %t", name, recorded), func(t *testing.T) {
				t.Parallel()
				p, first := through(t)
				if _, err := first.Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
					t.Fatal(err)
				}
				p.LoseCommit(2, recorded)
				want := 0
				for n := range 3 {
					c, err := pgx.Connect(t.Context(), strings.Replace(p.URL(), "sslmode=disable", "sslmode=prefer", 1))
					if err != nil {
						t.Fatal(err)
					}
					tx, err := c.Begin(t.Context())
					if err == nil {
						_, err = tx.Exec(t.Context(), "INSERT INTO kept VALUES ($1)", n)
					}
					if err != nil {
						t.Fatal(err)
					}
					if err = commit(t.Context(), tx); (err != nil) != (n == 1) {
						t.Errorf("commit %d: %v", n, err)
					}
					_ = c.Close(t.Context())
					if n != 1 || recorded {
						want++
					}
				}
				var got int
				if err := first.QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&got); err != nil || got != want || p.Lost() != 1 {
					t.Errorf("%d rows, %d lost, %v; want %d rows", got, p.Lost(), err, want)
				}
			})
		}
	}
}

// prepared executes a text by the name under which pgx prepared it.
func prepared(ctx context.Context, tx pgx.Tx, text string) error {
	_, err := tx.Conn().Exec(ctx, text, pgx.QueryExecModeCacheStatement)
	return err
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
