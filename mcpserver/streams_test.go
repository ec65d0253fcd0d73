package mcpserver_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
	"drawbridge/mcpserver/doors"
)

// TestStreamsPerToken: a client that opens streams without end is refused in words, and others are not.
func TestStreamsPerToken(t *testing.T) {
	t.Parallel()
	enter := mcpserver.Streams()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil)
	var done []func()
	for n := range 16 {
		end, err := enter(r, "token")
		if err != nil {
			t.Fatalf("stream %d: %v", n, err)
		}
		done = append(done, end)
	}
	if _, err := enter(r, "token"); bridge.KindOf(err) != bridge.RateLimited || bridge.RetryAfter(err) <= 0 {
		t.Errorf("one too many: %v", err)
	}
	end, err := enter(r, "another")
	if err != nil {
		t.Fatalf("another token: %v", err)
	}
	done = append(done, end)
	done[0]()
	if end, err = enter(r, "token"); err != nil {
		t.Fatalf("after one was closed: %v", err)
	}
	for _, end := range append(done[1:], end) {
		end()
	}
}

// TestStreamsAtOnce: streams that are opened at the same moment do not all get the places that are left.
func TestStreamsAtOnce(t *testing.T) {
	t.Parallel()
	enter := mcpserver.Streams()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil)
	start, ends := make(chan struct{}), make([]func(), 64)
	var clients sync.WaitGroup
	for i := range ends {
		clients.Go(func() {
			<-start
			if end, err := enter(r, "token"); err == nil {
				ends[i] = end
			} else if bridge.KindOf(err) != bridge.RateLimited {
				t.Error(err)
			}
		})
	}
	close(start)
	clients.Wait()
	open := 0
	for _, end := range ends {
		if end != nil {
			open++
			end()
		}
	}
	if open != 16 {
		t.Errorf("%d of 64 streams were opened at once, want 16", open)
	}
}

// TestTokensOfOneClientAtOnce: of tokens for one client that are made at the same moment, one is good in the end.
func TestTokensOfOneClientAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	rings := []*doors.Keyring{doors.NewKeyring(w.engine), doors.NewKeyring(w.engine)}
	start := make(chan struct{})
	var makers sync.WaitGroup
	for i := range 16 {
		makers.Go(func() {
			<-start
			if _, _, err := rings[i%2].Mint(t.Context(), main.ID, "cursor"); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	makers.Wait()
	all, err := rings[0].List(t.Context(), main.ID)
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for _, token := range all {
		if token.Client == "cursor" && !token.Revoked() {
			good++
		}
	}
	if good != 1 {
		t.Errorf("%d of 16 tokens for one client are good, want 1", good)
	}
}
