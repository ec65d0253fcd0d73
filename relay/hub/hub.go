// Package hub is the bridge's side of the relays: it knows which are enrolled and connected and what each offers, and hands
// granted actions to the relay that has them.
//
// It decides nothing and repeats nothing: what may run is decided by the policy before and by the relay after it, and
// whether to ask again by the engine. It is not a queue. Rule of thumb: an error from here says exactly whether the
// action may have run.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/relay/wire"
)

const (
	// DefaultTimeout is how long a call may take: the longest action, an hour, and its wait in the relay's queue.
	DefaultTimeout = 65 * time.Minute
	dialTimeout    = 5 * time.Second
	// maxRetryAfter bounds what a relay may ask for, in seconds.
	maxRetryAfter = 24 * 60 * 60
)

// Relay says where a relay is and how to be let in. It never prints its token.
type Relay struct {
	// URL is http://host:port of a loopback address, as the relay's own file spells it, or https:// of any other.
	URL string
	// Token is the bearer token of the relay's file.
	Token string
}

// String leaves the token out.
func (r Relay) String() string { return r.URL }

// GoString leaves the token out.
func (r Relay) GoString() string { return r.URL }

// Options is what a [Hub] is made of.
type Options struct {
	// Relays holds the relays that are called at an address, under the names that the allowlist uses for them.
	Relays map[string]Relay
	// Timeout bounds one call as a whole; DefaultTimeout unless set.
	Timeout time.Duration
	// Store keeps the relays that dial in; nil means that none can.
	Store bridge.Store
	// Keys derives the keys that sign requests; required with a Store.
	Keys bridge.Keys
	// Shared is true when other replicas use the same Store. Then a relay may be connected to any of them.
	Shared bool
	// Woken is called when a relay has connected and what waits for it was made due; it must not block. Nil is nobody.
	Woken func()
	// Lanes returns the lanes besides those of actions in which work waits for a relay, so that they are due when it connects. Nil is none.
	Lanes func(tx *bridge.Scene, relay string) ([]string, error)
	// Answered is called when a relay says that a request for which it wanted the operator's word was answered at its machine, so
	// that it is to be asked again. Nil is nobody.
	Answered func(ctx context.Context, relay, request string) error
	// Permissions records the questions of agents that relays host; nil leaves them to the relay's machine.
	Permissions Permissions
	// MCP lets the agents that relays host call tools; nil lets none.
	MCP MCPDoor
	// Alarm is called when a copy of a relay was refused. Nil is nobody.
	Alarm func(ctx context.Context, text string) error
	// Now is time.Now unless set; NewID is bridge.NewID unless set.
	Now   func() time.Time
	NewID func(prefix string) string
	Log   zerolog.Logger
}

// Hub is a bridge.ActionRunner and the door that relays dial. It is safe for concurrent use. With a Store, Run must run.
type Hub struct {
	o      Options
	client *resty.Client
	static map[string]Relay
	// replica names this process in the Store.
	replica string
	ring    atomic.Pointer[keyring]
	wake    chan struct{}
	// arrivals are connections that were let in; stopped is closed when Run takes no more.
	arrivals chan *conn
	stopped  chan struct{}
	// handshake bounds a whole handshake. It is handshakeTimeout; tests with their own clock give more.
	handshake time.Duration

	live sync.WaitGroup // what serves connections and calls

	mu       sync.Mutex // guards what follows
	conns    map[string]*conn
	coming   map[string]chan struct{} // who is being let in, by relay; closed once it is in, or is not
	alarms   map[string]time.Time     // when a person was last told of a copy, by relay
	waiters  map[chan struct{}]struct{}
	stopping bool
	// strangers are those who are being asked who they are, in the order in which they came.
	strangers []stranger
}

var (
	_ bridge.ActionRunner = (*Hub)(nil)
	_ bridge.RelayAdmin   = (*Hub)(nil)
)

// New checks every relay's address and token, and reports all problems at once. It connects to nothing and reads nothing.
func New(o Options) (*Hub, error) {
	o.Timeout = cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = bridge.NewID
	}
	if o.Woken == nil {
		o.Woken = func() {}
	}
	if o.Store != nil && len(o.Keys.Current.Secret) < 32 {
		return nil, errors.New("hub needs a bridge key of at least 32 bytes")
	}
	h := &Hub{
		o: o, client: newClient(o.Timeout), static: make(map[string]Relay, len(o.Relays)), replica: o.NewID("rep_"),
		wake:     make(chan struct{}, 1),
		arrivals: make(chan *conn), stopped: make(chan struct{}), handshake: handshakeTimeout, conns: map[string]*conn{}, coming: map[string]chan struct{}{}, alarms: map[string]time.Time{}, waiters: map[chan struct{}]struct{}{},
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(o.Relays)) {
		relay := o.Relays[name]
		base, err := baseURL(relay)
		if err != nil {
			problems = append(problems, fmt.Errorf("relay %q: %w", name, err))
		}
		h.static[name] = Relay{URL: base, Token: relay.Token}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return h, nil
}

