package link_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/relay/wire"
)

// held is a handler whose first request stays in it.
type held struct {
	*handler
	begun, free chan struct{}
}

// Run implements wire.Handler.
func (h *held) Run(ctx context.Context, r wire.Request, progress func(wire.Output)) (wire.Outcome, error) {
	close(h.begun)
	<-h.free
	return h.handler.Run(ctx, r, progress)
}

// A connection that is lost while an action runs is made again at once, not when the action is over: that may be an hour.
func TestComesBackWhileAnActionRuns(t *testing.T) {
	t.Parallel()
	h := &held{handler: newHandler(), begun: make(chan struct{}), free: make(chan struct{})}
	back := make(chan struct{})
	var connections atomic.Int32
	relayWith(t, h, func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		if connections.Add(1) > 1 {
			close(back)
			_, _ = p.read() // until the relay ends
			return
		}
		defer close(h.free)
		if err := p.frame(wire.Frame{Request: sign(t, p.key, order("op-1", "listed"))}); err != nil {
			t.Error(err)
			return
		}
		<-h.begun
		_ = p.ws.CloseNow()
		select {
		case <-back:
		case <-time.After(2 * time.Minute):
			t.Error("the relay did not come back")
		}
	})
	if n := h.count("listed"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A key of the bridge that was left behind, and perhaps stolen, vouches for no other key, although it still counts.
func TestOldKeyVouchesForNone(t *testing.T) {
	t.Parallel()
	announce := func(p *peer, by, next string) []string {
		k, err := wire.NewKeys(key(by), "laptop", public(key(next)))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.frame(wire.Frame{Keys: &k}); err != nil {
			t.Error(err)
		}
		f, err := p.read()
		if err != nil || f.Pinned == nil {
			t.Errorf("%s by %s: %+v, %v", next, by, f, err)
			return nil
		}
		return f.Pinned.Pins
	}
	relayWith(t, newHandler(), func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		first, second, third := wire.KeyID(public(key("bridge"))), wire.KeyID(public(key("second"))), wire.KeyID(public(key("third")))
		for _, step := range []struct {
			by, next string
			want     []string
		}{
			{"bridge", "second", []string{first, second}},
			{"bridge", "evil", []string{first, second}},
			{"bridge", "second", []string{first, second}},
			{"second", "bridge", []string{second, first}},
			{"bridge", "third", []string{second, first, third}},
		} {
			if got := announce(p, step.by, step.next); !slices.Equal(got, step.want) {
				t.Errorf("%s by %s: %v, want %v", step.next, step.by, got, step.want)
			}
		}
	})
}
