package memstore_test

import (
	"errors"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/proof/stores"
)

func TestContract(t *testing.T) {
	t.Parallel()
	var disks sync.Map // *testing.T to its disk
	stores.Run(t, func(t *testing.T) bridge.Store {
		disk, _ := disks.LoadOrStore(t, memstore.NewDisk())
		s := disk.(*memstore.Disk).Open()
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func addAgent(t *testing.T, s *memstore.Store, id bridge.AgentID) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		return tx.InsertAgent(bridge.Agent{ID: id, Name: string(id), State: bridge.AgentIdle})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func countAgents(t *testing.T, s *memstore.Store) (n int) {
	t.Helper()
	err := s.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{})
		n = len(all)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRestore: a copy keeps what was there when it was made, and restoring it
// takes back what came later, as often as one likes.
func TestRestore(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	s := disk.Open()
	addAgent(t, s, "agt_1")
	backup := disk.Copy()
	for range 2 {
		addAgent(t, s, "agt_2")
		if n := countAgents(t, s); n != 2 {
			t.Errorf("%d agents before the restore, want 2", n)
		}
		disk.Restore(backup)
		if n := countAgents(t, s); n != 1 {
			t.Errorf("%d agents after the restore, want 1", n)
		}
	}
	if n := countAgents(t, backup.Open()); n != 1 {
		t.Errorf("%d agents in the copy, want 1", n)
	}
}

// TestTwoStoresOnOneDisk: replicas see each other's commits, and closing one leaves the other alone.
func TestTwoStoresOnOneDisk(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	a, b := disk.Open(), disk.Open()
	addAgent(t, a, "agt_1")
	if n := countAgents(t, b); n != 1 {
		t.Errorf("the other store sees %d agents, want 1", n)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.View(t.Context(), func(*bridge.Scene) error { return nil }); !errors.Is(err, memstore.ErrClosed) {
		t.Errorf("view of a closed store: %v", err)
	}
	if err := a.Update(t.Context(), func(*bridge.Scene) error { return nil }); !errors.Is(err, memstore.ErrClosed) {
		t.Errorf("update of a closed store: %v", err)
	}
	addAgent(t, b, "agt_2")
}
