//go:build deep

package soak_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
)

// proxy passes TCP connections on and can cut all of them.
type proxy struct {
	listener net.Listener
	from, to string // ports
	running  sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	conns map[net.Conn]bool
	ended bool
}

// proxy opens one for a port and returns its own.
func (w *world) proxy(name, to string) string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // it listens until the world ends, so that nobody has to hold its port
	if err != nil {
		w.t.Fatal(err)
	}
	_, from, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	p := &proxy{listener: l, from: from, to: to, conns: map[net.Conn]bool{}}
	p.running.Go(p.serve)
	w.proxies[name] = p
	return from
}

func (w *world) proxyDatabase(address string) string {
	if address == "" {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil {
		w.t.Fatal(err)
	}
	u.Host = "127.0.0.1:" + w.proxy("database", u.Port())
	return u.String()
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.pass(c) })
	}
}

func (p *proxy) pass(client net.Conn) {
	server, err := net.Dial("tcp", "127.0.0.1:"+p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.keep(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	both.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	both.Wait()
	p.drop(client, server)
}

// copy passes on what the client says. The relay wants to be called by its own address, so that the proxy's is exchanged.
func (p *proxy) copy(server, client net.Conn) {
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		data := bytes.Replace(buffer[:n], []byte("127.0.0.1:"+p.from), []byte("127.0.0.1:"+p.to), 1)
		if _, werr := server.Write(data); err != nil || werr != nil {
			return
		}
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.ended {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.ended
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// cut ends every connection and returns how many there were.
func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	return len(p.conns) / 2
}

func (p *proxy) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.cut()
	p.running.Wait()
}
