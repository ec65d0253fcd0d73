package engine_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
)

// movedHead begins the first turn after a move.
const movedHead = "You go on with the work of an earlier session"

// launches are the texts with which sessions began.
func (w *world) launches() (all []string) {
	for _, line := range w.cloud.Log() {
		if text, is := strings.CutPrefix(line, "launch "+boss+" "); is {
			all = append(all, text)
		}
	}
	return all
}

func (w *world) mustMove(a bridge.Agent, runtime string) {
	w.t.Helper()
	if _, err := w.engine.Move(w.t.Context(), a.ID, runtime); err != nil {
		w.t.Fatal(err)
	}
}

// A moved agent goes on once in its new session, which begins with the transcript behind bars. All else of it stays.
func TestMove(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "SUBAGENT: repo=github.com/me/nowhere, prompt=x"}}}, func(t *testing.T, w *world) {
		a := w.launchLocal("build a bridge")
		w.idleOrWaiting()
		w.resting()
		before := w.agent()
		w.mustMove(a, "desk")
		if w.cloud.Effects("cancel ") != 1 {
			t.Errorf("the old session was not released: %q", w.cloud.Log())
		}
		moved := w.agent()
		if moved.Runtime != "desk" || moved.External != "" || moved.ID != before.ID || moved.OpKey != before.OpKey || moved.Name != before.Name {
			t.Errorf("moved: %+v", moved)
		}
		w.restart()
		w.say("what now?")
		w.resting()
		got := w.launches()
		if len(got) != 2 || !strings.HasPrefix(got[1], movedHead) || !strings.HasSuffix(got[1], "what now?") {
			t.Fatalf("launches: %q", got)
		}
		for _, part := range []string{"\n| build a bridge\n", "\n| SUBAGENT: repo=github.com/me/nowhere", "This is the end of the transcript."} {
			if strings.Count(got[1], part) != 1 {
				t.Errorf("%q stands %d times in %q", part, strings.Count(got[1], part), got[1])
			}
		}
		w.say("and then?")
		w.resting()
		sent := w.sent(boss)
		if sent[len(sent)-1] != "and then?" || len(w.launches()) != 2 {
			t.Errorf("sent %q, launches %d", sent, len(w.launches()))
		}
		if after := w.agent(); after.External == before.External || after.External == "" || len(w.timeline(moving.Event)) != 1 {
			t.Errorf("after: %+v", after)
		}
	})
}

// Of two moves at a time one counts, and it is recorded once.
func TestMoveRace(t *testing.T) {
	t.Parallel()
	hostedWorld(t, nil, func(t *testing.T, w *world) {
		a := w.launchLocal("go")
		w.resting()
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() { _, errs[i] = w.engine.Move(t.Context(), a.ID, "desk") })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || bridge.KindOf(errors.Join(errs...)) != bridge.Conflict || len(w.timeline(moving.Event)) != 1 {
			t.Errorf("%v, %q", errs, w.events())
		}
	})
}

// Each refusal says what to do, and changes nothing.
func TestMoveRefused(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished}, {State: bridge.RunRunning}}}, func(t *testing.T, w *world) {
		refused := func(runtime, why string) {
			t.Helper()
			_, err := w.engine.Move(t.Context(), w.agent().ID, runtime)
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("to %q: %v, want %q", runtime, err, why)
			}
		}
		w.launchLocal("go")
		w.resting()
		refused("local", "lives in the runtime local already")
		refused("elsewhere", "not a runtime of kind relay")
		w.say("work")
		w.turnsIn(w.agent().ID, bridge.TurnRunning, 1)
		refused("desk", "is under way; wait for its end")
		if _, err := w.engine.Stop(t.Context(), w.agent().ID, "enough"); err != nil {
			t.Fatal(err)
		}
		w.until("it was stopped", w.is(func(a bridge.Agent) bool { return a.State == bridge.AgentGated }))
		refused("desk", "resume")
		if w.agent().Runtime != "local" || len(w.timeline(moving.Event)) != 0 {
			t.Errorf("%+v", w.agent())
		}
	})
}

