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

// A program that was told a port finds it free at each start, whatever happens while it is down.
func TestKeptPortStaysFree(t *testing.T) {
	t.Parallel()
	port := hold(t) // so that no other test has it
	address := "127.0.0.1:" + port
	release, err := freeport.Keep(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := freeport.Keep(address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("while a server listens: %v", err)
		}
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept() // it ends first, so that its side lingers
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(server.Close(), l.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n}}
	if c, err := from.DialContext(t.Context(), "tcp", other.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a connection from the kept port: %v, %v", c, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	for _, elsewhere := range []string{"[::1]:" + port, "0.0.0.0:" + port, "127.0.0.1:0", "nonsense"} {
		release, err := freeport.Keep(elsewhere)
		if err != nil || release() != nil {
			t.Errorf("%s: %v", elsewhere, err)
		}
	}
}
