// Package pgproxy stands on loopback between a program and PostgreSQL, makes the
// way as long as a test wants, and counts what goes over the wire: round trips,
// statements and transactions. It changes no byte; a test may let it end a
// connection at a COMMIT. It cannot read TLS. It is
// a proof tool: no product imports it. Rule of thumb: count at the wire, and the
// figures stay comparable when the program is rewritten.
package pgproxy

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy forwards connections to one server. Its methods are safe for concurrent use.
type Proxy struct {
	target   url.URL
	listener net.Listener
	// toServer and toClient are the delays in nanoseconds.
	toServer, toClient atomic.Int64
	running            sync.WaitGroup
	loss               loss

	mu sync.Mutex // guards the fields below
	// open are the connections of both sides, which Close ends.
	open  map[net.Conn]bool
	conns []*observer
	ended bool
}

// Start listens on a free port of loopback and forwards each connection to the
// server of a postgres:// URL that has one host. Close ends it.
func Start(database string) (*Proxy, error) {
	u, err := url.Parse(database)
	if err != nil || u.Port() == "" {
		return nil, fmt.Errorf("pgproxy needs a postgres:// URL with one host and a port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy: %w", err)
	}
	p := &Proxy{target: *u, listener: l, open: map[net.Conn]bool{}}
	p.running.Go(p.serve)
	return p, nil
}

// URL is the database's URL through the proxy.
func (p *Proxy) URL() string {
	u := p.target
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Delay sets how long each byte takes in each direction from now on; a round
// trip takes their sum besides the server's own time. Bytes keep their order, and
// bytes that were sent together arrive together, so that a batch is delayed once.
func (p *Proxy) Delay(toServer, toClient time.Duration) {
	p.toServer.Store(int64(toServer))
	p.toClient.Store(int64(toClient))
}

// Snapshot returns what was counted since Start or the last Reset.
func (p *Proxy) Snapshot() Snapshot {
	p.mu.Lock()
	all := slices.Clone(p.conns)
	p.mu.Unlock()
	s := Snapshot{Statements: map[string]int{}}
	for _, c := range all {
		c.addTo(&s)
	}
	return s
}

// Reset sets all counters to zero. What is on the wire at that moment counts partly before and partly after.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, (*observer).reset)
}

// Close ends every connection and waits for its goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.ended = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.running.Wait()
	return err
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.forward(client) })
	}
}

// forward carries one connection until both sides have ended.
func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target.Host)
	if err != nil {
		return
	}
	defer server.Close()
	seen := newObserver(&p.loss)
	if !p.keep(seen, client, server) {
		return
	}
	defer p.drop(client, server)
	var both sync.WaitGroup
	both.Go(func() {
		line{delay: &p.toServer, wait: waitUntil, sent: seen.fromClient, lost: seen.lost}.carry(server, client)
	})
	both.Go(func() {
		line{delay: &p.toClient, wait: waitUntil, arrived: seen.fromServer, lost: seen.lost}.carry(client, server)
	})
	both.Wait()
	seen.end()
}

func (p *Proxy) keep(seen *observer, conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.conns = append(p.conns, seen)
	for _, c := range conns {
		p.open[c] = true
	}
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.open, c)
	}
}
