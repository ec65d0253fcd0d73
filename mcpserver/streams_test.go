package mcpserver_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
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
