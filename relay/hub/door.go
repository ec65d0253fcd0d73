package hub

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
	"drawbridge/relay/wire"
)

const (
	// handshakeTimeout bounds the whole handshake.
	handshakeTimeout = 10 * time.Second
	// maxHandshakes is how many strangers are asked who they are at a time; the others are told to come back. One that
	// has not proved who it is within strangerPatience then loses its place to a newer one.
	maxHandshakes    = 512
	strangerPatience = time.Second
	// writeTimeout bounds one frame to a relay that reads slowly.
	writeTimeout = 10 * time.Second
	maxBody      = 8 << 10
)

// ServeHTTP serves the relays' own paths: connect, join and rekey. Who calls proves it with keys, so no bearer token is
// asked for; a web page has no business here, whatever its origin.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name := range r.Header {
		if name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			httpx.WriteError(w, http.StatusForbidden, string(bridge.Denied), "requests of web pages are not served")
			return
		}
	}
	paths := map[string]struct {
		method string
		serve  func(http.ResponseWriter, *http.Request)
	}{
		wire.ConnectPath: {http.MethodGet, h.serveConnect},
		wire.JoinPath:    {http.MethodPost, servePost(h, h.join)},
		wire.RekeyPath:   {http.MethodPost, servePost(h, h.rekey)},
	}
	p, there := paths[r.URL.EscapedPath()]
	switch {
	case !there || h.o.Store == nil:
		httpx.WriteError(w, http.StatusNotFound, string(bridge.NotFound), "no such path")
	case r.Method != p.method:
		w.Header().Set("Allow", p.method)
		httpx.WriteError(w, http.StatusMethodNotAllowed, string(bridge.Invalid), "this path takes "+p.method)
	case r.URL.RawQuery != "": // signatures do not cover it
		httpx.WriteError(w, http.StatusBadRequest, string(bridge.Invalid), "this path takes no query")
	default:
		p.serve(w, r)
	}
}

// servePost reads a body exactly, calls fn and writes what it returns.
func servePost[In, Out any](h *Hub, fn func(context.Context, In) (Out, error)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "application/json" {
			httpx.WriteError(w, http.StatusUnsupportedMediaType, string(bridge.Invalid), "Content-Type must be application/json")
			return
		}
		body, err := httpx.ReadBody(w, r, maxBody)
		var in In
		if err == nil {
			err = strictjson.DecodeExact(body, &in)
		}
		switch {
		case errors.Is(err, httpx.ErrTooLarge):
			httpx.WriteError(w, http.StatusRequestEntityTooLarge, string(bridge.TooLarge), fmt.Sprintf("the body has more than %d bytes", maxBody))
			return
		case err != nil:
			httpx.WriteError(w, http.StatusBadRequest, string(bridge.Invalid), "the body is not a valid request of a relay")
			return
		}
		out, err := fn(r.Context(), in)
		var e *bridge.Error
		switch {
		case err == nil:
			httpx.WriteJSON(w, http.StatusOK, out)
		case errors.As(err, &e) && e.Kind == bridge.Conflict:
			httpx.WriteError(w, http.StatusConflict, string(e.Kind), e.Message)
		case errors.As(err, &e) && e.Kind == bridge.Denied:
			httpx.WriteError(w, http.StatusForbidden, string(e.Kind), e.Message)
		case httpx.WriteCanceled(w, r, err):
		default:
			h.o.Log.Error().Err(err).Str("path", r.URL.Path).Msg("a relay could not be answered")
			httpx.RecordOf(r.Context()).Err = err
			httpx.WriteError(w, http.StatusInternalServerError, "internal", "internal error")
		}
	}
}

// serveConnect lets a relay in and hands its connection to Run. It does not stay: what net/http needs for a request is more than
// what an idle connection needs, ten thousand times.
func (h *Hub) serveConnect(w http.ResponseWriter, r *http.Request) {
	c := &conn{hub: h, calls: map[string]*call{}, began: h.o.Now()}
	ctx, giveUp := context.WithTimeout(context.WithoutCancel(r.Context()), h.handshake)
	defer giveUp()
	if !h.begin(c, giveUp) {
		httpx.SetRetryAfter(w.Header(), time.Second)
		httpx.WriteError(w, http.StatusServiceUnavailable, string(bridge.Unavailable), "the bridge is stopping, or busy with other relays; try again")
		return
	}
	defer h.met(c)
	c.heard.Store(h.o.Now().UnixNano())
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{wire.Subprotocol},
		OnPingReceived: func(context.Context, []byte) bool {
			c.heard.Store(h.o.Now().UnixNano())
			return true
		},
	})
	if err != nil { // Accept has answered
		h.live.Done()
		return
	}
	c.ws = ws
	// The connection outlives the server's stop for as long as the hub lets it.
	if err = c.handshake(ctx); err == nil {
		err = h.arrive(c)
	}
	if err != nil {
		c.end(err)
		h.live.Done()
	}
}

