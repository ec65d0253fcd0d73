package engine_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
)

// The tests of this file guard against faults that a review found.

// A follow-up took effect and its answer was lost; the API, busy with it, says
// so when it is sent again. It must not be forgotten that it may have arrived.
func TestBusyAfterALostAnswerIsNoNewStart(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		var sends atomic.Int32
		w.cloud.HiddenSends = func() bool { return sends.Load() < 2 } // it shows late
		w.cloud.Fail = func(point, _ string) error {
			switch {
			case point == "after send" && sends.Add(1) == 1:
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			case point == "before send" && sends.Load() == 1:
				sends.Add(1)
				return bridge.Errorf(bridge.Busy, "the agent is busy")
			}
			return nil
		}
		w.launch("go")
		w.idle(2)
		if n := w.cloud.Effects("send"); n != 1 {
			t.Errorf("sent %d times: %q", n, w.cloud.Log())
		}
	})
}

// A database that was saved in mid-turn and put back runs no action again.
func TestRestoredDatabaseRunsNoActionAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		var saved atomic.Bool
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case strings.HasPrefix(text, "[bridge ") || repo != boss:
				return bridge.Observation{State: bridge.RunFinished, Reply: "ok"}
			case !saved.Load():
				return bridge.Observation{State: bridge.RunRunning}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "LOCAL_ACTION: backup_script\nSUBAGENT: repo=github.com/me/my-app, prompt=x"}
		}
		w.start()
		w.launch("go")
		w.until("running", func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
			return err == nil && len(turns) == 1
		})
		w.stop()
		older := w.disk.Copy()
		saved.Store(true)
		w.start()
		w.idle2()
		w.stop()
		w.disk.Restore(older)
		w.start()
		w.idle2()
		if got := w.relay.Log(); len(got) != 1 {
			t.Errorf("the action ran %d times", len(got))
		}
		if n := w.cloud.Effects("launch github.com/me/my-app"); n != 1 {
			t.Errorf("launched %d times", n)
		}
	})
}

// A v0 launch goes out only once its branch was looked for: the database may have
// been put back, and the list be out of reach for a moment.
func TestNoV0LaunchWithoutALook(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		var looks atomic.Int32
		w.cloud.Fail = func(point, _ string) error {
			switch {
			case point == "find launch" && looks.Add(1) == 1:
				return bridge.Errorf(bridge.RateLimited, "too many requests")
			case point == "before launch" && looks.Load() < 2:
				t.Error("launched although nobody could look")
			}
			return nil
		}
		if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: "github.com/me/agent-env", Prompt: "go", API: bridge.APIv0}); err != nil {
			t.Fatal(err)
		}
		w.idle(1)
	})
}

// idle2 waits until main has nothing to do and everything is reported.
func (w *world) idle2() {
	w.t.Helper()
	w.until("all reported", func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "main")
		if err != nil || a.State != bridge.AgentIdle {
			return false
		}
		all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandReported})
		return err == nil && len(all) == 2
	})
}

// An agent that runs on another repository than was granted hears nothing more.
func TestQuarantinedAgentGetsNoTurns(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		w.cloud.Report = func(string) string { return "github.com/evil/other" }
		inFlight, said := make(chan struct{}), make(chan struct{})
		w.cloud.Fail = func(point, _ string) error {
			if point == "before launch" {
				close(inFlight)
				<-said
			}
			return nil
		}
		a := w.launch("go")
		<-inFlight
		if _, err := w.engine.Say(t.Context(), a.ID, "secret plans"); err != nil {
			t.Fatal(err)
		}
		close(said)
		w.until("quarantined", func(tx *bridge.Scene) bool {
			got, err := tx.Agent(a.ID)
			_, open := tx.OpenTurn(a.ID)
			return err == nil && got.Quarantined && open != nil
		})
		if _, err := w.engine.Say(t.Context(), a.ID, "more"); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("said something to it: %v", err)
		}
		if n := w.cloud.Effects("send"); n != 0 {
			t.Errorf("it heard: %q", w.cloud.Log())
		}
	})
}

