// Package link is the relay's connection to its bridge: it dials out, so that no port is open on the user's machine, and
// hands verified requests to a wire.Handler.
//
// It trusts what is signed with a key that was pinned when the relay joined, for this relay, now and once, and nothing
// else: not the address, not TLS, not the connection. It is not where anything is allowed or run; that is the handler's.
// Rule of thumb: what the bridge says is read here, what it asks for is judged there.
package link

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"drawbridge/internal/pause"
	"drawbridge/relay/wire"
)

const (
	// minWait and maxWait bound the wait before dialing again. It doubles with each failure. What waits at the bridge for a
	// relay whose network is back waits no longer than maxWait.
	minWait = 500 * time.Millisecond
	maxWait = 9 * time.Second
	// refusedWait follows the bridge's word that we are not enrolled, or no more: asking often would change nothing.
	refusedWait = 5 * time.Minute
	// steady is how long a connection must have held for the next wait to be short again.
	steady = 30 * time.Second
	// handshakeTimeout bounds dialing and the handshake, so that a try that began without a network ends soon after it is back.
	handshakeTimeout = 10 * time.Second
	pingEvery        = 20 * time.Second
	pingTimeout      = 15 * time.Second
	writeTimeout     = 15 * time.Second
)

// Options is what a [Link] is made of. Identity and Handler are required.
type Options struct {
	// Identity is the path of the file that [Join] wrote.
	Identity string
	// URL replaces the address in the identity when it is set.
	URL     string
	Handler wire.Handler
	// Now is time.Now unless set; Rand, numbers from 0 up to 1, is math/rand/v2 unless set.
	Now  func() time.Time
	Rand func() float64
	Log  zerolog.Logger
	// Dial replaces the network, for tests; nil dials as the environment and the identity say.
	Dial func(ctx context.Context, address string) (*websocket.Conn, error)
}

// Link keeps one connection to the bridge. Run is called once.
type Link struct {
	o         Options
	seen      seen
	connected atomic.Bool
	// state is what a wire.Watcher was told last; Run's alone.
	state wire.Connection
	// slots and running are of all connections together: what a request started outlives the connection on which it came.
	slots   chan struct{}
	running sync.WaitGroup
	// handshake bounds dialing and the handshake. It is handshakeTimeout; tests in real time give more.
	handshake time.Duration
}

