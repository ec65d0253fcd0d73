package link_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// way is a network in memory, which can swallow everything on it: both ends can write, nobody hears, and no connection ends, as
// when a firewall forgets about it or the power of a router goes.
type way struct {
	accepted  chan net.Conn
	closed    chan struct{}
	swallowed atomic.Bool
}

func newWay() *way { return &way{accepted: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (w *way) Accept() (net.Conn, error) {
	select {
	case c := <-w.accepted:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *way) Close() error { close(w.closed); return nil }

// Addr implements net.Listener.
func (w *way) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial is the DialContext of whoever uses the way.
func (w *way) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.accepted <- far:
		return &traveler{Conn: near, way: w}, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), near.Close(), far.Close())
	case <-w.closed:
		return nil, errors.Join(net.ErrClosed, near.Close(), far.Close())
	}
}

// traveler is one end of a connection over the way.
type traveler struct {
	net.Conn
	way *way
}

// Read drops what comes while the way swallows.
func (t *traveler) Read(p []byte) (int, error) {
	for {
		n, err := t.Conn.Read(p)
		if err != nil || !t.way.swallowed.Load() {
			return n, err
		}
	}
}

// Write says that all is well while the way swallows.
func (t *traveler) Write(p []byte) (int, error) {
	if t.way.swallowed.Load() {
		return len(p), nil
	}
	return t.Conn.Write(p)
}

// silent plays a relay that is let in, and after that over a way that swallows from when fn says. connections gets the time of
// every handshake that came through.
func silent(t *testing.T, fn func(l *link.Link, w *way, connections <-chan time.Time)) {
	t.Helper()
	overWay(t, traffic{newHandler(), func(p *peer) {
		for {
			if _, err := p.read(); err != nil {
				return
			}
		}
	}}, fn)
}

// traffic is what goes over a way: a bridge says what talk says to a relay with a handler.
type traffic struct {
	handler wire.Handler
	talk    func(*peer)
}

// overWay is silent with traffic.
func overWay(t *testing.T, on traffic, fn func(l *link.Link, w *way, connections <-chan time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, connections := newWay(), make(chan time.Time, 8)
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
			if err != nil {
				return // the way went in the middle
			}
			defer func() { _ = ws.CloseNow() }()
			p := &peer{t: t, ws: ws, key: key("bridge")}
			if err := p.let(); err != nil {
				return
			}
			connections <- time.Now()
			on.talk(p)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(w) })
		path := filepath.Join(t.TempDir(), link.DefaultFile)
		err := link.Save(path, link.Identity{Bridge: "http://127.0.0.1:1", Relay: "laptop", Key: key("relay"), Pins: []link.Pin{{Key: public(key("bridge")), Since: time.Now()}}})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DialContext: w.dial, DisableKeepAlives: true}}
		l, err := link.New(link.Options{Identity: path, Handler: on.handler, Log: zerolog.New(io.Discard), Rand: func() float64 { return 1 },
			Dial: func(ctx context.Context, address string) (*websocket.Conn, error) {
				ws, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{wire.Subprotocol}})
				return ws, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		serving.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		fn(l, w, connections)
		cancel()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
}
