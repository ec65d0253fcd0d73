package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// TestForgottenAgentsGetNoTurns: neither a person's words, nor news, nor a second try wakes an agent that was forgotten.
func TestForgottenAgentsGetNoTurns(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "all done", "once more")
		w.launch("go")
		w.resting()
		a := child(t, w, worker)
		c.follows("ERROR", worker)
		failed, err := w.engine.Say(t.Context(), a.ID, "once more")
		if err != nil {
			t.Fatal(err)
		}
		w.resting()
		if _, err := w.engine.Forget(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		before := len(w.sent(worker))
		if _, err := w.engine.Say(t.Context(), a.ID, "wake up"); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("said to it: %v", err)
		}
		if _, err := w.engine.Continue(t.Context(), failed.ID); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("replayed: %v", err)
		}
		w.tell(a.ID, "news")
		w.resting()
		if all := w.sent(worker); len(all) != before {
			t.Errorf("it had turns after it was forgotten: %q", all[before:])
		}
	})
}

// TestForgottenAgentsAskForNothing: a tool call that was under way when its agent was forgotten has no effect. A
// webhook that comes later is stored and tells nobody anything.
func TestForgottenAgentsAskForNothing(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "all done")
		w.launch("go")
		w.resting()
		a := child(t, w, worker)
		if _, err := w.engine.Forget(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		before := len(w.sent(boss))
		for _, cmd := range []parser.Command{{Verb: parser.LocalAction, Action: "backup_script"}, {Verb: parser.Subagent, Repo: helper, Prompt: "x"}, {Verb: parser.Remind, When: "1s", Message: "x"}} {
			if m, err := w.engine.Ask(t.Context(), a.ID, bridge.Once{}, cmd); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "was forgotten") {
				t.Errorf("it asks for %s: %+v, %v", cmd.Verb, m.State, err)
			}
		}
		for i, status := range []string{"FINISHED", "ERROR"} {
			verdict, err := w.engine.RecordDelivery(t.Context(), bridge.Delivery{Op: a.ID, External: a.External, Event: "statusChange", Status: status, SentAt: fmt.Sprint(i)})
			if err != nil || verdict != bridge.VerdictAccepted {
				t.Errorf("a webhook %s: %q, %v", status, verdict, err)
			}
		}
		w.resting()
		if all := w.sent(boss); len(all) != before {
			t.Errorf("its parent was told %q", all[before:])
		}
		if now, err := w.engine.FindAgent(t.Context(), string(a.ID)); err != nil || !now.Forgotten() {
			t.Errorf("it is %+v, %v", now, err)
		}
	})
}

// TestForgottenAgentsEnd: the process that an idle agent has at a relay ends when the agent is forgotten.
func TestForgottenAgentsEnd(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "done"}}}, func(t *testing.T, w *world) {
		a := w.launchLocal("go")
		w.resting()
		if _, err := w.engine.Stop(t.Context(), a.ID, ""); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := w.engine.Forget(t.Context(), a.ID); err != nil {
				t.Fatal(err)
			}
		}
		if w.cloud.Effects("cancel ") != 1 {
			t.Errorf("the session was not released once: %q", w.cloud.Log())
		}
	})
}

// TestForgetWithinAJoin: a subagent that failed may be forgotten while its parent waits for the others. The joined
// results come all the same, with the failure, when the last one is done.
func TestForgetWithinAJoin(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
		c.joinedTeam(w)
		a := child(t, w, team[0])
		if _, err := w.engine.Forget(t.Context(), a.ID); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("forgotten while it works: %v", err)
		}
		c.runs(bridge.RunError, team[0])
		w.until("it failed", func(tx *bridge.Scene) bool {
			a, err := tx.Agent(a.ID)
			return err == nil && (a.State == bridge.AgentFailed || a.State == bridge.AgentDone)
		})
		if _, err := w.engine.Forget(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if told := w.sent(boss); len(told) != 0 {
			t.Errorf("told before the others are done: %q", told)
		}
		c.runs(bridge.RunFinished, team[1:]...)
		w.resting()
		told := strings.Join(w.sent(boss), "\n")
		wants(t, told, "status=ERROR", "3 of its 3")
		if strings.Count(told, "status=FINISHED") != 2 || len(w.sent(boss)) != 1 {
			t.Errorf("told %s", told)
		}
	})
}
