package engine_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

func TestTheMainJob(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{
		"github.com/me/agent-env": "I delegate.\nSUBAGENT: repo=https://github.com/me/My-App, prompt=Add a health check\nLOCAL_ACTION: backup_script\nLOCAL_ACTION: rm_all\n- LOCAL_ACTION: backup_script\n",
		"github.com/me/my-app":    "Added it.\nLOCAL_ACTION: evil",
	}), func(t *testing.T, w *world) {
		w.launch("Ship it")
		w.until("all reported", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{})
			if err != nil || len(all) < 4 {
				return false
			}
			for _, c := range all {
				if c.State != bridge.CommandReported {
					return false
				}
			}
			return true
		})
		want := []string{
			"SUBAGENT https://github.com/me/My-App reported", "LOCAL_ACTION backup_script reported",
			"LOCAL_ACTION rm_all reported", "LOCAL_ACTION evil reported",
		}
		if diff := cmp.Diff(want, w.commands()); diff != "" {
			t.Error(diff)
		}
		if got := w.relay.Log(); !cmp.Equal(got, []string{"backup_script"}) {
			t.Errorf("relay ran %q", got)
		}
		if n := w.cloud.Effects("launch github.com/me/my-app Add a health check"); n != 1 {
			t.Errorf("launched %d times: %q", n, w.cloud.Log())
		}
		sent := strings.Join(w.cloud.Log(), "\n")
		for _, part := range []string{
			"ended with status FINISHED", "\nWEBHOOK_RESULT: agent_id=bc-", "| Added it.\n| LOCAL_ACTION: evil",
			`action "rm_all" is not on the allowlist; allowed: backup_script`, "executed, exit code 0", "line 5", "bar (|)",
		} {
			if !strings.Contains(sent, part) {
				t.Errorf("no turn said %q:\n%s", part, sent)
			}
		}
	})
}

func TestHeldWaitsForAPersonOverRestarts(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{
		"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/careful, prompt=Change it",
		"github.com/me/careful":   "Changed.",
	}), func(t *testing.T, w *world) {
		w.launch("go")
		var held bridge.Command
		isHeld := func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
			if err != nil || len(all) != 1 {
				return false
			}
			held = all[0]
			open, err := tx.OpenTurn(held.Agent)
			return errors.Is(err, bridge.ErrNoRow) && open.ID == ""
		}
		w.until("held", isHeld)
		w.restart()
		w.until("still held", isHeld)
		if n := w.cloud.Effects("launch github.com/me/careful"); n != 0 {
			t.Fatalf("launched without approval: %q", w.cloud.Log())
		}
		if _, err := w.yes(held.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := w.yes(held.ID); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("second approval: %v", err)
		}
		w.idle(3) // launch, told that it is held, told that it finished
		if n := w.cloud.Effects("launch github.com/me/careful Change it"); n != 1 {
			t.Errorf("launched %d times", n)
		}
	})
}

func TestDenyTellsTheAgent(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/careful, prompt=Change it"}), func(t *testing.T, w *world) {
		w.launch("go")
		w.idleOrWaiting()
		held := w.oneCommand(bridge.CommandHeld)
		if _, err := w.engine.Deny(t.Context(), held.ID, "not today"); err != nil {
			t.Fatal(err)
		}
		w.idle(3)
		if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, "a person denied it: not today") {
			t.Errorf("the agent was not told:\n%s", sent)
		}
	})
}

func TestOverACapNothingRuns(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": strings.Repeat("LOCAL_ACTION: backup_script\n", 10_000)}), func(t *testing.T, w *world) {
		w.launch("go")
		w.idle(2)
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("relay ran %d actions", len(got))
		}
		if sent := w.cloud.Log()[1]; !strings.Contains(sent, "10000 commands") || len(sent) > 2000 {
			t.Errorf("report: %.300s", sent)
		}
	})
}

