// Package pipes is a network for tests in virtual time: a listener whose
// connections are pipes in memory. A bubble of testing/synctest waits for them as
// it does for channels, which it cannot do for sockets. Rule of thumb: a test
// that opens one closes it inside the bubble.
package pipes

import (
	"context"
	"net"
	"sync"
)

// Listener is a [net.Listener]. Safe for concurrent use.
type Listener struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

// New returns a listener that is open.
func New() *Listener { return &Listener{conns: make(chan net.Conn), ended: make(chan struct{})} }

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.IPAddr{} }

// Dial connects to the listener, whatever the address. It has the form of [net.Dialer.DialContext].
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.ended:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
