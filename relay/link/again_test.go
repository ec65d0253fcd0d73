package link_test

import (
	"context"
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

// A connection that is lost while an action runs is made anew at once, not when the action is over: that may be an hour.
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
		case <-time.After(30 * time.Second):
			t.Error("the relay did not come back")
		}
	})
	if n := h.count("listed"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}