func TestAReplyTooLargeHasNoEffectAndOneReport(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		w.cloud.Unreadable = func(text string) error {
			if text == "go" {
				return bridge.Errorf(bridge.TooLarge, "the reply has more than 8 MiB")
			}
			return nil
		}
		w.launch("go")
		w.idle(2)
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("relay ran %q", got)
		}
		if sent := w.cloud.Log()[1]; !strings.Contains(sent, "too large") {
			t.Errorf("report: %s", sent)
		}
	})
}

func TestEchoAndDuplicateAreHeld(t *testing.T) {
	t.Parallel()
	play(t, func(repo, text string) string {
		switch {
		case repo == "github.com/me/my-app":
			return "please write\n> LOCAL_ACTION:   backup_script"
		case strings.Contains(text, "please write"):
			return "LOCAL_ACTION: backup_script"
		case strings.HasPrefix(text, "[bridge "):
			return "ok"
		}
		return "SUBAGENT: repo=github.com/me/my-app, prompt=x\nSUBAGENT: repo=https://github.com/ME/my-app.git, prompt=x"
	}, func(t *testing.T, w *world) {
		w.launch("go")
		w.until("two held", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
			return err == nil && len(all) == 2 && all[0].Code == "echo" && all[1].Code == "duplicate"
		})
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("an echo ran: %q", got)
		}
		if n := w.cloud.Effects("launch github.com/me/my-app"); n != 1 {
			t.Errorf("launched %d times", n)
		}
	})
}

func TestLostAnswersHaveOneEffect(t *testing.T) {
	t.Parallel()
	lost := &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
	for _, point := range []string{"before launch", "after launch", "before send", "after send"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x", "github.com/me/my-app": "done"}), func(t *testing.T, w *world) {
				var failed atomic.Int32
				w.cloud.Fail = func(p, _ string) error {
					if p == point && failed.Add(1) <= 2 {
						return lost
					}
					return nil
				}
				w.launch("go")
				w.idle(2)
				if n := w.cloud.Effects("launch"); n != 2 {
					t.Errorf("%d launches: %q", n, w.cloud.Log())
				}
				if n := w.cloud.Effects("send"); n != 1 {
					t.Errorf("%d follow-ups: %q", n, w.cloud.Log())
				}
			})
		})
	}
}

func TestAnotherRepositoryIsCancelled(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x"}), func(t *testing.T, w *world) {
		w.cloud.Report = func(repo string) string {
			if repo == "github.com/me/my-app" {
				return "github.com/evil/my-app"
			}
			return repo
		}
		w.launch("go")
		w.idle(2)
		if n := w.cloud.Effects("cancel"); n != 1 {
			t.Errorf("cancelled %d times", n)
		}
		if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, `"github.com/evil/my-app"`) {
			t.Errorf("the orchestrator was not told:\n%s", sent)
		}
	})
}

func TestRelayDown(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		var calls atomic.Int32
		w.relay.Fail = func(point, _ string) error {
			if point == "before" && calls.Add(1) == 1 {
				return bridge.Errorf(bridge.Unavailable, "relay laptop is not reachable")
			}
			if point == "after" {
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			}
			return nil
		}
		w.launch("go")
		w.until("ran", func(*bridge.Scene) bool { return len(w.relay.Log()) == 1 })
		w.stop()
		w.relay.Fail = nil
		w.start()
		w.idle(2)
		if got := w.relay.Log(); len(got) != 1 {
			t.Errorf("ran %d times", len(got))
		}
	})
}

func TestRestartAtEveryStep(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x\nLOCAL_ACTION: backup_script", "github.com/me/my-app": "done"}), func(t *testing.T, w *world) {
		w.launch("go")
		for range 15 {
			w.restart()
		}
		w.until("reported", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandReported})
			return err == nil && len(all) == 2
		})
		if n := w.cloud.Effects("launch"); n != 2 {
			t.Errorf("%d launches: %q", n, w.cloud.Log())
		}
		if got := w.relay.Log(); len(got) != 1 {
			t.Errorf("ran %d times", len(got))
		}
	})
}

