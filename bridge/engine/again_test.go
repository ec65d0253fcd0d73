package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
)

// A person has three words for a failed turn of an agent at a relay. To continue sends the same turn once more, with the same text, so that its relay
// knows it again; to say again makes a new turn; to give up tells nothing again. None takes more along than the turn told.
func TestWordsForAFailedTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		word func(*world, bridge.TurnID) (bridge.Turn, error)
		// same means that the turn itself goes on, told how often the outcome was told at last.
		same bool
		told int
	}{
		"continue":  {func(w *world, id bridge.TurnID) (bridge.Turn, error) { return w.engine.Continue(w.t.Context(), id) }, true, 2},
		"say again": {func(w *world, id bridge.TurnID) (bridge.Turn, error) { return w.engine.SayAgain(w.t.Context(), id) }, false, 2},
		"give up":   {func(w *world, id bridge.TurnID) (bridge.Turn, error) { return w.engine.GiveUp(w.t.Context(), id) }, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashed := bridge.Observation{State: bridge.RunError, Cause: bridge.CauseCrashed, Detail: "killed"}
			bubble(t, func(t *testing.T, w *world) {
				e := &ends{read: map[string]bridge.Observation{}, all: map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Reply: "LOCAL_ACTION: backup_script"}, crashed, {State: bridge.RunFinished, Reply: "ok"}}}}
				var word atomic.Int32
				w.cloud.Answer = func(repo, text string) bridge.Observation {
					return e.answer(repo, fmt.Sprint(text, word.Load())) // the same words after a person's word are another run
				}
				w.start()
				w.launchLocal("go")
				w.until("parked", w.is(func(a bridge.Agent) bool { return a.State == bridge.AgentFailed }))
				a := w.agent()
				failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0]
				wants(t, a.Trouble, "crashed", "drawbridge continue "+string(failed.ID))
				word.Add(1)
				got, err := c.word(w, failed.ID)
				if err != nil || (got.ID == failed.ID) != c.same {
					t.Fatalf("%+v, %v", got, err)
				}
				w.resting()
				if sent := w.sent(boss); c.told == 2 && (len(sent) != 2 || sent[0] != sent[1]) {
					t.Errorf("it heard %q", sent)
				}
				w.say("go on")
				w.resting()
				if n := strings.Count(strings.Join(w.sent(boss), "\n"), "executed, exit code 0"); n != c.told {
					t.Errorf("the outcome was told %d times: %q", n, w.sent(boss))
				}
				if _, err := w.engine.Continue(t.Context(), failed.ID); bridge.KindOf(err) != bridge.Conflict {
					t.Errorf("after another turn it goes on all the same: %v", err)
				}
				if a := w.agent(); a.State != bridge.AgentIdle || a.Trouble != "" {
					t.Errorf("the agent is %s: %q", a.State, a.Trouble)
				}
			})
		})
	}
}

// A subagent's turn that failed and goes on has two ends. Its parent hears of both, and the result has the second.
func TestFailedSubagentGoesOn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		e := &ends{read: map[string]bridge.Observation{}, all: map[string][]bridge.Observation{
			boss:   {{State: bridge.RunFinished, Reply: "SUBAGENT: repo=" + worker + ", prompt=do it"}},
			worker: {{State: bridge.RunError, Cause: bridge.CauseCrashed, Detail: "killed"}, {State: bridge.RunFinished, Reply: "All done."}},
		}}
		var word atomic.Int32
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			return e.answer(repo, fmt.Sprint(text, word.Load()))
		}
		w.start()
		w.launchLocal("go")
		w.until("the parent heard of the failure", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		word.Add(1)
		if _, err := w.engine.Continue(t.Context(), lastTurn(t, w, child(t, w, worker).ID).ID); err != nil {
			t.Fatal(err)
		}
		w.until("the parent has the result", func(*bridge.Scene) bool { return len(w.sent(boss)) == 2 })
		wants(t, w.sent(boss)[0], "status ERROR, crashed")
		wants(t, w.sent(boss)[1], "All done.", "by the API: status FINISHED")
		if strings.Contains(w.sent(boss)[1], "status ERROR, crashed") {
			t.Errorf("the result has the end of the run that failed:\n%s", w.sent(boss)[1])
		}
	})
}
