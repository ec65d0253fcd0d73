package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
)

// goes makes the runtime go away, or come back with "".
func (w *world) goes(why string) {
	if why == "" {
		w.away.Store(nil)
		return
	}
	w.away.Store(&why)
}

// troubled waits until the orchestrator's open turn waits with a reason that the operator sees.
func (w *world) troubled(why string) (open bridge.Turn) {
	w.t.Helper()
	w.until("waits: "+why, func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "main")
		if err != nil || a.Trouble != why {
			return false
		}
		head, err := tx.OpenTurn(a.ID)
		if err != nil {
			return false
		}
		open, err = tx.Turn(head.ID)
		return err == nil && open.State == bridge.TurnQueued && open.Trouble == why
	})
	return open
}

// saidWhileAway launches the orchestrator, and says more to it once its runtime is away.
func (w *world) saidWhileAway() {
	w.t.Helper()
	w.start()
	w.launch("go")
	w.resting()
	w.goes("no key; set one")
	w.say("more")
	w.troubled("no key; set one")
}

// TestTurnsWaitForARuntimeThatIsAway: a turn is queued as long as it takes, over restarts, without an attempt and without an event
// for each look, and it is said once when the runtime is back. It guards: a bridge that was started without its key for a while.
func TestTurnsWaitForARuntimeThatIsAway(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.saidWhileAway()
		before := len(w.events())
		time.Sleep(7 * 24 * time.Hour)
		w.stop()
		w.start()
		time.Sleep(24 * time.Hour)
		open := w.troubled("no key; set one")
		if got := len(w.events()); got != before || open.Attempts != 0 || len(w.sent(boss)) != 0 {
			t.Errorf("%d events more, %d attempts, sent %q", got-before, open.Attempts, w.sent(boss))
		}
		w.goes("")
		w.resting()
		if got := w.turns(); len(w.sent(boss)) != 1 || got[1] != "user replied" || w.agent().Trouble != "" {
			t.Errorf("turns %q, sent %q, trouble %q", got, w.sent(boss), w.agent().Trouble)
		}
	})
}

// TestLaunchThatWasGrantedWaits: a launch that passed the gate before its runtime went away is not lost and not refused.
func TestLaunchThatWasGrantedWaits(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "SUBAGENT: repo=github.com/me/my-app, prompt=x"}, func(t *testing.T, w *world, _ *cast) {
		var gone atomic.Bool
		w.cloud.Fail = func(point, prompt string) error {
			if point == "before launch" && prompt == "x" && gone.CompareAndSwap(false, true) {
				w.goes("no key; set one") // between the verdict and the effect
				return bridge.Errorf(bridge.RateLimited, "slow down")
			}
			return nil
		}
		w.start()
		w.launch("go")
		w.until("the subagent waits", func(tx *bridge.Scene) bool {
			all, err := tx.Agents(bridge.AgentFilter{})
			return err == nil && len(all) == 2 && all[0].Trouble+all[1].Trouble == "no key; set one"
		})
		time.Sleep(time.Hour)
		if got := w.commands(); len(got) != 1 || got[0] != "SUBAGENT github.com/me/my-app granted" {
			t.Errorf("commands %q", got)
		}
		w.goes("")
		w.resting()
		if n := w.cloud.Effects("launch "); n != 2 {
			t.Errorf("%d launches, not the orchestrator's and one more", n)
		}
		if got := w.commands(); len(got) != 1 || got[0] != "SUBAGENT github.com/me/my-app reported" {
			t.Errorf("commands %q", got)
		}
	})
}

