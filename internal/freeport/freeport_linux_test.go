package freeport_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"drawbridge/internal/freeport"
)

func hold(t *testing.T) string {
	t.Helper()
	port, release, err := freeport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	return port
}

// A server starts on its port, crashes with a client connected, and starts again.
func TestServerComesAndGoes(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + hold(t)
	if c, err := net.Dial("tcp", address); err == nil {
		t.Errorf("somebody listens already; connected from %s", c.LocalAddr())
	}
	for range 2 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// While nobody listens on a held port, no connection gets it; and no two holds are the same.
func TestNobodyElseGetsIt(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	held := map[string]bool{}
	for range 50 {
		port := hold(t)
		n, err := strconv.Atoi(port)
		if err != nil || n < 10_000 || n > 65_535 || held[port] {
			t.Errorf("port %q, after %v", port, held)
		}
		held[port] = true
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n}}
		if c, err := from.DialContext(t.Context(), "tcp", server.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a connection from the held port %s: %v, %v", port, c, err)
		}
	}
}
