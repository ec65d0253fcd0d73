package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// TestALoopIsOneQuestion: an agent asks for the same again whenever it hears that it has to wait. It hears that once, and not once a
// turn: 50 held commands in 15 s breed blind approvals. One yes runs one, and both commands have an end.
func TestALoopIsOneQuestion(t *testing.T) {
	t.Parallel()
	var turns atomic.Int64
	play(t, func(string, string) string {
		turns.Add(1)
		return "LOCAL_ACTION: backup_script"
	}, func(t *testing.T, w *world) {
		r := rules
		r.Actions = []policy.ActionRule{{ID: "backup_script", Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalEach}}}
		w.allow(r)
		a := w.launch("go")
		w.idleOrWaiting()
		for range 2 { // a person who speaks to it makes it ask once more
			if _, err := w.engine.Say(t.Context(), a.ID, "go on"); err != nil {
				t.Fatal(err)
			}
			w.idleOrWaiting()
		}
		if n := turns.Load(); n > 4 {
			t.Errorf("the agent had %d turns", n)
		}
		all, err := w.engine.Questions(t.Context(), "")
		if err != nil || len(all) != 1 || len(all[0].Same) < 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		same := all[0].Same
		if _, err := w.engine.Approve(t.Context(), same[1], all[0].Hash); err != nil {
			t.Fatal(err)
		}
		w.until("it ran", func(tx *bridge.Scene) bool { return len(w.relay.Log()) == 1 })
		w.until("all are reported", func(tx *bridge.Scene) bool {
			for _, id := range same {
				if m, err := tx.Command(id); err != nil || m.State != bridge.CommandReported || (m.ID != same[1]) != (m.Code == bridge.CodeRepeat) {
					return false
				}
			}
			return true
		})
		if n := len(w.relay.Log()); n != 1 {
			t.Errorf("it ran %d times", n)
		}
		told := 0
		for _, text := range w.sent("github.com/me/agent-env") {
			told += strings.Count(text, "commands are identical and do not run")
		}
		if told != 1 {
			t.Errorf("the agent heard %d times that the others are repeats", told)
		}
	})
}

// TestJoinedLaunchesThatRepeat: a turn that waits for all that it launched does not wait for a launch that ended as a repeat.
func TestJoinedLaunchesThatRepeat(t *testing.T) {
	t.Parallel()
	for _, join := range []bridge.Join{bridge.JoinAll, "2"} {
		t.Run(string(join), func(t *testing.T) {
			t.Parallel()
			line := "SUBAGENT: repo=github.com/me/careful, prompt=Change it"
			play(t, func(repo, text string) string {
				switch {
				case repo == "github.com/me/careful":
					return "Changed."
				case strings.Contains(text, "launch both"):
					return line + "\n" + line
				}
				return "Thanks."
			}, func(t *testing.T, w *world) {
				a := w.launch("hello")
				w.idleOrWaiting()
				if _, err := w.engine.SetJoin(t.Context(), a.ID, join, time.Hour); err != nil {
					t.Fatal(err)
				}
				if _, err := w.engine.Say(t.Context(), a.ID, "launch both"); err != nil {
					t.Fatal(err)
				}
				var all []bridge.Question
				w.until("both wait as one", func(*bridge.Scene) (ok bool) {
					var err error
					all, err = w.engine.Questions(t.Context(), a.ID)
					return err == nil && len(all) == 1 && len(all[0].Same) == 2
				})
				if _, err := w.engine.Approve(t.Context(), all[0].Command.ID, all[0].Hash); err != nil {
					t.Fatal(err)
				}
				w.until("the result came", func(tx *bridge.Scene) bool {
					m, err := tx.Command(all[0].Command.ID)
					return err == nil && m.State == bridge.CommandReported
				})
				if n := w.cloud.Effects("launch github.com/me/careful"); n != 1 {
					t.Errorf("launched %d times", n)
				}
			})
		})
	}
}
