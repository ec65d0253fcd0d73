package hub_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// prints makes the action a print so many bytes and an end.
func (m *machine) prints(size int) string {
	text := strings.Repeat("0123456789\n", size/11) + "end"
	m.set("a", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
		return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted, Stdout: text, Stderr: "err", StdoutOmitted: 5}}
	})
	return text
}

// An output that is larger than a frame arrives whole, from every replica and when it is asked for again, up to what the bridge
// keeps.
func TestLargeOutputs(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	d := newDiary("a")
	connect(t, joined(t, b.site, "laptop"), d, nil)
	a.online(t, "laptop")
	sizes := []int{wire.MaxWhole - 400, wire.MaxWhole, 100_000, bridge.MaxOutput - 20, 3 << 20}
	if sampled {
		sizes = sizes[1:3]
	}
	for _, size := range sizes {
		text := d.prints(size)
		for n, s := range []*site{a.site, b.site} {
			id := fmt.Sprintf("op-%d-%d", size, n)
			for range 2 { // the second time the journal answers
				out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", id))
				want := text[max(0, len(text)-bridge.MaxOutput):]
				if err != nil || out.Stdout != want || int64(len(out.Stdout))+out.Omitted != int64(len(text))+5 {
					t.Errorf("%s: %d bytes of %d, %d omitted, %v", id, len(out.Stdout), len(text), out.Omitted, err)
				}
			}
		}
	}
	for id, n := range d.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

// A large answer comes by a look-up, too.
func TestLargeLookup(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	d := newDiary("a")
	connect(t, joined(t, b.site, "laptop"), d, nil)
	a.online(t, "laptop")
	text := d.prints(bridge.MaxOutput - 20)
	if _, err := a.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*site{a.site, b.site} {
		found, err := s.LookUp(t.Context(), bridge.ActionLookup{Request: "op-1", Relay: "laptop", Action: "a", Line: "LOCAL_ACTION: a", Agent: "main"})
		if err != nil || found.Known != bridge.JournalOver || found.Outcome.Stdout != text {
			t.Errorf("%q with %d bytes, %v", found.Known, len(found.Outcome.Stdout), err)
		}
	}
}

// brittle is a connection that breaks after so many bytes of the relay's.
type brittle struct {
	net.Conn
	left *atomic.Int64
}

// Write implements net.Conn.
func (b *brittle) Write(p []byte) (int, error) {
	if b.left.Add(-int64(len(p))) < 0 {
		_ = b.Close()
		return 0, net.ErrClosed
	}
	return b.Conn.Write(p)
}

// breaks makes a relay dial through a connection that ends when left falls below 0. The next connection is a good one again.
func breaks(left *atomic.Int64, bad func(net.Conn) net.Conn) func(*link.Options) {
	const good = 1 << 40
	left.Store(good)
	return func(o *link.Options) {
		o.Dial = func(ctx context.Context, address string) (*websocket.Conn, error) {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return bad(c), err
			}}}
			left.CompareAndSwap(min(left.Load(), -1), good)
			ws, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{wire.Subprotocol}})
			return ws, err
		}
	}
}

// large is an answer that does not fit into a frame.
func large(t *testing.T, id string) []byte {
	t.Helper()
	data, err := wire.Frame{Outcome: &wire.Outcome{ID: id, Answer: wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: strings.Repeat("x", 2*wire.MaxWhole) + "forged"}}}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Frames that no relay sends end the connection.
func TestChunksOutOfOrder(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path := joined(t, s, "laptop")
	chunk := wire.NewChunk(1, 0, []byte("x"))
	receipt := wire.Receipt{N: 1, Upto: 1}
	for name, f := range map[string]wire.Frame{"a chunk of nothing": {Chunk: &chunk}, "a receipt for nothing": {Receipt: &receipt}} {
		p, _, _ := s.entered(t, path)
		p.frame(f)
		if got := p.closed(); !strings.Contains(got, "out of order") {
			t.Errorf("%s: %q", name, got)
		}
		s.offline(t, "laptop")
	}
	p, i, connection := s.entered(t, path)
	c, err := wire.Announce(i.Key, connection, wire.Chunked{N: 2, Kind: "outcome", For: "op-1"}, large(t, "op-1"))
	if err != nil {
		t.Fatal(err)
	}
	p.frame(wire.Frame{Chunked: &c})
	if got := p.closed(); !strings.Contains(got, "out of order") {
		t.Errorf("a number left out: %q", got)
	}
}
