package stores

import (
	"errors"
	"testing"
	"time"

	"drawbridge/bridge"
)

func testWatches(t *testing.T, open Open) {
	s := open(t)
	one := bridge.Watch{Agent: "agt_1", On: "agt_2", After: 3, CreatedAt: epoch}
	noZeroField(t, one)
	other := bridge.Watch{Agent: "agt_0", On: "agt_2", CreatedAt: epoch}
	again := one
	again.After, again.CreatedAt = 4, at(time.Minute)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return errors.Join(tx.PutWatch(one), tx.PutWatch(other), tx.PutWatch(again))
	})
	all := func(limit int) []bridge.Watch {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Watch, error) { return tx.Watches(limit) })
	}
	equal(t, "watches", all(0), []bridge.Watch{other, again})
	equal(t, "one watch", all(1), []bridge.Watch{other})
	for _, want := range []bool{true, false} {
		var dropped bool
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			dropped, err = tx.DropWatch("agt_1", "agt_2")
			return err
		})
		equal(t, "dropped", dropped, want)
	}
	equal(t, "what is left", all(0), []bridge.Watch{other})
}
