package store_test

import (
	"path/filepath"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/stores"
	"drawbridge/store"
)

func TestContract(t *testing.T) {
	t.Parallel()
	var paths sync.Map // *testing.T to the path of its database
	stores.Run(t, func(t *testing.T) bridge.Store {
		path, seen := paths.Load(t)
		if !seen {
			path = filepath.Join(t.TempDir(), "drawbridge.db")
			paths.Store(t, path)
		}
		return open(t, path.(string))
	})
}

// open opens a store and closes it when t ends.
func open(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
