package httpx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/clip"
)

// ServerOptions configures a Server. Addr and Handler are required; a timeout
// that is zero means its default.
type ServerOptions struct {
	// Addr is host:port; port 0 takes a free one. Setting says where it is given, for the error when it cannot be taken.
	Addr, Setting string
	Handler       http.Handler
	// ReadHeader defaults to 10 s, Read and Write to 60 s, Idle to 120 s.
	// Handlers that take longer call Linger.
	ReadHeader, Read, Write, Idle time.Duration
	// Grace is how long running requests may go on after the stop; default 20 s.
	Grace time.Duration
	Log   zerolog.Logger
}

// maxHeaderBytes bounds a request's line and headers.
const maxHeaderBytes = 32 << 10

// Server is an HTTP server on an open listener. Serve is called once.
type Server struct {
	o        ServerOptions
	listener net.Listener
}

// Listen takes the address at once, so that one that is taken or malformed is
// an error at start; nothing is served before Serve.
func Listen(ctx context.Context, o ServerOptions) (*Server, error) {
	if o.Handler == nil {
		return nil, errors.New("HTTP server needs a handler")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, ListenError(o.Addr, cmp.Or(o.Setting, "listen"), err)
	}
	o.ReadHeader = cmp.Or(o.ReadHeader, 10*time.Second)
	o.Read = cmp.Or(o.Read, time.Minute)
	o.Write = cmp.Or(o.Write, time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Minute)
	o.Grace = cmp.Or(o.Grace, 20*time.Second)
	return &Server{o: o, listener: l}, nil
}

// Addr returns the address that was taken, with the real port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

type drainKey struct{}

// Draining returns a channel that is closed when the server that serves ctx's
// request begins to stop: who waits or streams ends then, so that the stop does
// not have to cut it off. Outside of a Server it is nil and never ready.
func Draining(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(drainKey{}).(chan struct{})
	return c
}

// Conn is the connection that a request came on, over all its requests. Safe for concurrent use.
type Conn struct {
	mu   sync.Mutex // guards next
	next chan struct{}
	done chan struct{}
}

// Next is closed when another request begins on it.
func (c *Conn) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// Done is closed when it has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

type connKey struct{}

// ConnOf returns the connection of ctx's request; nil outside of a Server.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// Watch lets ConnOf find the connections of hs, which must not serve yet.
func Watch(hs *http.Server) {
	var conns sync.Map
	hs.ConnContext = func(ctx context.Context, n net.Conn) context.Context {
		c := &Conn{next: make(chan struct{}), done: make(chan struct{})}
		conns.Store(n, c)
		return context.WithValue(ctx, connKey{}, c)
	}
	hs.ConnState = func(n net.Conn, state http.ConnState) {
		there, _ := conns.Load(n)
		c, ok := there.(*Conn)
		switch {
		case !ok:
		case state == http.StateActive:
			c.begin()
		case state == http.StateClosed, state == http.StateHijacked:
			close(c.done)
			conns.Delete(n)
		}
	}
}

// Serve serves until ctx ends and then stops in order: no new connections, a
// word to those who linger, the grace period, and the rest is cut off, which is
// the only stop that returns an error.
func (s *Server) Serve(ctx context.Context) error {
	drain := make(chan struct{})
	base, cut := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), drainKey{}, drain))
	defer cut(errCut)
	hs := &http.Server{
		Handler:           s.o.Handler,
		ReadHeaderTimeout: s.o.ReadHeader,
		ReadTimeout:       s.o.Read,
		WriteTimeout:      s.o.Write,
		IdleTimeout:       s.o.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          stdlog.New(errorLog{s.o.Log}, "", 0),
	}
	Watch(hs)
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	close(drain)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	err := hs.Shutdown(grace)
	if err != nil {
		cut(errCut)
		err = errors.Join(fmt.Errorf("stop HTTP on %s: requests cut off after %s: %w", s.Addr(), s.o.Grace, err), hs.Close())
	}
	<-ended
	return err
}

// Linger lets one request outlive the server's write timeout: the answer must be
// written within d from now. The read timeout needs no lifting, because net/http
// ends it with the body; so read the body first.
func Linger(w http.ResponseWriter, d time.Duration) {
	// A writer without deadlines, as in a test, has nothing to lift.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// errorLog writes what net/http has to say: at error level, unless a client caused it.
type errorLog struct{ log zerolog.Logger }

// clientCaused begins the lines of net/http that any client can cause.
var clientCaused = []string{"http: TLS handshake error", "http: URL query contains semicolon", "http2: "}

// Write implements io.Writer for one line.
func (l errorLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	line := l.log.Error()
	for _, begin := range clientCaused {
		if strings.HasPrefix(text, begin) {
			line = l.log.Info()
		}
	}
	line.Str("from", "net/http").Msg(clip.Text(text, 2000))
	return len(p), nil
}
