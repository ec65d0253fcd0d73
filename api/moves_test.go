package api_test

import (
	"net/http"
	"strings"
	"testing"

	"drawbridge/api"
	"drawbridge/bridge"
)

// A move is answered with the agent, where it lived and what becomes of its workspace. Each refusal has a status and says why.
func TestMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) {
		o.Runtime = func(name, _ string) string { return map[string]string{"lap": "laptop"}[name] }
	})
	named := api.LaunchRequest{Name: "lap", Repo: "github.com/me/agent-env", Prompt: "hi", Runtime: "desk", API: "v1"}
	if _, err := w.client.Launch(t.Context(), named); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "lives in the runtime desk, which has no API version") {
		t.Errorf("launched with a runtime and a version: %v", err)
	}
	named.Name, named.API = "named", ""
	if l, err := w.client.Launch(t.Context(), named); err != nil || l.Agent.Runtime != "desk" {
		t.Errorf("launched with a runtime: %+v, %v", l, err)
	}
	for _, name := range []string{"lap", "cloudy"} {
		launched := w.launch(t, name)
		w.until(t, func() bool {
			turn, err := w.client.Turn(t.Context(), launched.Turn.ID)
			return err == nil && turn.State == "replied"
		})
	}
	for _, bad := range []struct {
		agent, body, why string
		status           int
	}{
		{"lap", `{}`, "runtime is missing", http.StatusBadRequest},
		{"lap", `{"runtime":"desk","x":1}`, "x", http.StatusBadRequest},
		{"lap", `{"runtime":"cursor"}`, "not a runtime of kind relay", http.StatusBadRequest},
		{"lap", `{"runtime":"laptop"}`, "already", http.StatusConflict},
		{"cloudy", `{"runtime":"desk"}`, "lives in the cloud", http.StatusConflict},
		{"nobody", `{"runtime":"desk"}`, "no agent", http.StatusNotFound},
	} {
		if status, body, _ := w.call(t, http.MethodPost, "/v1/agents/"+bad.agent+"/move", bad.body); status != bad.status || !strings.Contains(body, bad.why) {
			t.Errorf("%s %s: %d %s", bad.agent, bad.body, status, body)
		}
	}
	m, err := w.client.Move(t.Context(), "lap", "desk")
	if err != nil || m.From != "laptop" || m.Agent.Runtime != "desk" || m.Agent.External != "" || !strings.Contains(m.Workspace, "stays at relay laptop") {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := w.client.Move(t.Context(), "lap", "desk"); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("the second move: %v", err)
	}
	said, err := w.client.Say(t.Context(), "lap", "what now?")
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, func() bool {
		turn, err := w.client.Turn(t.Context(), said.ID)
		return err == nil && turn.State == "replied"
	})
}