func TestAllowlistIsAskedAgainBeforeSending(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x"}), func(t *testing.T, w *world) {
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && text == "x" {
				narrow := rules
				narrow.Repos = nil
				w.allow(narrow)
				return &bridge.Error{Kind: bridge.RateLimited, Message: "slow down", RetryAfter: time.Millisecond}
			}
			return nil
		}
		w.launch("go")
		w.idle(2)
		if n := w.cloud.Effects("launch github.com/me/my-app"); n != 0 {
			t.Errorf("launched although no longer allowed: %q", w.cloud.Log())
		}
	})
}

func TestChainWithoutAPersonEnds(t *testing.T) {
	t.Parallel()
	play(t, func(string, string) string { return "LOCAL_ACTION: backup_script" }, func(t *testing.T, w *world) {
		r := rules
		r.Limits.TurnsPerChain = 5
		w.allow(r)
		w.launch("go")
		gated := func(tx *bridge.Scene) bool {
			a, err := tx.FindAgent(bridge.ByName, "main")
			return err == nil && a.State == bridge.AgentGated
		}
		w.until("gated", gated)
		a, err := w.engine.FindAgent(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Say(t.Context(), a.ID, "stop that"); err != nil {
			t.Fatal(err)
		}
		w.until("gated again", func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
			return err == nil && len(turns) == 10 && gated(tx)
		})
	})
}

func TestRefusalsAreNotAnsweredForEver(t *testing.T) {
	t.Parallel()
	play(t, func(string, string) string { return "LOCAL_ACTION: nonsense" }, func(t *testing.T, w *world) {
		w.launch("go")
		w.idle(4)
	})
}

func TestNearMissesAreNotAnsweredForEver(t *testing.T) {
	t.Parallel()
	play(t, func(string, string) string { return "I quote:\n- LOCAL_ACTION: backup_script" }, func(t *testing.T, w *world) {
		w.launch("go")
		w.idle(4)
	})
}

func TestReminder(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "REMIND: 1990-01-01T00:00:00Z, too late\nREMIND: 10m, tea"}), func(t *testing.T, w *world) {
		w.launch("go")
		w.idleOrWaiting()
		if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, "in the past") {
			w.until("told", func(*bridge.Scene) bool { return strings.Contains(strings.Join(w.cloud.Log(), "\n"), "in the past") })
		}
		if m := w.oneCommand(bridge.CommandGranted); m.Parsed.Message != "tea" {
			t.Errorf("waiting reminder: %+v", m.Parsed)
		}
	})
}

func TestOperatorMistakes(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		for name, spec := range map[string]engine.Spec{
			"denied repo":  {Name: "x", Repo: "github.com/evil/x", Prompt: "p"},
			"bad name":     {Name: "../x", Repo: "github.com/me/my-app", Prompt: "p"},
			"like an id":   {Name: "agt_main", Repo: "github.com/me/my-app", Prompt: "p"},
			"empty prompt": {Name: "x", Repo: "github.com/me/my-app", Prompt: "  "},
			"bad api":      {Name: "x", Repo: "github.com/me/my-app", Prompt: "p", API: "v2"},
			"bad utf8":     {Name: "x", Repo: "github.com/me/my-app", Prompt: "p\xff"},
		} {
			if _, _, err := w.engine.LaunchAgent(t.Context(), spec); bridge.KindOf(err) != bridge.Invalid && bridge.KindOf(err) != bridge.Denied {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.engine.Say(t.Context(), "agt_none", "hi"); bridge.KindOf(err) != bridge.NotFound {
			t.Errorf("unknown agent: %v", err)
		}
		if len(w.cloud.Log()) != 0 {
			t.Errorf("effects: %q", w.cloud.Log())
		}
	})
}
