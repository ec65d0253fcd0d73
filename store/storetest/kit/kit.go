// Package kit is what the parts of the store's contract share: how to write and
// look so that a test fails with words, when the tests play, even dice. It asserts nothing
// about stores. Rule of thumb: a helper that two suites need, and no fixture.
package kit

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"drawbridge/bridge"
)

// Epoch is when the tests play. It has microseconds, the finest that a store must keep.
var Epoch = time.Date(2026, 3, 4, 5, 6, 7, 890_123_000, time.UTC)

// At is so long after Epoch.
func At(d time.Duration) time.Time { return Epoch.Add(d) }

// ErrUndo ends an Update that shall leave no trace.
var ErrUndo = errors.New("undo")

// Update runs fn in an Update that must succeed. fn returns errors and never
// ends the test: it may run on another caller's goroutine.
func Update(t *testing.T, s bridge.Store, fn func(bridge.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// Read returns what one look-up, which must succeed, sees in a View.
func Read[T any](t *testing.T, s bridge.Store, look func(bridge.Tx) (T, error)) T {
	t.Helper()
	got, err := LookUp(t.Context(), s, look)
	if err != nil {
		t.Fatalf("look-up: %v", err)
	}
	return got
}

// LookUp is Read for look-ups that may fail.
func LookUp[T any](ctx context.Context, s bridge.Store, look func(bridge.Tx) (T, error)) (got T, err error) {
	err = s.View(ctx, func(tx bridge.Tx) error {
		got, err = look(tx)
		return err
	})
	return got, err
}

// Equal reports a difference under the name of what was compared.
func Equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// NoZeroField fails when v leaves a field out, so that a field that is added to
// a noun later cannot be forgotten by a store unseen.
func NoZeroField(t *testing.T, v any) {
	t.Helper()
	r := reflect.ValueOf(v)
	for i := range r.NumField() {
		if r.Field(i).IsZero() {
			t.Fatalf("the sample %s leaves %s empty; fill it", r.Type(), r.Type().Field(i).Name)
		}
	}
}

// Second drops the value of a look-up whose error alone matters.
func Second[T any](_ T, err error) error { return err }

// Dice are even numbers of eight bits: rapid's own ranges prefer the ends, and
// then hardly any play gets as far as what is rare.
var Dice = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for range 8 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
})
