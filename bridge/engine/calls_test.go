package engine_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
)

// What goes out for a turn says for which turn, so that traces hang it below the run. Of the looks at one run
// traces hear of those that found something new alone.
func TestCallsSayTheirTurn(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	play(t, nil, func(t *testing.T, w *world) {
		w.cloud.Answer = func(_, text string) bridge.Observation {
			if strings.Contains(text, "later") && looks.Add(1) < 20 {
				return bridge.Observation{State: bridge.RunRunning}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "Done."}
		}
		var mu sync.Mutex
		made, told := map[string]int{}, map[string]int{}
		w.cloud.Called = func(ctx context.Context, call string) {
			c := bridge.CallsOf(ctx)
			key := call + " for "
			if c != nil {
				key += string(c.Turn)
			}
			mu.Lock()
			made[key]++
			mu.Unlock()
			c.Tell(func() {
				mu.Lock()
				defer mu.Unlock()
				told[key]++
			})
		}
		root := w.launch("Look later")
		if _, err := w.engine.Say(t.Context(), root.ID, "And now"); err != nil {
			t.Fatal(err)
		}
		ends := w.ended(bridge.EventCompleted, 2)
		mu.Lock()
		defer mu.Unlock()
		first, second := string(ends[0].Turn), string(ends[1].Turn)
		for _, call := range []string{"launch for " + first, "observe for " + first, "inspect for " + first, "send for " + second, "observe for " + second, "inspect for " + second} {
			if told[call] != 1 {
				t.Errorf("%s: made %d times, told %d times, want 1", call, made[call], told[call])
			}
		}
		if n := made["observe for "+first]; n != 20 {
			t.Errorf("the first run was looked at %d times, want 20", n)
		}
		for call := range made {
			if strings.HasSuffix(call, " for ") {
				t.Errorf("%sno turn", call)
			}
		}
	})
}
