// Package pgproxy stands on loopback between a program and PostgreSQL. It makes the
// way as long as a test wants, ends a connection at a COMMIT that a test chooses, and
// changes no byte. It is a proof tool: no product imports it. Rule of thumb:
// lose a commit, then look at what is recorded.
package pgproxy

import (
	"fmt"
	"net"
	"net/url"
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
	wait               func(time.Time) // returns at a time
	running            sync.WaitGroup
	loss               loss

	mu sync.Mutex // guards the fields below
	// open are the connections of both sides, which Close ends.
	open  map[net.Conn]bool
	count int
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
	p := &Proxy{target: *u, listener: l, wait: waitUntil, open: map[net.Conn]bool{}}
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

// Connections counts the connections that were opened.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
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

// forward carries one connection.
func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target.Host)
	if err != nil {
		return
	}
	defer server.Close()
	p.between(client, server)
}

// between carries what two connections say to each other until both have ended.
func (p *Proxy) between(client, server net.Conn) {
	seen := newObserver(&p.loss)
	if !p.keep(client, server) {
		return
	}
	defer p.drop(client, server)
	var both sync.WaitGroup
	both.Go(func() {
		line{delay: &p.toServer, wait: p.wait, sent: seen.fromClient, lost: seen.lost}.carry(server, client)
	})
	both.Go(func() {
		line{delay: &p.toClient, wait: p.wait, arrived: seen.fromServer, lost: seen.lost}.carry(client, server)
	})
	both.Wait()
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.count++
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
