package kept

import (
	"fmt"
	"testing"

	"drawbridge/bridge"
)

// TestRowsAreBounded: what many agents leave in memory does not grow without an end, and ids that nobody has leave nothing.
func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	k, sc := &Rows{}, bridge.NewScene()
	for i := range 2*most + 1 {
		id := bridge.AgentID(fmt.Sprint("agt_", i))
		open := bridge.NeedOpenTurnCount{Agent: id}
		sc.Counted(open, 1)
		k.Take(sc, open)
		k.Take(sc, bridge.NeedAgent{ID: id})
		if n := len(k.open.rows); n == 0 || n > most {
			t.Fatalf("%d counts are kept of %d agents", n, i+1)
		}
	}
	if n := len(k.agents.rows); n != 0 {
		t.Errorf("%d agents are kept that do not exist", n)
	}
}
