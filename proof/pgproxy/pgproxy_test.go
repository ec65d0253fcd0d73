package pgproxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
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

// TestLosesACommit: the chosen COMMIT, as pgx sends it or as a prepared statement, is undone or done as the test says, its client hears
// of neither, and no other COMMIT is touched.
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
					c, err := pgx.Connect(t.Context(), p.URL())
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

// TestDelays: in virtual time, bytes pass in order, each once, and exactly so much later than they were sent: there and back.
func TestDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const there, back = 30 * time.Millisecond, 20 * time.Millisecond
		client, in := net.Pipe()
		out, server := net.Pipe()
		go pgproxy.Between(in, out, func(at time.Time) { time.Sleep(time.Until(at)) }, there, back)
		began := time.Now()
		go func() {
			for i := range 10 {
				_, _ = fmt.Fprintf(client, "%d", i)
				time.Sleep(time.Millisecond)
			}
		}()
		echoed := make(chan error, 1)
		go func() {
			_, err := io.Copy(server, server)
			echoed <- err
		}()
		for i := range 10 {
			b := make([]byte, 1)
			if _, err := io.ReadFull(client, b); err != nil || string(b) != fmt.Sprint(i) {
				t.Fatalf("read %q, %v; want %d", b, err, i)
			}
			if want := there + back + time.Duration(i)*time.Millisecond; time.Since(began) != want {
				t.Errorf("byte %d took %s; want %s", i, time.Since(began), want)
			}
		}
		_ = client.Close()
		if err := <-echoed; err != nil { // the server hears of the end
			t.Error(err)
		}
	})
}