// arrive gives a connection that is let in to Run, which serves it.
func (h *Hub) arrive(c *conn) error {
	select {
	case h.arrivals <- c:
		return nil
	case <-h.stopped:
		return closeStopping
	}
}

// attend serves a connection to its end. ctx is Run's own, which must not end it: stop does, in order.
func (h *Hub) attend(ctx context.Context, c *conn) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.setCancel(cancel)
	go func() {
		defer h.live.Done()
		defer cancel()
		c.end(c.serve(ctx))
	}()
}

// stranger is a connection that has not proved who it is, and what ends its handshake.
type stranger struct {
	conn   *conn
	giveUp func()
}

// begin takes a place for a handshake and counts the connection as alive. Strangers who
// say nothing must not keep relays out for as long as they like: where all places are taken,
// the one who has waited longest loses its own, unless it has only just come.
func (h *Hub) begin(c *conn, giveUp func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return false
	}
	if len(h.strangers) >= maxHandshakes {
		oldest := h.strangers[0]
		if c.began.Sub(oldest.conn.began) < strangerPatience {
			return false
		}
		oldest.giveUp()
		h.strangers = h.strangers[1:]
	}
	h.strangers = append(h.strangers, stranger{c, giveUp})
	h.live.Add(1)
	return true
}

// met takes a connection off the list of strangers. Twice is fine.
func (h *Hub) met(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.strangers = slices.DeleteFunc(h.strangers, func(s stranger) bool { return s.conn == c })
}

// closing is why we end a connection, as the relay reads it in [websocket.CloseError.Reason].
type closing string

// The closing words.
const (
	closeUnknown  closing = wire.CloseUnknown
	closeRevoked  closing = wire.CloseRevoked
	closeReplaced closing = "another connection of this relay took over"
	closeSilent   closing = "no ping came"
	closeStopping closing = "the bridge is stopping"
	closeFlood    closing = "too many frames"
)

// Error implements error.
func (c closing) Error() string { return string(c) }

// fault is a failure of the bridge, such as of its database, and not of the relay.
type fault struct{ error }

// Unwrap returns the cause.
func (f fault) Unwrap() error { return f.error }

// handshake finds out who is there and proves who we are. The relay is proved last, but our own word comes first: a relay
// must not say anything to a bridge that is not its own.
func (c *conn) handshake(ctx context.Context) error {
	if c.ws.Subprotocol() == "" {
		return closing("the subprotocol must be " + wire.Subprotocol)
	}
	c.ws.SetReadLimit(wire.MaxHandshake)
	f, err := c.read(ctx)
	if err != nil || f.Hello == nil {
		return firstError(err, errOrder)
	}
	hello := *f.Hello
	ring, err := c.hub.keys(ctx)
	if err != nil {
		return fault{err}
	}
	s := ring.trusted(hello.Pins)
	if s == nil {
		return closing("this bridge has none of the keys that the relay trusts; join again")
	}
	challenge := wire.Challenge{Key: s.id}
	if challenge.Nonce, err = wire.NewNonce(); err != nil {
		return err
	}
	challenge = challenge.Prove(s.private, hello)
	if err := c.write(ctx, wire.Frame{Challenge: &challenge}); err != nil {
		return err
	}
	if f, err = c.read(ctx); err != nil || f.Proof == nil {
		return firstError(err, errOrder)
	}
	if err := c.recognize(ctx, hello, func(key ed25519.PublicKey) bool { return f.Proof.Proved(key, hello, challenge) }); err != nil {
		return err
	}
	c.hub.met(c)
	if f.Proof.Process == "" {
		c.session = c.hub.o.NewID("ses_")
		if err := c.write(ctx, wire.Frame{Welcome: &wire.Welcome{Session: c.session}}); err != nil {
			return err
		}
		return closeTried
	}
	c.process, c.shown = f.Proof.Process, f.Proof.Epoch
	c.connection = wire.ConnectionID(hello, challenge)
	c.signer.Store(s)
	w, err := c.giveEpoch(ctx, hello, challenge)
	if err != nil {
		return err
	}
	return c.welcome(ctx, w)
}

// closeTried ends a connection that only tried out whether the bridge is here.
const closeTried closing = "the address was tried out"

var errOrder = closing("a frame came out of order")

// recognize finds the relay's row and checks its proof. A stranger learns nothing of which names exist: until the proof
// holds, all of them get the same answer.
func (c *conn) recognize(ctx context.Context, hello wire.Hello, proved func(ed25519.PublicKey) bool) error {
	var relay bridge.Relay
	err := c.hub.o.Store.View(ctx, func(tx *bridge.Scene) (err error) { relay, err = tx.Relay(hello.Relay); return err })
	if errors.Is(err, bridge.ErrNoRow) {
		return closeUnknown
	}
	if err != nil {
		return fault{fmt.Errorf("look up relay %q: %w", hello.Relay, err)}
	}
	for _, text := range []string{relay.Key, relay.NextKey} {
		if key, err := wire.ReadKey(text); err == nil && proved(key) {
			if relay.State == bridge.RelayRevoked {
				return closeRevoked
			}
			c.relay, c.key = relay.Name, text
			return nil
		}
	}
	return closeUnknown
}

