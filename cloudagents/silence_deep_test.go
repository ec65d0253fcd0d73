//go:build deep

package cloudagents_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
)

// A silent connection is given up; one that talks is not, however long it takes:
// it talks sixteen times as often as it must, so that a busy machine does not silence it.
func TestStreamSilence(t *testing.T) {
	t.Parallel()
	silent := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	chatty := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 18 {
			_, _ = io.WriteString(w, "event: heartbeat\ndata: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(250 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		kind  bridge.ErrorKind
	}{"silent": {silent, bridge.Unavailable}, "never answers": {hang, bridge.Unavailable}, "chatty": {chatty, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{streamRoute: {{do: c.serve}}})
			client := newClient(t, f.URL, func(o *cloudagents.Options) { o.StreamIdle = 4 * time.Second })
			err := client.Stream(t.Context(), run1, "", func(cloudagents.Event) error { return nil })
			check(t, err, c.kind, false)
			if err != nil && !strings.Contains(err.Error(), "silent") {
				t.Errorf("got %v", err)
			}
		})
	}
}
