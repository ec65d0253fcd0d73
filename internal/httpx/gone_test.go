package httpx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
)

// TestClientGoneIsNotAnError: a client that went away once made a line at the level of our own faults.
func TestClientGoneIsNotAnError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gone  bool
		cause error
		level string
	}{
		"the client went away":            {true, fmt.Errorf("read: %w", context.Canceled), "info"},
		"something of ours was cancelled": {false, context.Canceled, "error"},
		"our fault while the client went": {true, errors.New("disk"), "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out bytes.Buffer
			h := httpx.RequestLog(httpx.LogOptions{Log: zerolog.New(&out)}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.gone {
					cancel()
				}
				httpx.RecordOf(r.Context()).Err = tt.cause
				httpx.WriteError(w, http.StatusServiceUnavailable, "unavailable", "cancelled")
			}))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
			if want := `"level":"` + tt.level + `"`; !strings.Contains(out.String(), want) {
				t.Errorf("want %s in %s", want, out.String())
			}
		})
	}
}
