package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/internal/lifecycle"
)

func TestStopsInReverse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		part := func(name string) lifecycle.Part {
			return lifecycle.Part{Name: name, Run: func(ctx context.Context) error {
				<-ctx.Done()
				stopped = append(stopped, name)
				return ctx.Err()
			}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lifecycle.Run(ctx, part("store"), part("engine"), part("server")); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"server", "engine", "store"}, stopped); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOneEndsAllEnd(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	waits := lifecycle.Part{Name: "waits", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }}
	for name, c := range map[string]struct {
		run  func(context.Context) error
		want string
	}{
		"fails":          {func(context.Context) error { return broken }, "part: broken"},
		"ends by itself": {func(context.Context) error { return nil }, "part ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := lifecycle.Run(t.Context(), waits, lifecycle.Part{Name: "part", Run: c.run})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSlowStopIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		release := make(chan struct{})
		slow := lifecycle.Part{Name: "slow", Stop: time.Second, Run: func(context.Context) error { <-release; return nil }}
		err := lifecycle.Run(ctx, slow)
		close(release)
		if err == nil || !strings.Contains(err.Error(), "slow did not stop within 1s") {
			t.Errorf("got %v", err)
		}
	})
}
