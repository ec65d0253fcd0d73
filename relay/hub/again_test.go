package hub

import (
	"context"
	"errors"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
)

// againStore runs each step once and rolls it back, as a store does that meets another step, and calls between before it runs it again.
type againStore struct {
	bridge.Store
	between func()
}

var errMet = errors.New("another step was first")

func (s againStore) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	err := s.Store.Update(ctx, func(tx *bridge.Scene) error { return errors.Join(fn(tx), errMet) }, hints...)
	if !errors.Is(err, errMet) {
		return err
	}
	s.between()
	return s.Store.Update(ctx, fn, hints...)
}

// TestCallIsTakenOnce: a look of ours that lost a call to another one, after its first try, does not serve it.
func TestCallIsTakenOnce(t *testing.T) {
	t.Parallel()
	s := memstore.NewDisk().Open()
	k := bridge.RelayCall{ID: "rcl_1", Replica: "rep_1", Relay: "home", Ask: "{}", State: bridge.CallWaiting, CreatedAt: time.Now()}
	put := func(state bridge.CallState) {
		taken := k
		taken.State = state
		if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.PutCall(taken) }); err != nil {
			t.Error(err)
		}
	}
	put(bridge.CallWaiting)
	h, err := New(Options{Relays: map[string]Relay{}})
	if err != nil {
		t.Fatal(err)
	}
	h.o.Store = againStore{s, func() { put(bridge.CallTaken) }}
	h.serveCall(t.Context(), k)
	err = s.View(t.Context(), func(tx *bridge.Scene) error {
		got, err := tx.Call(k.ID)
		if got.State != bridge.CallTaken {
			t.Errorf("the call is %s", got.State)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