// The answer to a moved agent's first turn is lost. The bridge finds the turn and does not say it again.
func TestMoveAnswerLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		e := &ends{read: map[string]bridge.Observation{}}
		w.cloud.Answer = e.answer
		var once sync.Once
		w.cloud.Fail = func(point, text string) (err error) {
			if point == "after launch" && strings.HasPrefix(text, movedHead) {
				once.Do(func() { err = &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Message: "lost"} })
			}
			return err
		}
		w.start()
		a := w.launchLocal("go")
		w.resting()
		w.mustMove(a, "desk")
		w.say("what now?")
		w.resting()
		if got := w.launches(); len(got) != 2 || w.cloud.Effects("conflict ") != 0 {
			t.Errorf("%q", w.cloud.Log())
		}
	})
}

// A relay refuses the first turn of a moved agent. The agent is not lost: a replay begins a session with the transcript.
func TestMoveFirstTurnRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		e := &ends{read: map[string]bridge.Observation{}}
		w.cloud.Answer = e.answer
		var once sync.Once
		w.cloud.Fail = func(point, text string) (err error) {
			if point == "before launch" && strings.HasPrefix(text, movedHead) {
				once.Do(func() { err = bridge.Errorf(bridge.Denied, "relay refused the turn") })
			}
			return err
		}
		w.start()
		a := w.launchLocal("go")
		w.resting()
		w.mustMove(a, "desk")
		w.say("what now?")
		failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)
		if _, err := w.engine.Continue(t.Context(), failed[0].ID); err != nil {
			t.Fatal(err)
		}
		w.resting()
		if got := w.launches(); len(got) != 2 || strings.Count(got[1], "\n| go\n") != 1 || strings.Count(got[1], "what now?") != 1 {
			t.Errorf("%q", got)
		}
	})
}

// A turn that no session got goes along: its runtime was away.
func TestMoveTakesQueuedTurn(t *testing.T) {
	t.Parallel()
	hostedWorld(t, nil, func(t *testing.T, w *world) {
		a := w.launchLocal("go")
		w.resting()
		why := "the machine is gone"
		w.away.Store(&why)
		w.say("what now?")
		w.until("it waits", w.is(func(a bridge.Agent) bool { return a.Trouble == why }))
		w.away.Store(nil)
		w.mustMove(a, "desk")
		w.resting()
		if got := w.launches(); len(got) != 2 || !strings.HasSuffix(got[1], "what now?") {
			t.Errorf("%q", got)
		}
	})
}

// The login of the new agent is missing, so that its first turn ends before the agent works. The next word begins a session again, with the
// transcript.
func TestMoveLoginMissing(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Cause: bridge.CauseAnswered}, {State: bridge.RunError, Cause: bridge.CauseLoginMissing}}}, func(t *testing.T, w *world) {
		a := w.launchLocal("go")
		w.resting()
		w.mustMove(a, "desk")
		w.say("what now?")
		w.turnsIn(a.ID, bridge.TurnFailed, 1)
		if got := w.agent(); got.External != "" || got.Runtime != "desk" {
			t.Errorf("after the failure: %+v", got)
		}
		w.say("I logged in")
		w.resting()
		got := w.launches()
		if len(got) != 3 || !strings.HasPrefix(got[2], movedHead) || strings.Count(got[2], "\n| go\n") != 1 || !strings.HasSuffix(got[2], "I logged in") {
			t.Errorf("%q", got)
		}
	})
}

