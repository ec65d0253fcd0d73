package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

// unclear is the end of a turn of which the machine cannot tell whether the agent got it.
var unclear = bridge.Observation{State: bridge.RunError, Cause: bridge.CauseUnclear, Detail: "the agent cannot tell whether it has the turn"}

// uncertainTurn waits for the one uncertain turn.
func (w *world) uncertainTurn() (t bridge.Turn) {
	w.t.Helper()
	w.until("uncertain", func(tx *bridge.Scene) bool {
		all, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnUncertain})
		if err != nil || len(all) != 1 {
			return false
		}
		t = all[0]
		return true
	})
	return t
}

// A turn that may have reached its agent is uncertain: nothing is repeated and nothing fails, over days and a restart. A person settles it
// in one of three ways, and the engine says again what the turn carried only where the agent did not get it.
func TestUnclearEnd(t *testing.T) {
	t.Parallel()
	resolve := func(word engine.Word) func(*world, bridge.TurnID) error {
		return func(w *world, id bridge.TurnID) error {
			_, err := w.engine.ResolveTurn(w.t.Context(), id, word)
			return err
		}
	}
	by := func(settle func(*engine.Engine, context.Context, bridge.TurnID) (bridge.Turn, error)) func(*world, bridge.TurnID) error {
		return func(w *world, id bridge.TurnID) error {
			_, err := settle(w.engine, w.t.Context(), id)
			return err
		}
	}
	for name, c := range map[string]struct {
		settle func(*world, bridge.TurnID) error
		// again is whether the outcome of the action is said a second time, and next whether that needs a word of a person.
		again, next bool
	}{
		"said":         {by((*engine.Engine).GiveUp), false, true},
		"not said":     {by((*engine.Engine).SayAgain), true, false},
		"not launched": {resolve(engine.Word{}), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Reply: "LOCAL_ACTION: backup_script"}, unclear}}, func(t *testing.T, w *world) {
				w.launchLocal("go")
				turn := w.uncertainTurn()
				time.Sleep(48 * time.Hour)
				w.restart()
				time.Sleep(48 * time.Hour)
				turn = w.uncertainTurn()
				if got := w.sent(boss); len(got) != 1 || len(w.timeline(bridge.EventUncertain)) != 1 || len(w.timeline(bridge.EventTurnFailed)) != 0 {
					t.Fatalf("it heard %q; events %q", got, w.events())
				}
				wants(t, turn.Trouble, "may have got this turn", "cannot tell whether it has the turn", "drawbridge give-up "+string(turn.ID), "drawbridge say-again "+string(turn.ID))
				if _, err := w.engine.Continue(t.Context(), turn.ID); bridge.KindOf(err) != bridge.Conflict {
					t.Errorf("nobody knows what it has, and it goes on: %v", err)
				}
				if err := c.settle(w, turn.ID); err != nil {
					t.Fatal(err)
				}
				w.resting()
				if failed := w.turnsIn(turn.Agent, bridge.TurnFailed, 1)[0]; (failed.Run != "") != (name == "said") {
					t.Errorf("the run of the turn is %q", failed.Run)
				}
				if c.next {
					w.say("go on")
					w.resting()
				}
				told := 0
				for _, text := range w.sent(boss) {
					told += strings.Count(text, "executed, exit code 0")
				}
				if want := map[bool]int{false: 1, true: 2}[c.again]; told != want || len(w.sent(boss)) != 2 {
					t.Errorf("the outcome was told %d times, want %d: %q", told, want, w.sent(boss))
				}
				if n := w.relay.Log(); len(n) != 1 {
					t.Errorf("the action ran %d times", len(n))
				}
				if err := c.settle(w, turn.ID); bridge.KindOf(err) != bridge.Conflict {
					t.Errorf("settled twice: %v", err)
				}
				w.idle(3)
			})
		})
	}
}

// The first turn of a subagent may be unclear, too. Its parent hears that a person has to look, and later the result.
func TestUnclearFirstTurn(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{
		boss:   {{State: bridge.RunFinished, Reply: "SUBAGENT: repo=" + worker + ", prompt=do it"}},
		worker: {unclear, {State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "All done."}},
	}, func(t *testing.T, w *world) {
		w.launchLocal("go")
		turn := w.uncertainTurn()
		w.until("the parent was told", func(*bridge.Scene) bool { return len(w.sent(boss)) > 0 })
		wants(t, w.sent(boss)[0], "the bridge does not know whether its turn arrived")
		if _, err := w.engine.SayAgain(t.Context(), turn.ID); err != nil {
			t.Fatal(err)
		}
		w.until("the parent has the result", func(*bridge.Scene) bool { return len(w.sent(boss)) > 1 })
		wants(t, w.sent(boss)[1], "All done.")
		if got := w.sent(worker); len(got) != 1 || got[0] != "do it" || w.cloud.Effects("launch "+worker) != 1 {
			t.Errorf("the subagent heard %q", got)
		}
	})
}

// Nothing settles a turn of the cloud with a word that is for agents at a relay.
func TestToldIsForRelays(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {unclear}}, func(t *testing.T, w *world) {
		w.launch("go")
		turn := w.uncertainTurn()
		if _, err := w.engine.ResolveTurn(t.Context(), turn.ID, engine.Word{Told: true}); bridge.KindOf(err) != bridge.Invalid {
			t.Errorf("%v", err)
		}
	})
}
