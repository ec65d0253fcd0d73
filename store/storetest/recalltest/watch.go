package recalltest

import (
	"errors"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/store/storetest/kit"
)

func testWatches(t *testing.T, open Open) {
	s := open(t)
	one := bridge.Watch{Agent: "agt_1", On: "agt_2", After: 3, CreatedAt: kit.Epoch}
	kit.NoZeroField(t, one)
	other := bridge.Watch{Agent: "agt_0", On: "agt_2", CreatedAt: kit.Epoch}
	again := one
	again.After, again.CreatedAt = 4, kit.At(time.Minute)
	kit.Update(t, s, func(tx bridge.Tx) error { return errors.Join(tx.PutWatch(one), tx.PutWatch(other), tx.PutWatch(again)) })
	all := func(limit int) []bridge.Watch {
		return kit.Read(t, s, func(tx bridge.Tx) ([]bridge.Watch, error) { return tx.Watches(limit) })
	}
	kit.Equal(t, "watches", all(0), []bridge.Watch{other, again})
	kit.Equal(t, "one watch", all(1), []bridge.Watch{other})
	for _, want := range []bool{true, false} {
		kit.Update(t, s, func(tx bridge.Tx) error {
			dropped, err := tx.DropWatch("agt_1", "agt_2")
			kit.Equal(t, "dropped", dropped, want)
			return err
		})
	}
	kit.Equal(t, "what is left", all(0), []bridge.Watch{other})
}
