package httpx_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"drawbridge/internal/freeport"
	"drawbridge/internal/httpx"
)

// named answers with its own name, so that a test can tell servers apart.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

// An address that is taken leaves none of the others taken: a bridge that starts half would answer relays and not its operator.
func TestListenAllTakesAllOrNone(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port, release, err := freeport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	free := "127.0.0.1:" + port
	_, err = httpx.ListenAll(t.Context(),
		httpx.ServerOptions{Addr: free, Setting: "listen in bridge.yaml", Handler: named("first")},
		httpx.ServerOptions{Addr: taken.Addr().String(), Setting: "operator.listen in bridge.yaml", Handler: named("second")})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()+" is in use") || !strings.Contains(err.Error(), "operator.listen in bridge.yaml") {
		t.Fatalf("the second address was taken already: %v", err)
	}
	again, err := net.Listen("tcp", free)
	if err != nil {
		t.Fatalf("the first address was kept: %v", err)
	}
	again.Close()
}

// serveBoth serves two handlers until stop is called; done then has what came of it.
func serveBoth(t *testing.T, first, second http.Handler) (all httpx.Servers, stop context.CancelFunc, done chan error) {
	t.Helper()
	all, err := httpx.ListenAll(t.Context(), httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: first}, httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	done = make(chan error, 1)
	go func() { done <- all.Serve(ctx) }()
	return all, stop, done
}

func TestServersServeAndStopTogether(t *testing.T) {
	t.Parallel()
	all, stop, done := serveBoth(t, named("first"), named("second"))
	c := client(t)
	for i, want := range []string{"first", "second"} {
		resp, err := c.Get("http://" + all[i].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("server %d answers %q: %v", i, body, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if resp, err := c.Get("http://" + s.Addr().String()); err == nil {
			resp.Body.Close()
			t.Errorf("%s still answers", s.Addr())
		}
	}
}

// Each server hears of the stop at once, whichever comes first in the list: the grace of one is not the start of the other's.
func TestServersDrainSideBySide(t *testing.T) {
	t.Parallel()
	begun, draining := make(chan struct{}, 2), make(chan struct{}, 2)
	both := make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-httpx.Draining(r.Context())
		draining <- struct{}{}
		<-both // neither request ends before both know
	})
	all, stop, done := serveBoth(t, slow, slow)
	c := client(t)
	answered := make(chan error, 2)
	for _, s := range all {
		go func() {
			resp, err := c.Get("http://" + s.Addr().String())
			if err == nil {
				resp.Body.Close()
			}
			answered <- err
		}()
		<-begun
	}
	stop()
	<-draining
	<-draining
	close(both)
	for range all {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestServersEndWithTheFirstThatFails(t *testing.T) {
	t.Parallel()
	all, err := httpx.ListenAll(t.Context(), httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: named("first")}, httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: named("second")})
	if err != nil {
		t.Fatal(err)
	}
	if err := all[1].CloseListener(); err != nil {
		t.Fatal(err)
	}
	if err := all.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), all[1].Addr().String()) {
		t.Errorf("the second server failed: %v", err)
	}
}
