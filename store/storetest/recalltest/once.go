package recalltest

import (
	"errors"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/store/storetest/kit"
)

func done(agent bridge.AgentID, key string) bridge.Done {
	return bridge.Done{Agent: agent, Once: bridge.Once{Key: key, Digest: "d " + key}, Result: "msg_1", CreatedAt: kit.Epoch}
}

func testOnce(t *testing.T, open Open) {
	s, first := open(t), done("agt_1", "report")
	kit.NoZeroField(t, first)
	kit.Update(t, s, func(tx bridge.Tx) error { return tx.InsertDone(first) })
	again := first
	again.Result, again.CreatedAt = "msg_2", kit.At(time.Minute)
	kit.Update(t, s, func(tx bridge.Tx) error {
		if err := tx.InsertDone(again); errors.Is(err, bridge.ErrLacking) {
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
		kit.Equal(t, "done under "+want.Key, kit.Read(t, s, func(tx bridge.Tx) (bridge.Done, error) { return tx.FindDone(want.Agent, want.Key) }), want)
	}
}
