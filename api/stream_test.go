package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
)

// quietStore has a timeline without events.
type quietStore struct{ noStore }

func (quietStore) View(_ context.Context, fn func(*bridge.Scene) error, _ ...bridge.Need) error {
	return fn(bridge.WholeScene(&bridge.Rows{}, true))
}

// deadlines is a writer that knows until when it may write.
type deadlines struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.until = t; return nil }

func TestQuietStreamBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nothing := func() *policy.Policy { return &policy.Policy{} }
		engine, err := engine.New(engine.Options{Store: quietStore{}, Runtime: echoCloud(), Actions: relay{}, Policy: nothing,
			Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := api.New(api.Options{Engine: engine, Policy: nothing, Token: testToken, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events", nil)
		r.Header.Set("X-Bridge-Token", testToken)
		r.Header.Set("Accept", "text/event-stream")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() { defer close(done); h.ServeHTTP(w, r) }()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if n := strings.Count(w.Body.String(), ": heartbeat\n\n"); n != 2 || !w.Flushed {
			t.Errorf("%d heartbeats in a minute, flushed %v", n, w.Flushed)
		}
		if left := time.Until(w.until); left <= 0 || left > 15*time.Second {
			t.Errorf("the write deadline is %s away", left)
		}
		cancel()
		<-done
	})
}
