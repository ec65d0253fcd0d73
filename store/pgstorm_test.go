package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// TestPostgresStepsOverTrees: steps that write in two trees each, in any order, all come to an end and lose nothing, and the work
// that they enqueue in the same lanes in any order is there.
func TestPostgresStepsOverTrees(t *testing.T) {
	t.Parallel()
	const trees, workers, each = 4, 8, 12
	address := pg.Database(t)
	stores := []*store.Store{open(t, address), open(t, address)}
	for i := range trees {
		insertTree(t, stores[0], treeAt(i))
	}
	done := make(chan error, workers)
	for w := range workers {
		go func() {
			var all []error
			for range each {
				all = append(all, deepenTwo(t, stores[w%2], rand.IntN(trees), rand.IntN(trees)))
			}
			done <- errors.Join(all...)
		}()
	}
	for range workers {
		must(t, <-done)
	}
	must(t, stores[0].View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{Limit: trees})
		sum := 0
		for _, a := range all {
			sum += a.Depth
		}
		if sum != 2*workers*each {
			t.Errorf("%d of %d updates are there", sum, 2*workers*each)
		}
		return err
	}))
}

func treeAt(i int) bridge.AgentID { return bridge.AgentID(fmt.Sprint("agt_", i)) }

func deepenTwo(t *testing.T, s *store.Store, some ...int) error {
	t.Helper()
	return s.Update(t.Context(), func(tx *bridge.Scene) error {
		for _, i := range some {
			a, err := tx.Agent(treeAt(i))
			if err != nil {
				return err
			}
			a.Depth++
			if err := tx.UpdateAgent(a); err != nil {
				return err
			}
			if err := tx.Enqueue(bridge.Work{Lane: fmt.Sprint("shared ", (i+1)%2), Kind: bridge.WorkTurn, Ref: string(a.ID)}); err != nil {
				return err
			}
		}
		return nil
	})
}