// A subagent moves while its parent waits for it. It goes on with the transcript, and the parent gets its one result.
func TestMoveSubagent(t *testing.T) {
	t.Parallel()
	says := func(repo, text string) string {
		switch {
		case repo == boss && text == "go":
			return "SUBAGENT: repo=" + worker + ", prompt=do it"
		case text == "do it":
			return "SUBAGENT: repo=github.com/me/careful, prompt=x"
		case strings.HasPrefix(text, movedHead):
			return "All done."
		}
		return "Noted."
	}
	play(t, says, func(t *testing.T, w *world) {
		w.launchLocal("go")
		w.until("the parent heard that it waits", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		w.resting()
		kid := child(t, w, worker)
		w.mustMove(kid, "desk")
		if _, err := w.engine.Deny(t.Context(), w.oneCommand(bridge.CommandHeld).ID, "not now"); err != nil {
			t.Fatal(err)
		}
		w.until("the parent has the result", func(*bridge.Scene) bool { return len(w.sent(boss)) > 1 })
		w.resting()
		wants(t, w.sent(boss)[1], "All done.")
		after := child(t, w, worker)
		if after.ID != kid.ID || after.Name != kid.Name || after.Parent != kid.Parent || after.Runtime != "desk" || after.External == kid.External {
			t.Errorf("moved: %+v", after)
		}
		var began []string
		for _, line := range w.cloud.Log() {
			if text, is := strings.CutPrefix(line, "launch "+worker+" "); is {
				began = append(began, text)
			}
		}
		if len(began) != 2 || !strings.HasPrefix(began[1], movedHead) || strings.Count(began[1], "\n| do it\n") != 1 || strings.Count(began[1], "not now") != 1 || len(w.sent(boss)) != 2 {
			t.Errorf("it began with %q; its parent heard %q", began, w.sent(boss))
		}
	})
}

// An agent that a limit cut off stays where it is until its turn has an end: a stop and a resume give it one. Then it moves, and says nothing twice.
func TestMoveAfterALimit(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Cause: bridge.CauseAnswered}, {State: bridge.RunError, Cause: bridge.CauseLimited}}}, func(t *testing.T, w *world) {
		a := w.launchLocal("go")
		w.resting()
		w.say("build it")
		w.until("it sleeps", w.is(func(a bridge.Agent) bool { return a.Doing == bridge.DoingSleep }))
		if _, err := w.engine.Move(t.Context(), a.ID, "desk"); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "was cut off and goes on") {
			t.Errorf("%v", err)
		}
		if _, err := w.engine.Stop(t.Context(), a.ID, "move"); err != nil {
			t.Fatal(err)
		}
		w.turnsIn(a.ID, bridge.TurnFailed, 1)
		if _, err := w.engine.Resume(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		w.mustMove(a, "desk")
		w.say("go on here")
		w.resting()
		got := w.launches()
		if len(got) != 2 || strings.Count(got[1], "\n| build it\n") != 1 || !strings.HasSuffix(got[1], "go on here") || !strings.Contains(got[1], "The turn failed,") {
			t.Errorf("%q", got)
		}
		if a := w.agent(); !a.NotBefore.IsZero() || a.Runtime != "desk" {
			t.Errorf("%+v", a)
		}
	})
}

// The answer to a question reaches its agent, once, also where the session that asked is not the agent's any more.
func TestMoveKeepsQuestions(t *testing.T) {
	t.Parallel()
	for _, why := range []bridge.EndCause{bridge.CauseUnsaid, bridge.CauseSessionGone, bridge.CauseLoginMissing, "a move"} {
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) {
				var lost, over atomic.Bool
				w.cloud.Answer = func(_, text string) bridge.Observation {
					switch {
					case why == "a move" || text == "go" || over.Load() || !strings.HasPrefix(text, movedHead):
						return bridge.Observation{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "Done."}
					case lost.Load():
						return bridge.Observation{State: bridge.RunError, Cause: why}
					}
					return bridge.Observation{State: bridge.RunRunning}
				}
				w.start()
				a := w.launchLocal("go")
				w.resting()
				w.mustMove(a, "desk")
				w.say("build it")
				w.until("it works", w.is(func(a bridge.Agent) bool { return a.External != "" }))
				p := bridge.Permission{ID: "apr_1", Hash: strings.Repeat("ab", 32), Relay: "laptop", Entry: "opencode", Session: w.agent().External,
					Tool: "bash", Arguments: `{"command":"make release"}`, AtBridge: true, State: bridge.PermissionOpen}
				m := w.permission(p)
				if lost.Store(true); why == "a move" {
					w.resting()
					if _, err := w.engine.Deny(t.Context(), m.ID, ""); err != nil {
						t.Fatal(err)
					}
					w.mustMove(a, "local")
				}
				w.until("the session is not its own", w.is(func(a bridge.Agent) bool { return a.External != p.Session }))
				over.Store(true)
				p.State, p.By = bridge.PermissionNo, "terminal"
				w.permission(p)
				w.permission(p)
				w.say("go on")
				w.resting()
				heard := strings.Join(append(w.launches(), w.sent(boss)...), "\n")
				wants(t, heard, "has its answer: a person said no; your earlier session asked it", "\n| bash {\"command\":\"make release\"}")
				if n := strings.Count(heard, "has its answer"); n != 1 {
					t.Errorf("it heard the answer %d times:\n%s", n, heard)
				}
			})
		})
	}
}
