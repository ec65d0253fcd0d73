package stores

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

// epoch is when the tests play. It has microseconds, the finest that a store must keep.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 890_123_000, time.UTC)

// at is so long after epoch.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// errUndo ends an Update that shall leave no trace.
var errUndo = errors.New("undo")

// mustUpdate runs fn in an Update that must succeed. fn returns errors and never
// ends the test: it may run on another caller's goroutine.
func mustUpdate(t *testing.T, s bridge.Store, fn func(*bridge.Scene) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// read returns what one look-up, which must succeed, sees in a View.
func read[T any](t *testing.T, s bridge.Store, look func(*bridge.Scene) (T, error)) T {
	t.Helper()
	got, err := lookUp(t.Context(), s, look)
	if err != nil {
		t.Fatalf("look-up: %v", err)
	}
	return got
}

// lookUp is read for look-ups that may fail.
func lookUp[T any](ctx context.Context, s bridge.Store, look func(*bridge.Scene) (T, error)) (got T, err error) {
	err = s.View(ctx, func(tx *bridge.Scene) error {
		got, err = look(tx)
		return err
	})
	return got, err
}

// equal reports a difference under the name of what was compared.
func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// noZeroField fails when v leaves a field out, so that a field that is added to
// a noun later cannot be forgotten by a store unseen.
func noZeroField(t *testing.T, v any) {
	t.Helper()
	r := reflect.ValueOf(v)
	for i := range r.NumField() {
		if r.Field(i).IsZero() {
			t.Fatalf("the sample %s leaves %s empty; fill it", r.Type(), r.Type().Field(i).Name)
		}
	}
}

// second drops the value of a look-up whose error alone matters.
func second[T any](_ T, err error) error { return err }

// dice are even numbers of eight bits: rapid's own ranges prefer the ends, and
// then hardly any play gets as far as what is rare.
var dice = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for range 8 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
})
