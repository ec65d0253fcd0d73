package stores

import (
	"testing"
	"time"

	"drawbridge/bridge"
)

func done(agent bridge.AgentID, key string) bridge.Done {
	return bridge.Done{Agent: agent, Once: bridge.Once{Key: key, Digest: "d " + key}, Result: "msg_1", CreatedAt: epoch}
}

func testOnce(t *testing.T, open Open) {
	s, first := open(t), done("agt_1", "report")
	noZeroField(t, first)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.InsertDone(first) })
	again := first
	again.Result, again.CreatedAt = "msg_2", at(time.Minute)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		if err := tx.InsertDone(again); tx.Guesses() {
			return err
		} else if bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("the same key again: %v, want a Conflict", err)
		}
		for _, other := range []bridge.Done{done("agt_2", "report"), done("agt_1", "Report"), done("agt_1", "")} { // the transaction goes on
			if err := tx.InsertDone(other); err != nil {
				return err
			}
		}
		return nil
	})
	for _, want := range []bridge.Done{first, done("agt_2", "report"), done("agt_1", "Report"), done("agt_1", "")} {
		equal(t, "done under "+want.Key, read(t, s, func(tx *bridge.Scene) (bridge.Done, error) { return tx.FindDone(want.Agent, want.Key) }), want)
	}
}
