package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
)

// What a queued turn was about to bring is told when the stopped tree may go on.
func TestWhatWaitedInAQueuedTurnIsToldAfterAResume(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x", "github.com/me/my-app": "It works."}), func(t *testing.T, w *world) {
		var open atomic.Bool
		w.cloud.Fail = func(point, _ string) error {
			if point == "before send" && !open.Load() {
				return &bridge.Error{Kind: bridge.RateLimited, Message: "slow down", RetryAfter: time.Hour}
			}
			return nil
		}
		a := w.launch("go")
		w.until("waits for the API", func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, State: bridge.TurnQueued})
			return err == nil && len(turns) == 1 && turns[0].Attempts > 0
		})
		if _, err := w.engine.Stop(t.Context(), a.ID, "wait"); err != nil {
			t.Fatal(err)
		}
		open.Store(true)
		if _, err := w.engine.Resume(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		w.told("It works.")
	})
}

// What a cancelled run carried is told when the stopped tree may go on.
func TestWhatACancelledRunCarriedIsToldAfterAResume(t *testing.T) {
	t.Parallel()
	play(t, nil, func(t *testing.T, w *world) {
		var stopped, resumed atomic.Bool
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case !strings.HasPrefix(text, "[bridge ") && repo == "github.com/me/agent-env":
				return bridge.Observation{State: bridge.RunFinished, Reply: "SUBAGENT: repo=github.com/me/my-app, prompt=x"}
			case !strings.HasPrefix(text, "[bridge "):
				return bridge.Observation{State: bridge.RunFinished, Reply: "It works."}
			case resumed.Load():
				return bridge.Observation{State: bridge.RunFinished, Reply: "Noted."}
			case stopped.Load():
				return bridge.Observation{State: bridge.RunCancelled}
			}
			return bridge.Observation{State: bridge.RunRunning}
		}
		a := w.launch("go")
		w.told("It works.")
		w.turnsIn(a.ID, bridge.TurnRunning, 1)
		stopped.Store(true)
		if _, err := w.engine.Stop(t.Context(), a.ID, "wait"); err != nil {
			t.Fatal(err)
		}
		w.turnsIn(a.ID, bridge.TurnFailed, 1)
		resumed.Store(true)
		if _, err := w.engine.Resume(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		w.idle(3)
		if n := w.cloud.Effects("send"); n != 2 {
			t.Errorf("told %d times, want once before the stop and once after it: %q", n, w.cloud.Log())
		}
	})
}

// What ends while its parent waits for a person is not only kept: the person is told.
func TestWhatEndsForAFailedAgentIsTold(t *testing.T) {
	t.Parallel()
	play(t, nil, func(t *testing.T, w *world) {
		var late atomic.Bool
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case repo != "github.com/me/agent-env" && !late.Load():
				return bridge.Observation{State: bridge.RunRunning}
			case strings.Contains(text, "words"):
				return bridge.Observation{State: bridge.RunCancelled}
			case repo == "github.com/me/agent-env":
				return bridge.Observation{State: bridge.RunFinished, Reply: "SUBAGENT: repo=github.com/me/my-app, prompt=x"}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "It works."}
		}
		a := w.launch("go")
		w.idleOrWaiting()
		if _, err := w.engine.Say(t.Context(), a.ID, "words"); err != nil {
			t.Fatal(err)
		}
		w.turnsIn(a.ID, bridge.TurnFailed, 1)
		late.Store(true)
		w.until("parked", func(*bridge.Scene) bool {
			parked := w.timeline(bridge.EventParked)
			return len(parked) == 1 && parked[0].Agent == a.ID
		})
	})
}