// What waits behind a launch that fails does not become the launch.
func TestNothingStartsInPlaceOfAFailedLaunch(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		inFlight, said := make(chan struct{}), make(chan struct{})
		var denied atomic.Bool
		w.cloud.Fail = func(point, _ string) error {
			if point == "before launch" && !denied.Swap(true) {
				close(inFlight)
				<-said
				return bridge.Errorf(bridge.Denied, "no access")
			}
			return nil
		}
		a := w.launch("first words")
		<-inFlight
		if _, err := w.engine.Say(t.Context(), a.ID, "and also this"); err != nil {
			t.Fatal(err)
		}
		close(said)
		w.until("both failed", func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, State: bridge.TurnFailed})
			return err == nil && len(turns) == 2
		})
		if n := w.cloud.Effects("launch"); n != 0 {
			t.Errorf("launched: %q", w.cloud.Log())
		}
		w.launch("first words") // the name is free again
	})
}

// A rule that asks for approval since the command was granted holds it back.
func TestApprovalAddedBeforeSending(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		w.relay.Fail = func(point, _ string) error {
			if point != "before" {
				return nil
			}
			r := rules
			r.Actions = []policy.ActionRule{{ID: "backup_script", Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalEach}}}
			w.allow(r)
			return bridge.Errorf(bridge.Unavailable, "not reachable")
		}
		w.launch("go")
		w.until("settled", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{})
			return err == nil && len(all) == 1 && !all[0].State.Open()
		})
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("ran without a person: %q", got)
		}
	})
}

// What is narrowed for an orchestrator holds under whatever name it is launched.
func TestRoleNarrowsUnderAnyName(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		r := rules
		r.Agents = map[string]policy.Narrowing{"boss": {Repos: []string{}, Actions: []string{}}}
		w.allow(r)
		_, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Role: "boss", Repo: "github.com/me/agent-env", Prompt: "go"})
		if err != nil {
			t.Fatal(err)
		}
		w.idle(2)
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("ran: %q", got)
		}
	})
}

// An action that may have run is not called refused because the allowlist changed meanwhile.
func TestRanAndRevokedIsUncertain(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		w.relay.Fail = func(point, _ string) error {
			switch point {
			case "before":
				return nil
			case "look": // its journal would settle the doubt
				return bridge.Errorf(bridge.Unavailable, "away")
			}
			r := rules
			r.Actions = nil
			w.allow(r)
			return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
		}
		w.launch("go")
		w.until("uncertain", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandUncertain})
			return err == nil && len(all) == 1
		})
		if got := w.relay.Log(); len(got) != 1 {
			t.Errorf("ran %d times", len(got))
		}
	})
}

// However a command is quoted, an agent that repeats it is held.
func TestEchoOfAnyQuotation(t *testing.T) {
	t.Parallel()
	for name, quoted := range map[string]string{
		"bullet": "• LOCAL_ACTION: backup_script", "quotation": `He said "LOCAL_ACTION: backup_script"`, "letter": "a) LOCAL_ACTION: backup_script",
		"line separator": "x\u2028LOCAL_ACTION: backup_script", "next line": "x\u0085LOCAL_ACTION: backup_script", "code": "`LOCAL_ACTION: backup_script`",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
				w.launch("Please note: " + quoted)
				w.until("held", func(tx *bridge.Scene) bool {
					all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
					return err == nil && len(all) == 1 && all[0].Code == "echo"
				})
			})
		})
	}
}

// The settle time starts again with each attempt.
func TestEachAttemptGetsTheWholeSettleTime(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		w.cloud.HiddenSends = func() bool { return true }
		var mu sync.Mutex // guards times
		var times []time.Time
		done := make(chan struct{})
		w.cloud.Fail = func(point, _ string) error {
			if point != "before send" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if times = append(times, time.Now()); len(times) == 3 {
				close(done)
				return nil
			}
			return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
		}
		w.launch("go")
		<-done
		mu.Lock()
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap < w.settle {
				t.Errorf("attempt %d came %s after the one before; the settle time is %s", i+1, gap, w.settle)
			}
		}
		mu.Unlock()
		w.idle(2)
	})
}
