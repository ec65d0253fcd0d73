package store_test

import (
	"slices"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/store"
)

// TestHealth: the size counts from the first look of the earliest day that is kept, and work counts while nobody does it.
func TestHealth(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, database string, _ func(...string)) {
		s := open(t, database)
		day := time.Date(2026, 1, 1, 5, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{day, day.Add(time.Hour), day.AddDate(0, 0, 20), day.AddDate(0, 0, 31)} {
			if err := s.NoteSize(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
			for _, lane := range []string{"a", "b"} {
				if err := tx.Enqueue(bridge.Work{Kind: bridge.WorkTurn, Ref: lane, Lane: lane, Due: day}); err != nil {
					return err
				}
			}
			return tx.Enqueue(bridge.Work{Kind: bridge.WorkTurn, Ref: "c", Lane: "c", Due: day.Add(2 * time.Hour)})
		}); err != nil {
			t.Fatal(err)
		}
		h, err := s.Health(t.Context(), day.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Date(2026, 1, 21, 0, 0, 0, 0, time.UTC); !h.Before.Equal(want) || h.Bytes < 100_000 || h.BytesBefore < 100_000 || h.Queued != 2 {
			t.Errorf("%+v", h)
		}
		if shared := store.IsURL(database); (len(h.Replicas) > 0) != shared || slices.ContainsFunc(h.Replicas, func(r bridge.Replica) bool { return r.Name == "" || time.Since(r.Since) > time.Hour }) {
			t.Errorf("%+v", h.Replicas)
		}
	})
}
