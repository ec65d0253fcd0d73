//go:build deep

package hub_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// A connection that breaks anywhere in a large answer loses nothing and does nothing twice: asked again, the journal answers.
func TestLargeOutputOverBrokenConnections(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	d := newDiary("a")
	text := d.prints(bridge.MaxOutput - 20)
	var left atomic.Int64
	connect(t, joined(t, s, "laptop"), d, breaks(&left, func(c net.Conn) net.Conn { return &brittle{c, &left} }))
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // the same places each time
	broken := 0
	for n := range 4 {
		s.online(t, "laptop")
		id := fmt.Sprintf("op-%d", n)
		left.Store(random.Int64N(bridge.MaxOutput * 3 / 2))
		eventually(t, "the answer is there", func() bool {
			out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", id))
			if err != nil {
				broken++
				return false
			}
			if out.Stdout != text {
				t.Errorf("%s: %d bytes", id, len(out.Stdout))
			}
			return true
		})
		left.Store(1 << 40)
	}
	if broken == 0 {
		t.Error("no connection broke")
	}
	for id, n := range d.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

// A connection that breaks anywhere in a large turn says nothing twice: asked again, the turn is said once.
func TestLargeTurnOverBrokenConnections(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	host := newScript(echo)
	text := strings.Repeat("Line\n", wire.MaxTurnText/10)
	var left atomic.Int64
	connect(t, joined(t, s, "laptop"), host, breaks(&left, func(c net.Conn) net.Conn { return &deafening{c, &left} }))
	random := rand.New(rand.NewPCG(9, 10)) //nolint:gosec // the same places each time
	broken := 0
	for n := range 4 {
		s.online(t, "laptop")
		id := fmt.Sprintf("op-%d", n)
		left.Store(random.Int64N(int64(len(text)) * 3 / 2))
		eventually(t, "the turn is over", func() bool {
			end, err := s.RunTurn(t.Context(), turn(id, text))
			if err != nil {
				broken++
				return false
			}
			if end.Text != text {
				t.Errorf("%s: %d bytes", id, len(end.Text))
			}
			return true
		})
		left.Store(1 << 40)
		if n := host.times(id); n != 1 {
			t.Errorf("%s was said %d times", id, n)
		}
	}
	if broken == 0 {
		t.Error("no connection broke")
	}
}

// TestSilentStrangers: strangers who connect and say nothing keep no relay out. As many as are asked at a time once kept all
// of them out for 10 s, and again with each new round.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	identity := joined(t, s, "laptop")
	s.clock.stop()
	s.Patient() // a busy machine needs longer for these strangers than a handshake may take
	var gone atomic.Int32
	transport := &http.Transport{DisableKeepAlives: true}
	silent := func() error {
		ws, r, err := websocket.Dial(t.Context(), s.url+wire.ConnectPath, &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}, HTTPClient: &http.Client{Transport: transport}})
		if err != nil && (r == nil || r.StatusCode != http.StatusServiceUnavailable) {
			t.Fatal(err)
		}
		if err == nil {
			t.Cleanup(func() { _ = ws.CloseNow() })
			go func() {
				if _, _, err := ws.Read(t.Context()); err != nil {
					gone.Add(1)
				}
			}()
		}
		return err
	}
	refused := 0
	for range 600 {
		if err := silent(); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("strangers are asked without a bound")
	}
	s.clock.forward(2 * time.Second)
	connect(t, identity, newDiary("a"), func(o *link.Options) { o.Now = s.clock.now })
	s.online(t, "laptop")
	if n := gone.Load(); n > 20 {
		t.Errorf("%d strangers were sent away before the relay came in; its tries make room by themselves", n)
	}
}

// The replica that holds the connection dies in the middle. What was taken may have run; the next one finds out.
func TestReplicaDies(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		a, b := twoReplicas(t)
		m := newDiary("a")
		began, free := make(chan struct{}), make(chan struct{})
		m.set("a", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
			close(began)
			<-free
			return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted}}
		})
		path := joined(t, b.site, "laptop")
		stop := connect(t, path, m, nil)
		a.online(t, "laptop")
		if !taken {
			b.freeze()
		}
		result := make(chan error, 1)
		go func() {
			_, err := a.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
			result <- err
		}()
		if taken {
			<-began
			b.freeze()
		} else {
			eventually(t, "the call waits", func() bool { return a.calls(t, "rep_b") == 1 })
		}
		a.clock.forward(time.Minute) // b has said nothing for so long
		a.Wake()
		err := <-result
		if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) != taken {
			t.Errorf("taken %v: %v, unclear %v", taken, err, bridge.IsUnclear(err))
		}
		b.thaw()
		close(free)
		stop()
		if !taken {
			continue
		}
		// The relay comes back, to a this time, and the journal has the answer.
		a.clock.forward(-time.Minute)
		connect(t, path, m, func(o *link.Options) { o.URL = a.url })
		eventually(t, "the answer is found", func() bool {
			out, err := a.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
			return err == nil && out.Status == bridge.ActionExecuted
		})
		if m.ran["op-1"] != 1 {
			t.Errorf("it ran %d times", m.ran["op-1"])
		}
	}
}
