package httpx_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
)

// serve runs a server and returns its URL and a function that stops it and
// returns what Serve returned.
func serve(t *testing.T, o httpx.ServerOptions) (string, func() error) {
	t.Helper()
	o.Addr, o.Log = "127.0.0.1:0", zerolog.Nop()
	s, err := httpx.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stopped := false
	stop := func() error {
		cancel()
		if stopped {
			return nil
		}
		stopped = true
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + s.Addr().String(), stop
}

func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestConn: a handler can learn later what became of its connection.
func TestConn(t *testing.T) {
	t.Parallel()
	type seen struct {
		*httpx.Conn
		next <-chan struct{}
	}
	conns := make(chan seen, 2)
	url, _ := serve(t, httpx.ServerOptions{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		conn := httpx.ConnOf(r.Context())
		conns <- seen{conn, conn.Next()}
	})})
	c := client(t)
	for range 2 {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	first, second := <-conns, <-conns
	if first.Conn != second.Conn {
		t.Fatal("two requests on two connections")
	}
	<-first.next
	select {
	case <-second.next:
		t.Error("a third request began")
	case <-first.Done():
		t.Error("it ended")
	default:
	}
	c.CloseIdleConnections()
	<-first.Done()
}

func TestTakenPortIsAnErrorAtStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := httpx.Listen(t.Context(), httpx.ServerOptions{Addr: l.Addr().String(), Handler: http.NotFoundHandler()}); err == nil {
		t.Fatal("a taken port was taken again")
	}
	if _, err := httpx.Listen(t.Context(), httpx.ServerOptions{Addr: "127.0.0.1:0"}); err == nil {
		t.Fatal("a server without a handler was made")
	}
}

func TestStopLetsRunningRequestsEnd(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	url, stop := serve(t, httpx.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-httpx.Draining(r.Context())
		if r.Context().Err() != nil {
			t.Error("the request was cut off although there was time")
		}
		_, _ = io.WriteString(w, "last words")
	})})
	answer := make(chan string, 1)
	c := client(t)
	go func() {
		resp, err := c.Get(url)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-begun
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "last words" {
		t.Errorf("answer %q", got)
	}
}

func TestStopCutsOffAfterTheGrace(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	url, stop := serve(t, httpx.ServerOptions{Grace: 10 * time.Millisecond, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})})
	c := client(t)
	go func() {
		resp, err := c.Get(url)
		if err == nil {
			resp.Body.Close()
		}
	}()
	<-begun
	if err := stop(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("stop returned %v", err)
	}
	<-ended
}

// A server's write timeout otherwise drops the answer of a handler that waits;
// its read timeout must not end the wait either.
func TestLingerOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	// A busy machine may need longer than the first of these for the request itself; then the next one is tried.
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second} {
		if lingered(t, timeout) {
			return
		}
	}
	t.Error("no request was read in time")
}

// lingered serves one request that is answered long after the server's timeouts, and fails t unless the answer arrives. It
// returns false where the handler was not even reached within them.
func lingered(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	var reached atomic.Bool
	url, stop := serve(t, httpx.ServerOptions{Read: timeout, Write: timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpx.ReadBody(w, r, 100); err != nil {
			return
		}
		httpx.Linger(w, time.Minute)
		reached.Store(true)
		timer := time.NewTimer(4 * timeout)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
			t.Error("the wait was cut off")
		case <-timer.C:
		}
		_, _ = io.WriteString(w, "ok")
	})})
	resp, err := client(t).Post(url, "text/plain", strings.NewReader("x"))
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if reached.Load() && (err != nil || string(body) != "ok") {
		t.Errorf("answer %q, %v", body, err)
	}
	return reached.Load()
}
