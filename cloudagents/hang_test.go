package cloudagents_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
)

// However many answers of the API are awaited, another request is sent at once: no pool of connections holds it up.
func TestHangingAnswersHoldUpNoRequest(t *testing.T) {
	t.Parallel()
	const hanging = 300
	var waiting sync.WaitGroup
	waiting.Add(hanging)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, agentID) {
			waiting.Done()
			<-release
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, server.URL, func(o *cloudagents.Options) { o.Timeout = 5 * time.Minute })
	var all sync.WaitGroup
	defer all.Wait()
	defer close(release)
	for range hanging {
		all.Go(func() {
			_, _ = c.Observe(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: strings.Replace(agentID, "1", "2", 1), Run: "run-1"})
		})
	}
	waiting.Wait()
	if _, err := c.Observe(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"}); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("beside %d that hang: %v", hanging, err)
	}
}
