package engine_test

import (
	"context"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/proof/memstore"
)

// TestUnheardChangesWakeNobody: a line in a run's record sends nobody looking.
func TestUnheardChangesWakeNobody(t *testing.T) {
	t.Parallel()
	e, err := engine.NewRecorder(engine.Options{Store: memstore.NewDisk().Open()})
	if err != nil {
		t.Fatal(err)
	}
	watched, stop := e.Watch()
	defer stop()
	heard := func(ctx context.Context) bool {
		if err := e.Change(ctx, func(tx bridge.Change) error {
			_, err := tx.AppendRunMessage(bridge.RunMessage{Turn: "trn_1", Kind: bridge.ToolCallMessage, CallID: tx.NewID("call_"), Payload: "{}"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-watched:
			return true
		default:
			return false
		}
	}
	if heard(bridge.Unheard(t.Context())) {
		t.Error("a change that gives nobody anything to do woke a watcher")
	}
	if !heard(t.Context()) {
		t.Error("a change woke nobody")
	}
}
