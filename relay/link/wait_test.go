package link_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"drawbridge/relay/link"
)

// However long the bridge is away and however the dice fall, a relay tries again within ten seconds.
func TestWaitBetweenTries(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	if err := link.Save(path, identity()); err != nil {
		t.Fatal(err)
	}
	for _, luck := range []float64{0, 0.5, 0.999999} {
		synctest.Test(t, func(t *testing.T) {
			var tries []time.Time
			l, err := link.New(link.Options{Identity: path, Handler: &handler{}, Rand: func() float64 { return luck },
				Dial: func(context.Context, string) (*websocket.Conn, error) {
					tries = append(tries, time.Now())
					return nil, errors.New("no route")
				}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := l.Run(ctx); err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(tries); i++ {
				if wait := tries[i].Sub(tries[i-1]); wait >= 10*time.Second {
					t.Fatalf("with luck %v it waits %s before try %d", luck, wait, i+1)
				}
			}
			if len(tries) < 3600/10 {
				t.Errorf("%d tries in an hour", len(tries))
			}
		})
	}
}
