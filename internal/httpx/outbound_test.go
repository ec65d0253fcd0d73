package httpx_test

import (
	"net/http"
	"testing"
	"time"

	"drawbridge/internal/httpx"
)

// TestLoopback: names and addresses of this machine, and what only looks so.
func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example": false, "127.0.0.1.example": false, "2130706433": false,
	} {
		if got := httpx.Loopback(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

// TestSafeForKey: a key goes to https, or to this machine alone.
func TestSafeForKey(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://a.example": true, "https://a.example/v1": true, "http://127.0.0.1:1": true, "http://[::1]:1/v1": true, "http://localhost": true,
		"http://a.example": false, "https://u@a.example": false, "https://a.example?x=1": false, "https://a.example#x": false, "ftp://a": false, "": false, "https://": false,
	} {
		if err := httpx.SafeForKey("url", address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestRetryAfter reads all forms of the wish to wait.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for said, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0.5": 500 * time.Millisecond, "Sat, 21 Nov 2026 10:01:00 GMT": time.Minute, "Sat, 21 Nov 2026 09:00:00 GMT": 0,
		"1e300": 24 * time.Hour, "Inf": 24 * time.Hour, "NaN": 0, "-5": 0, "soon": 0, "": 0,
	} {
		if got := httpx.RetryAfter(http.Header{"Retry-After": {said}}, now); got != want {
			t.Errorf("%q: %s", said, got)
		}
	}
	if got := httpx.RetryAfter(http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, now); got != 1500*time.Millisecond {
		t.Errorf("milliseconds: %s", got)
	}
}
