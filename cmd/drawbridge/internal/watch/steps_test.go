package watch_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/watch"
)

// stage is a bridge whose agents do what its steps say.
type stage struct {
	steps map[string][]api.Step
	run   string
	// missed is true where steps are left out, and away where the relay does not answer.
	missed, away bool
	asked        int
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked++
	agent := strings.Split(r.URL.Path, "/")[3]
	if s.steps[agent] == nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"kind": string(bridge.Invalid), "message": "no"}})
		return
	}
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	live := api.Live{Run: s.run, Steps: []api.Step{}, Next: after, Missed: s.missed}
	if s.away {
		live = api.Live{Steps: []api.Step{}, Next: after, Away: true}
	}
	for _, step := range s.steps[agent] {
		if step.Seq > after && !s.away {
			live.Steps, live.Next = append(live.Steps, step), step.Seq
		}
	}
	_ = json.NewEncoder(w).Encode(live)
}

// watched returns a watcher of the stage, and what it tells.
func (s *stage) watched(t *testing.T, lines *[]string) *watch.Watcher {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := api.NewClient(api.ClientOptions{URL: server.URL, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return watch.New(watch.Options{Client: client, Step: func(line string) { *lines = append(*lines, line) }})
}

// TestTold: people see each step of a turn once, and not those of turns before the watcher's time. A reply that they have seen is not told again.
func TestTold(t *testing.T) {
	t.Parallel()
	s := &stage{run: "r2", steps: map[string][]api.Step{"agt_1": {
		{Seq: 1, Run: "r1", Kind: api.StepSays, Text: "old"},
		{Seq: 2, Run: "r2", Kind: api.StepSays, Text: "I look at"},
		{Seq: 3, Run: "r2", Kind: api.StepUses, Tool: "execute", Text: "go test ./..."},
		{Seq: 4, Run: "r2", Kind: api.StepFails, Tool: "execute", Text: "go test ./..."},
		{Seq: 5, Run: "r2", Kind: api.StepUses, Tool: "drawbridge_launch_agent"},
	}}}
	var lines []string
	w := s.watched(t, &lines)
	told := func(turn api.Turn, want bool, shown ...string) {
		t.Helper()
		lines = nil
		if got := w.Told(t.Context(), "app", turn); got != want || !slices.Equal(lines, shown) {
			t.Errorf("%+v: told %t and %q, want %t and %q", turn, got, lines, want, shown)
		}
	}
	turn := api.Turn{Agent: "agt_1", Run: "r2", Reply: "I look at\nit.\n"}
	s.away = true
	told(turn, false)
	s.away, s.run = false, ""
	told(api.Turn{Agent: "agt_1"}, false) // as when the turn has just ended, and its reply is not known yet
	told(turn, false, "app | I look at", "app [run] go test ./...", "app [run failed] go test ./...", "app [drawbridge_launch_agent]")
	told(turn, false)
	s.steps["agt_1"] = append(s.steps["agt_1"], api.Step{Seq: 6, Run: "r2", Kind: api.StepSays, Text: "it."})
	told(turn, true, "app | it.")
	told(api.Turn{Agent: "agt_1", Run: "r2", Reply: "it."}, true) // an agent whose reply is its last message
	told(api.Turn{Agent: "agt_1", Run: "r2", Reply: "t."}, false)
	told(api.Turn{Agent: "agt_1", Run: "r2"}, false)
	told(api.Turn{Agent: "agt_1", Run: "r1", Reply: "it."}, false)
	s.missed = true
	s.steps["agt_1"] = append(s.steps["agt_1"], api.Step{Seq: 9, Run: "r3", Kind: api.StepSays, Text: "it."},
		api.Step{Seq: 10, Run: "r3", Kind: api.StepUses, Tool: "x\r\ny", Text: "\nQuestion 2"})
	told(turn, false, "app | (earlier lines are left out)", "app | it.", "app [x  y]  Question 2")
	told(api.Turn{Agent: "agt_1", Run: "r3", Reply: "it."}, true)

	s.asked = 0
	cloud := api.Turn{Agent: "agt_2", Run: "r", Reply: "hi"}
	told(cloud, false)
	told(cloud, false)
	if s.asked != 1 {
		t.Errorf("an agent that lives elsewhere was asked for %d times", s.asked)
	}
}

// TestMeetsALongTurn: of a turn that runs for long already, people see the latest steps, and all that come later.
func TestMeetsALongTurn(t *testing.T) {
	t.Parallel()
	s := &stage{run: "r", steps: map[string][]api.Step{}}
	later := time.Now().Add(time.Hour)
	for n := range int64(200) {
		step := api.Step{Seq: n + 1, Run: "r", Kind: api.StepSays, Text: strconv.FormatInt(n, 10)}
		if n >= 100 {
			step.At = later
		}
		s.steps["agt_1"] = append(s.steps["agt_1"], step)
	}
	var lines []string
	w := s.watched(t, &lines)
	w.Told(t.Context(), "app", api.Turn{Agent: "agt_1", Run: "r"})
	if len(lines) != 121 || lines[0] != "app | (earlier lines are left out)" || lines[1] != "app | 80" || lines[120] != "app | 199" {
		t.Errorf("%q", lines)
	}
}
