package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

// Nothing is sent again when a look-up cannot tell whether it happened, whichever Runtime the agent lives in. It guards: "not
// found" was read as "send again" for every Runtime but the v0 API.
func TestUnknownIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{bridge.CloudRuntime, "local"} {
		for _, lose := range []string{"launch", "send"} {
			t.Run(runtime+" "+lose, func(t *testing.T) {
				t.Parallel()
				virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
					var lost, calls atomic.Int64
					w.cloud.Forgets = func() bool { return true }
					w.cloud.Fail = func(point, _ string) error {
						if point != "before "+lose {
							return nil
						}
						if calls.Add(1); lost.Add(1) == 1 {
							return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
						}
						return nil
					}
					w.start()
					if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go", Runtime: runtime}); err != nil {
						t.Fatal(err)
					}
					if lose == "send" {
						w.resting()
						w.say("hello")
					}
					w.turnsIn(w.agent().ID, bridge.TurnUncertain, 1)
					time.Sleep(48 * time.Hour)
					w.turnsIn(w.agent().ID, bridge.TurnUncertain, 1)
					if n := calls.Load(); n != 1 {
						t.Errorf("it was sent %d times", n)
					}
				})
			})
		}
	}
}
