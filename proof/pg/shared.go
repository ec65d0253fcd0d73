package pg

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the server of this test binary: the first test that wants one
// starts it, and Main stops it.
var shared struct {
	sync.Once
	server *Server
	err    error
}

// Shared returns the test binary's own server, and starts it when it is the
// first to ask. Whoever calls it runs its tests with Main. Safe for concurrent use.
func Shared() (*Server, error) {
	shared.Do(func() {
		if bench := flag.Lookup("test.bench"); bench != nil && bench.Value.String() != "" {
			Durable = true
		}
		shared.server, shared.err = Start(context.Background())
	})
	return shared.server, shared.err
}

// Omitted reports whether tests on PostgreSQL are skipped after err, because the machine has no PostgreSQL or Variable is "none".
func Omitted(err error) bool { return errors.Is(err, ErrNoBinaries) }

// Need returns the shared server. Without one it fails t, or skips t where Omitted says so.
func Need(t testing.TB) *Server {
	t.Helper()
	server, err := Shared()
	if Omitted(err) {
		t.Skip("SKIPPED: " + err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// Database makes a database on the shared server that goes when t ends, and
// returns its URL. Without a server it fails t, or skips t where Omitted says so.
func Database(t testing.TB) string {
	t.Helper()
	server := Need(t)
	address, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Drop(context.Background(), address); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	return address
}

// Main runs a binary's tests, stops the shared server if one was started, and
// returns the exit code: not 0 either when a check fails afterwards, such as one
// for goroutines that were left behind.
func Main(m interface{ Run() int }, checks ...func() error) int {
	code := m.Run()
	if shared.server != nil {
		checks = append([]func() error{shared.server.Stop}, checks...)
	}
	for _, check := range checks {
		if err := check(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, "after the tests:", err)
			code = 1
		}
	}
	return code
}
