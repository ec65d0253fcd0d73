//go:build deep

package chatmodel_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
)

// TestKilledAnywhere kills the process behind each of its steps in turn. The next one goes on where the record ends: each message is
// sent once, the turn ends once, and every request of the model is right.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	var kills atomic.Int64
	t.Cleanup(func() {
		if kills.Load() < 15 {
			t.Errorf("only %d processes were killed", kills.Load())
		}
	})
	for at := range int64(24) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, steps(
				calls("send_message", `{"recipient":"USER","text":"one"}`, "remind", `{"when":"1h","message":"later"}`),
				calls("send_dm", `{"targetAgentId":"helper","text":"two"}`, "store_memory", `{"content":"note"}`),
				calls("send_message", `{"recipient":"USER","text":"three"}`),
			))
			w.start()
			w.dead.Store(at + 1)
			a := w.launch("main", "Go.")
			dead := func() bool {
				select {
				case <-w.died:
					return true
				default:
					return false
				}
			}
			w.until("the end or the kill", func(tx *bridge.Scene) bool {
				turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
				return err == nil && len(turns) == 1 && turns[0].State.Over() || dead()
			})
			if dead() {
				kills.Add(1)
			}
			w.restart()
			turn := w.over(a, 1)
			if turn.State != bridge.TurnReplied {
				t.Errorf("%s: %s", turn.State, turn.Trouble)
			}
			w.onceEach(turn)
		})
	}
}
