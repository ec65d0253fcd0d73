package link_test

import (
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/relay/wire"
)

// watcher is a handler that is told how the connection is.
type watcher struct {
	*handler
	told chan wire.Connection
}

// Watch implements wire.Watcher.
func (w watcher) Watch(c wire.Connection) { w.told <- c }

// The handler hears of each step: to whom the relay turns, that it was let in, and why that ended, which stays known when the
// next connection holds.
func TestConnectionIsWatched(t *testing.T) {
	t.Parallel()
	w := watcher{handler: newHandler(), told: make(chan wire.Connection, 100)}
	began := time.Now()
	next := func(what string, in, failed bool) {
		t.Helper()
		select {
		case c := <-w.told:
			if c.Relay != "laptop" || c.Bridge == "" || c.Since.IsZero() == in || (c.Error != "") != failed || c.Failed.IsZero() == failed {
				t.Errorf("%s: %+v", what, c)
			}
			if in && c.Since.Before(began) {
				t.Errorf("%s: connected since %s, before it began", what, c.Since)
			}
		case <-time.After(2 * time.Minute):
			t.Errorf("%s: nothing was told", what)
		}
	}
	back := make(chan struct{})
	var connections atomic.Int32
	relayWith(t, w, func(p *peer) {
		again := connections.Add(1) > 1
		next("dialing", false, again)
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		next("let in", true, again)
		if again {
			close(back)
			_, _ = p.read() // until the relay ends
			return
		}
		_ = p.ws.CloseNow()
		next("cut off", false, true)
		<-back
	})
}
