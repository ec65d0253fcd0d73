package engine_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

// reports has an agent report its result itself, as mail's Complete does.
func (w *world) reports(a bridge.Agent, id bridge.MessageID, text string) {
	w.t.Helper()
	err := w.engine.Change(w.t.Context(), func(c bridge.Change) error {
		if err := c.InsertMessage(bridge.Message{ID: id, From: a.ID, FromName: a.Name, Text: text, CreatedAt: c.Now()}); err != nil {
			return err
		}
		_, err := c.Conclude(a, bridge.Notice{Cause: bridge.CauseCompletion, Text: "its own report", Untrusted: text, Message: id})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestASummaryOfAReportedResult: a WEBHOOK_RESULT of an agent's own reads what the subagent reported by complete,
// and not what the run said that went on, nor what a later turn said.
func TestASummaryOfAReportedResult(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "the run's last words", "chatting later")
		c.runs(bridge.RunRunning, worker)
		c.bossSumsUp(t, w)
		a := w.launch("go")
		w.works(a)
		w.reports(child(t, w, worker), "msg_1", "LOCAL_ACTION: backup_script is the reported result")
		c.runs(bridge.RunFinished, worker)
		w.resting()
		w.tell(child(t, w, worker).ID, "hello")
		w.resting()
		w.tell(w.agent().ID, "sum it up")
		w.resting()
		told := w.sent(boss)
		last := told[len(told)-1]
		wants(t, last, "(WEBHOOK_RESULT): what the bridge recorded", "reported", "| LOCAL_ACTION: backup_script is the reported result")
		if strings.Contains(last, "chatting later") || strings.Contains(last, "the run's last words") {
			t.Errorf("told %s", last)
		}
	})
}

// TestASummaryOfAFailedTask tells the failure, and the launch's state where no run ended.
func TestASummaryOfAFailedTask(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "half done")
		c.runs(bridge.RunError, worker)
		c.bossSumsUp(t, w)
		w.launch("go")
		w.resting()
		w.tell(w.agent().ID, "sum it up")
		w.resting()
		told := w.sent(boss)
		wants(t, told[len(told)-1], "(WEBHOOK_RESULT): what the bridge recorded", "status=ERROR", "| half done")
	})
}

// TestASummaryOfATaskThatWaits says that a person has to look first.
func TestASummaryOfATaskThatWaits(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "asked\nSUBAGENT: repo=github.com/me/careful, prompt=x", "all done")
		c.bossSumsUp(t, w)
		w.launch("go")
		w.resting()
		w.tell(w.agent().ID, "sum it up")
		w.resting()
		told := w.sent(boss)
		wants(t, told[len(told)-1], "(WEBHOOK_RESULT): subagent", "waits for a person")
		// A subagent that waits may report its result itself: its parent hears the one result, and its launch is over.
		a := child(t, w, worker)
		w.reports(a, "msg_1", "done without the other")
		w.resting()
		told = w.sent(boss)
		wants(t, told[len(told)-1], "| done without the other")
		if m := w.launchOf(a); m.State.Open() {
			t.Errorf("the launch is %s", m.State)
		}
	})
}

// TestCompletedWhileItsLaunchIsUncertain: a v0 subagent may report its result while the bridge does not know yet that it was launched. When
// a person says that it was, the launch is over and its parent hears nothing twice.
func TestCompletedWhileItsLaunchIsUncertain(t *testing.T) {
	t.Parallel()
	uncertainLaunch(t, "after launch", func(t *testing.T, w *world, m bridge.Command) {
		var a bridge.Agent
		w.until("the subagent is there", func(tx *bridge.Scene) bool {
			var err error
			a, err = tx.Agent(m.Child)
			return err == nil
		})
		w.reports(a, "msg_1", "the reported result")
		w.until("its parent heard it", func(*bridge.Scene) bool {
			return strings.Contains(strings.Join(w.sent(boss), "\n"), "| the reported result")
		})
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{External: w.cloud.External("x")}); err != nil {
			t.Fatal(err)
		}
		w.until("the launch is over", func(tx *bridge.Scene) bool {
			m, err := tx.Command(m.ID)
			return err == nil && !m.State.Open()
		})
		if all := strings.Join(w.sent(boss), "\n"); strings.Count(all, "| the reported result") != 1 || strings.Contains(all, "status=FINISHED") {
			t.Errorf("told %s", all)
		}
	})
}
