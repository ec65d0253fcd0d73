package watch

import (
	"slices"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// While an agent is busy no ten seconds pass without a line, and each line is news or says who does what since when.
func TestStates(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	var lines []string
	var last time.Time
	w := New(Options{Say: func(line string) { lines, last = append(lines, line), now }, Last: func() time.Time { return last }})
	for _, step := range []struct {
		at            time.Duration
		doing         bridge.Doing
		since         time.Duration
		trouble, want string
	}{
		{0, bridge.DoingStarting, 0, "", "agent app starts"},
		{5 * time.Second, bridge.DoingStarting, 0, "", ""},
		{9 * time.Second, bridge.DoingStarting, 0, "", "app starts (9s)"},
		{10 * time.Second, bridge.DoingStarting, 0, "it ended; the relay starts it again (1 of 3)", "agent app: it ended; the relay starts it again (1 of 3)"},
		{12 * time.Second, bridge.DoingWorking, 12 * time.Second, "it ended; the relay starts it again (1 of 3)", "agent app works"},
		{21 * time.Second, bridge.DoingAsking, 15 * time.Second, "", "app waits for an answer (6s)"},
		{30 * time.Second, bridge.DoingSleep, 30 * time.Second, "", "app waits for the end of a limit (0s)"},
		{39 * time.Second, "", 0, "", "app works (0s)"},
		{48 * time.Second, "", 0, "", "app works (9s)"},
	} {
		lines, now = nil, start.Add(step.at)
		since := start.Add(step.since)
		w.compare([]api.Agent{{ID: "1", Name: "app", Doing: string(step.doing), DoingSince: &since, Trouble: step.trouble}}, now)
		w.status(now)
		if got := append(lines, "")[0]; got != step.want || len(lines) > 1 {
			t.Errorf("after %s: %q, want %q", step.at, lines, step.want)
		}
	}
	if busy := w.Busy(); !slices.Equal(busy, []string{"app"}) {
		t.Errorf("busy: %q", busy)
	}
}

// An agent is busy from the moment when an event tells of its turn, also beside a look that began before.
func TestBusySinceTheEvent(t *testing.T) {
	t.Parallel()
	w := New(Options{Say: func(string) {}})
	busy := func(want ...string) {
		t.Helper()
		if got := w.Busy(); !slices.Equal(got, want) {
			t.Errorf("busy: %q, want %q", got, want)
		}
	}
	before := time.Now().Add(-time.Minute)
	w.tell(api.Event{Kind: bridge.EventTurn, Agent: "1", Name: "app"}, false)
	w.compare(nil, before)
	busy("app")
	w.compare(nil, time.Now())
	busy()
	w.tell(api.Event{Kind: bridge.EventTurn, Agent: "1", Name: "app"}, false)
	w.tell(api.Event{Kind: bridge.EventReply, Agent: "1", Name: "app"}, true)
	busy()
}

// Each event that a person needs is one line, and the turns of which somebody else tells are left out.
func TestLines(t *testing.T) {
	t.Parallel()
	turn := func(cause bridge.Cause) map[string]string { return map[string]string{"cause": string(cause)} }
	for _, c := range []struct {
		e              api.Event
		own, questions bool
		want           string
	}{
		{api.Event{Kind: bridge.EventTurn, Name: "boss", Fields: turn(bridge.CauseCompletion)}, false, false, "agent boss gets a turn: a subagent has ended"},
		{api.Event{Kind: bridge.EventTurn, Name: "boss", Fields: turn(bridge.CauseUser)}, true, false, ""},
		{api.Event{Kind: bridge.EventTurn, Name: "kid", Fields: turn(bridge.CauseLaunch)}, false, false, ""},
		{api.Event{Kind: bridge.EventLaunched, Name: "kid", Fields: map[string]string{"repo": "local/app", "runtime": "vm-claude"}}, false, false, "agent kid begins on local/app (vm-claude)"},
		{api.Event{Kind: bridge.EventCompleted, Name: "kid", Fields: map[string]string{"cost_micros": "25000", "model": "m"}}, false, false, "the turn of agent kid took $0.0250, model m"},
		{api.Event{Kind: bridge.EventCompleted, Name: "kid", Fields: map[string]string{"model": "m"}}, true, false, ""},
		{api.Event{Kind: bridge.EventCompleted, Name: "kid"}, false, false, ""},
		{api.Event{Kind: bridge.EventReply, Name: "kid", Text: "All done."}, false, false, "agent kid answers: All done."},
		{api.Event{Kind: bridge.EventReply, Name: "kid", Text: " "}, false, false, "agent kid has ended its turn without a word"},
		{api.Event{Kind: bridge.EventTurnFailed, Name: "kid", Text: "why"}, false, false, "the turn of agent kid failed: why"},
		{api.Event{Kind: bridge.EventHeld, Name: "kid", Command: "cmd_1", Text: "why"}, false, true, ""},
		{api.Event{Kind: bridge.EventHeld, Name: "kid", Command: "cmd_1", Text: "why"}, false, false, "agent kid needs your approval: why; see `drawbridge commands --state held`"},
		{api.Event{Kind: bridge.EventNearMiss, Name: "kid", Text: "why"}, false, false, "agent kid: near miss: why"},
		{api.Event{Kind: bridge.EventDelivered, Name: "kid", Text: "1 outcome delivered"}, false, false, ""},
	} {
		if got := lineOf(c.e, c.own, c.questions); got != c.want {
			t.Errorf("%s: %q, want %q", c.e.Kind, got, c.want)
		}
	}
}
