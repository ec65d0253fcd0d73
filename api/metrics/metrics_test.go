package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"drawbridge/api/metrics"
	"drawbridge/bridge"
)

// TestTurnsOfOtherReplicas: a turn that another replica sent is counted under its cause when it ends here, and one that ends
// there leaves nothing behind.
func TestTurnsOfOtherReplicas(t *testing.T) {
	t.Parallel()
	m := metrics.New("v1")
	for kind, cause := range map[string]string{bridge.EventReply: "user", bridge.EventTurnFailed: "completion", bridge.EventUncertain: "launch", bridge.EventTurn: "of tomorrow"} {
		m.OnEvent(bridge.Event{Kind: kind, Turn: "trn_1", Fields: map[string]string{"cause": cause}})
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`cause="user",state="replied"`, `cause="completion",state="failed"`, `cause="launch",state="uncertain"`, `cause="unknown",state="sent"`} {
		if !strings.Contains(w.Body.String(), `drawbridge_turns_total{`+line+`} 1`) {
			t.Errorf("no %s in\n%s", line, w.Body)
		}
	}
}
