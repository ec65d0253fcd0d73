package engine_test

import (
	"testing"

	"drawbridge/bridge"
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
		if _, err := w.engine.Replay(t.Context(), failed.ID); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("replayed: %v", err)
		}
		w.tell(a.ID, "news")
		w.resting()
		if all := w.sent(worker); len(all) != before {
			t.Errorf("it had turns after it was forgotten: %q", all[before:])
		}
	})
}