// welcome tells the relay that it is in, hears what it offers, and puts it on the list.
func (c *conn) welcome(ctx context.Context, w wire.Welcome) error {
	c.session = c.hub.o.NewID("ses_")
	w.Session, w.Keys = c.session, c.newerKey(c.hub.ring.Load())
	if err := c.write(ctx, wire.Frame{Welcome: &w}); err != nil {
		return err
	}
	c.ws.SetReadLimit(wire.MaxToBridge)
	for kept := false; ; {
		f, err := c.read(ctx)
		switch {
		case err != nil:
			return err
		case f.Kept != nil && f.Kept.Epoch == c.epoch:
			kept = true
		case !kept:
			return errOrder
		case f.Pinned != nil:
			c.pinned(*f.Pinned)
		case f.Offers != nil:
			return c.hub.admit(ctx, c, *f.Offers)
		default:
			return errOrder
		}
	}
}

// newerKey returns the announcement of our newest key when the relay trusts an older one only.
func (c *conn) newerKey(ring *keyring) *wire.Keys {
	s, newest := c.signer.Load(), ring.newest()
	if s.generation >= newest.generation {
		return nil
	}
	k, err := wire.NewKeys(s.private, c.relay, newest.public())
	if err != nil {
		return nil // a key of ours is always one
	}
	return &k
}

// admit records that the relay is here, with what it offers, and lets requests through to it.
func (h *Hub) admit(ctx context.Context, c *conn, offers wire.Offers) error {
	defer h.comes(c.relay)()
	now := h.o.Now()
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(c.relay)
		switch {
		case errors.Is(err, bridge.ErrNoRow):
			return closeUnknown
		case err != nil:
			return err
		case relay.State == bridge.RelayRevoked:
			return closeRevoked
		case c.key == relay.NextKey:
			relay.Key, relay.NextKey = relay.NextKey, "" // it is in use: the old one ends here
		case c.key != relay.Key:
			return closeUnknown
		}
		if err := c.takeEpoch(&relay); err != nil {
			return err
		}
		relay.Replica, relay.Session, relay.ConnectedAt, relay.SeenAt, relay.Pin = h.replica, c.session, now, now, c.signer.Load().id
		if err := tx.PutRelay(relay); err != nil {
			return err
		}
		if err := tx.PutMachineQuestions(c.relay, nil); err != nil { // it says at once which ones are open
			return err
		}
		return tx.PutOffers(c.relay, offersOf(c.relay, offers))
	})
	if word := closing(""); err != nil && !errors.As(err, &word) {
		return fault{fmt.Errorf("record relay %q: %w", c.relay, err)}
	}
	if err != nil {
		return err
	}
	c.since = now
	h.mu.Lock()
	old := h.conns[c.relay]
	h.conns[c.relay] = c
	stopping := h.stopping
	h.mu.Unlock()
	if old != nil {
		old.shut(closeReplaced)
	}
	if stopping {
		return closeStopping
	}
	h.o.Log.Info().Str("relay", c.relay).Str("session", c.session).Int("offers", len(offers.Offers)).Msg("relay connected")
	h.rouse(ctx, c.relay, offers)
	return nil
}

// rouse makes due what waits for a relay, whichever replica takes it up. It comes after the relay is on our list, so that
// what is tried finds it there. Lost, it costs no more than the wait that was meant anyway.
func (h *Hub) rouse(ctx context.Context, relay string, offers wire.Offers) {
	lanes := []string{bridge.LookupLane(relay)}
	for _, o := range offers.Offers {
		lanes = append(lanes, bridge.ActionLane(relay, o.Action), bridge.ActionLane("", o.Action))
	}
	err := h.o.Store.Update(bridge.Forgettable(ctx), func(tx *bridge.Scene) error {
		if h.o.Lanes == nil {
			return tx.WakeLanes(lanes, h.o.Now())
		}
		more, err := h.o.Lanes(tx, relay)
		return errors.Join(err, tx.WakeLanes(append(more, lanes...), h.o.Now()))
	})
	if err != nil {
		h.o.Log.Error().Err(err).Str("relay", relay).Msg("wake what waits for a relay")
		return
	}
	h.o.Woken()
}

func offersOf(relay string, list wire.Offers) []bridge.RelayOffer {
	out := make([]bridge.RelayOffer, len(list.Offers))
	for i, o := range list.Offers {
		out[i] = bridge.RelayOffer{Relay: relay, Action: o.Action, Approval: o.Approval, Bridge: o.Bridge, ApproveBy: o.ApproveBy, Definition: o.Definition, Shows: o.Shows}
	}
	return out
}