// RunAction sends the granted action to its relay and waits until it is over or refused. The error is always a
// *bridge.Error; Unclear means that the action may have run, and that asking again under the same Request is safe.
func (h *Hub) RunAction(ctx context.Context, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	if !r.Grant.Valid() || r.Grant.Verb() != parser.LocalAction {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Denied, "the policy did not allow this action")
	}
	if !wire.ValidRequestID(r.Request) {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Invalid, "request id %+.40q is not valid for a relay", r.Request)
	}
	t, err := h.find(ctx, r)
	switch {
	case err != nil:
		return bridge.ActionOutcome{}, known(err)
	case t.static:
		return h.call(ctx, t.name, r)
	}
	ctx, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	if t.replica != h.replica {
		return h.elsewhere(ctx, t, r)
	}
	return h.ask(ctx, t.name, askOf(r))
}

// known makes an error of the store's one that a caller can act on: nothing was sent.
func known(err error) error {
	var e *bridge.Error
	if errors.As(err, &e) {
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: "the bridge could not look up the relay", Cause: err}
}

// target is where a request goes.
type target struct {
	name    string
	static  bool
	replica string
}

// find says where a request goes: to the relay that the grant names, or else to the only one that offers the action.
func (h *Hub) find(ctx context.Context, r bridge.ActionRequest) (target, error) {
	name := r.Grant.Relay()
	if _, there := h.static[name]; there {
		return target{name: name, static: true}, nil
	}
	if h.o.Store == nil {
		return h.onlyStatic(name)
	}
	var t target
	err := h.o.Store.View(ctx, func(tx *bridge.Scene) (err error) {
		if name == "" {
			name, err = tx.BoundRelay(r.Request)
		}
		if err != nil || h.static[name] != (Relay{}) {
			t = target{name: name, static: true}
			return err
		}
		t, err = h.connected(tx, name)
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		if name, err = h.bind(ctx, r); err != nil {
			return target{}, err
		}
		if _, there := h.static[name]; there {
			return target{name: name, static: true}, nil
		}
		err = h.o.Store.View(ctx, func(tx *bridge.Scene) (err error) { t, err = h.connected(tx, name); return err })
	}
	return t, err
}

// onlyStatic is find for a hub without a store.
func (h *Hub) onlyStatic(name string) (target, error) {
	if name == "" && len(h.static) == 1 {
		for only := range h.static {
			return target{name: only, static: true}, nil
		}
	}
	if len(h.static) == 0 {
		return target{}, bridge.Errorf(bridge.NotFound, "no relay is configured")
	}
	known := strings.Join(slices.Sorted(maps.Keys(h.static)), ", ")
	return target{}, bridge.Errorf(bridge.NotFound, "relay %q is not configured; configured: %s", name, known)
}

// connected finds the replica that holds an enrolled relay's connection.
func (h *Hub) connected(tx *bridge.Scene, name string) (target, error) {
	relay, err := tx.Relay(name)
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return target{}, bridge.Errorf(bridge.NotFound, "relay %q is neither enrolled nor configured; enroll it with `drawbridge relay token %s`", name, name)
	case err != nil:
		return target{}, err
	case relay.State == bridge.RelayRevoked:
		return target{}, bridge.Errorf(bridge.Denied, "relay %q was revoked", name)
	}
	alive, err := h.alive(tx, relay.Replica)
	if err != nil {
		return target{}, err
	}
	if !alive {
		return target{}, bridge.Errorf(bridge.Unavailable, "relay %q is not connected; is drawbridge-relay running there?", name)
	}
	return target{name: name, replica: relay.Replica}, nil
}

// alive reports whether a replica, this one included, still holds what the store says it holds.
func (h *Hub) alive(tx *bridge.Scene, replica string) (bool, error) {
	if replica == "" || replica == h.replica || !h.o.Shared {
		return replica == h.replica, nil
	}
	seen, err := tx.ReplicaSeen(replica)
	if errors.Is(err, bridge.ErrNoRow) {
		return false, nil
	}
	return err == nil && h.o.Now().Sub(seen) < deadAfter, err
}

// bind ties a request that names no relay to the only one that offers its action, for good: asked again it must meet the
// same journal, whoever offers the action by then.
func (h *Hub) bind(ctx context.Context, r bridge.ActionRequest) (name string, err error) {
	err = h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		offers, err := tx.OfferedBy(r.Grant.Action())
		if err != nil {
			return err
		}
		names := make([]string, len(offers))
		for i, o := range offers {
			names[i] = o.Relay
		}
		if len(names) == 0 {
			names = slices.Sorted(maps.Keys(h.static)) // nobody knows what they offer until they are asked
		}
		switch {
		case len(names) == 0:
			return bridge.Errorf(bridge.NotFound, "no relay offers action %q; enroll one with `drawbridge relay token <name>`", r.Grant.Action())
		case len(names) > 1:
			return bridge.Errorf(bridge.NotFound, "action %q is offered by several relays (%s); name one in the allowlist: relay: %s",
				r.Grant.Action(), strings.Join(names[:min(len(names), 10)], ", "), names[0])
		}
		name, err = tx.BindRequest(r.Request, names[0], h.o.Now())
		return err
	})
	return name, err
}
