package store_test

import (
	"fmt"
	"testing"

	"drawbridge/bridge"
	"drawbridge/store"
)

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