// New checks the identity; it connects to nothing.
func New(o Options) (*Link, error) {
	if o.Handler == nil {
		return nil, errors.New("link needs a handler")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if _, err := Load(o.Identity); err != nil {
		return nil, err
	}
	if o.URL != "" {
		address, err := CheckURL(o.URL)
		if err != nil {
			return nil, err
		}
		o.URL = address
	}
	return &Link{o: o, slots: make(chan struct{}, maxInFlight), handshake: handshakeTimeout}, nil
}

// Connected reports whether the bridge has let us in now.
func (l *Link) Connected() bool { return l.connected.Load() }

// Run connects, and connects again whenever the connection ends, whatever still runs, until ctx ends; then it lets what runs answer, as long as
// the handler takes, and returns nil.
func (l *Link) Run(ctx context.Context) error {
	for failed := 0; ctx.Err() == nil; {
		began := l.o.Now()
		err := l.once(ctx)
		l.watch(func(c *wire.Connection) {
			c.Since = time.Time{}
			if err != nil {
				c.Error, c.Failed = err.Error(), l.o.Now()
			}
		})
		if ctx.Err() != nil {
			break
		}
		if l.o.Now().Sub(began) > steady {
			failed = 0
		}
		wait := l.wait(failed, err)
		failed++
		l.logOf(err).Err(err).Dur("wait_ms", wait).Msg(remedy(err))
		_ = pause.For(ctx, wait)
	}
	l.running.Wait()
	return nil
}

// watch tells the handler what changed about the connection, if it wants to know.
func (l *Link) watch(change func(*wire.Connection)) {
	change(&l.state)
	if w, watches := l.o.Handler.(wire.Watcher); watches {
		w.Watch(l.state)
	}
}

// wait doubles from minWait to maxWait, and half of it is chance, so that a thousand relays do not come back as one.
func (l *Link) wait(failed int, err error) time.Duration {
	wait := min(minWait<<min(failed, 20), maxWait)
	var e *refusal
	if errors.As(err, &e) && e.reason != wire.CloseCopied { // a copy is let in as soon as the operator accepts it
		wait = refusedWait
	}
	return wait/2 + time.Duration(float64(wait/2)*l.o.Rand())
}

// logOf is an error for what only a person can mend, and a warning for what passes.
func (l *Link) logOf(err error) *zerolog.Event {
	var e *refusal
	if errors.As(err, &e) {
		return l.o.Log.Error()
	}
	return l.o.Log.Warn()
}

func remedy(err error) string {
	var e *refusal
	switch {
	case errors.As(err, &e) && e.reason == wire.CloseCopied:
		return "the bridge refuses this relay, because its journal is older than one that the bridge has seen from this relay or a copy of it. " +
			"If its state folder was copied, stop one of the two relays. To keep this one, run at the bridge: drawbridge relay accept " + e.relay
	case e != nil:
		return "the bridge refuses this relay; to enroll it again, run `drawbridge relay token <name>` at the bridge, and here the command that it prints"
	}
	return "not connected to the bridge; trying again; if the bridge has moved: drawbridge-relay bridge https://…"
}

// refusal is the bridge's word that this relay is not welcome.
type refusal struct{ reason, relay string }

// Error implements error.
func (r *refusal) Error() string { return "the bridge refuses this relay: " + r.reason }

func (l *Link) dial(ctx context.Context, i Identity) (*websocket.Conn, error) {
	address := i.Bridge + wire.ConnectPath
	if l.o.Dial != nil {
		return l.o.Dial(ctx, address)
	}
	client, err := newClient(i.CA)
	if err != nil {
		return nil, err
	}
	ws, response, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{wire.Subprotocol}})
	if err != nil && response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return nil, refused(response.StatusCode, body)
	}
	if err != nil {
		return nil, unreached(err)
	}
	return ws, nil
}

// once is one connection from its dial to its end.
func (l *Link) once(ctx context.Context) error {
	i, err := Load(l.o.Identity) // again each time: the key may have been rotated
	if err != nil {
		return err
	}
	if l.o.URL != "" {
		i.Bridge = l.o.URL
	}
	l.watch(func(c *wire.Connection) { c.Relay, c.Bridge = i.Relay, i.Bridge })
	s := &session{link: l, identity: i, out: make(chan wire.Frame, 32), over: make(chan struct{})}
	start, cancel := context.WithTimeout(ctx, l.handshake)
	defer cancel()
	if s.ws, err = l.dial(start, i); err != nil {
		return err
	}
	defer func() { _ = s.ws.CloseNow() }()
	if err := s.handshake(start); err != nil {
		return s.why(err)
	}
	l.connected.Store(true)
	defer l.connected.Store(false)
	l.watch(func(c *wire.Connection) { c.Since = l.o.Now() })
	own, bridge := i.KeyIDs(l.o.Now())
	l.o.Log.Info().Str("bridge", i.Bridge).Str("relay", i.Relay).Str("session", s.name).Str("key", own).
		Str("bridge_keys", strings.Join(bridge, " ")).Msg("connected to the bridge")
	return s.why(s.serve(ctx))
}

// why reads the closing words that mean more than "try again", from the bridge that has proved to be ours.
func (s *session) why(err error) error {
	var e websocket.CloseError
	if s.proved && errors.As(err, &e) && (e.Reason == wire.CloseRevoked || e.Reason == wire.CloseUnknown || e.Reason == wire.CloseCopied) {
		return &refusal{e.Reason, s.identity.Relay}
	}
	return err
}

// Beside returns what keeps a relay connected to the bridge that it joined, to run beside its other doors; nil when there is
// no identity at path. url replaces the address in the identity when it is set.
func Beside(path, url string) (func(context.Context, wire.Handler, zerolog.Logger) error, error) {
	if _, err := Load(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return func(ctx context.Context, h wire.Handler, log zerolog.Logger) error {
		l, err := New(Options{Identity: path, URL: url, Handler: h, Log: log})
		if err != nil {
			return err
		}
		return l.Run(ctx)
	}, nil
}