// TestLaunchesIntoARuntimeThatIsAwayAreRefused: the operator hears it at once and nothing is left behind; an agent hears it with its
// next turn, with what it can do, and the refused command does not come to life when the runtime is back.
func TestLaunchesIntoARuntimeThatIsAwayAreRefused(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/me/my-app, prompt=x\nSUBAGENT: repo=github.com/me/careful, prompt=y\nLOCAL_ACTION: backup_script"}
	virtual(t, first, func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunRunning, boss)
		w.start()
		w.launch("go")
		w.until("running", func(tx *bridge.Scene) bool {
			all, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
			return err == nil && len(all) == 1
		})
		w.goes("no key; set one")
		_, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "two", Repo: boss, Prompt: "go"})
		if bridge.KindOf(err) != bridge.Unavailable || bridge.SafeMessage(err) != "no key; set one" {
			t.Errorf("the operator's launch: %v", err)
		}
		if _, err := w.engine.FindAgent(t.Context(), "two"); bridge.KindOf(err) != bridge.NotFound {
			t.Errorf("a launch that was refused left an agent: %v", err)
		}
		c.runs(bridge.RunFinished, boss)
		w.troubled("no key; set one")
		w.until("the action ran", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandFinished})
			return err == nil && len(all) == 1
		})
		if got := w.commands(); len(got) != 3 || got[0] != "SUBAGENT github.com/me/my-app refused" || got[1] != "SUBAGENT github.com/me/careful refused" || !strings.HasPrefix(got[2], "LOCAL_ACTION backup_script finished") {
			t.Errorf("commands %q", got)
		}
		w.goes("")
		w.resting()
		all := strings.Join(w.sent(boss), "\n")
		wants(t, all, "refused: no key; set one; do the task yourself, or ask the operator to do this first", "executed")
		if n := w.cloud.Effects("launch "); n != 1 {
			t.Errorf("%d launches", n)
		}
		if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "two", Repo: boss, Prompt: "go"}); err != nil {
			t.Errorf("the name is taken: %v", err)
		}
		w.resting()
	})
}

// TestStopEndsWhatWaitsForARuntime: the brake does not wait for a runtime that is away.
func TestStopEndsWhatWaitsForARuntime(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.saidWhileAway()
		w.halt()
		w.resting()
		if got := w.turns(); got[1] != "user failed" || len(w.sent(boss)) != 0 {
			t.Errorf("turns %q, sent %q", got, w.sent(boss))
		}
	})
}

// TestOperatorLaunchesOnAClone: the rule's runtime counts for the operator's launches, too, and no version of the API brings a clone into
// the cloud.
func TestOperatorLaunchesOnAClone(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		r := rules
		r.Repos = append(r.Repos[:len(r.Repos):len(r.Repos)], policy.RepoRule{Pattern: "local/my-app", Runtime: "laptop"})
		w.allow(r)
		w.start()
		a, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "clone", Repo: "Local/My-App", Prompt: "go"})
		if err != nil || a.Runtime != "laptop" || a.API != "" || a.Repo != "local/my-app" {
			t.Errorf("%+v %v", a, err)
		}
		for _, api := range []string{bridge.APIv0, bridge.APIv1} {
			_, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "cloud", Repo: "local/my-app", Prompt: "go", API: api})
			if bridge.KindOf(err) != bridge.Denied || !strings.Contains(err.Error(), "which agents of the cloud cannot reach") {
				t.Errorf("%s: %v", api, err)
			}
		}
		w.resting()
	})
}

// A turn that waited long for the relay of its agent is said as soon as the relay connects, and not at its own next look, which may be a
// minute away.
func TestTurnsGoWhenTheirRelayConnects(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.saidWhileAway()
		time.Sleep(time.Hour)
		w.look(func(tx *bridge.Scene) error {
			for relay, want := range map[string]int{"laptop": 1, "desk": 0} {
				if lanes, err := w.engine.LanesAt(tx, relay); err != nil || len(lanes) != want {
					t.Errorf("relay %s: lanes %q, %v", relay, lanes, err)
				}
			}
			return nil
		})
		w.goes("")
		begun := time.Now()
		w.connects()
		w.until("it is said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("it was said after %s", took)
		}
	})
}
