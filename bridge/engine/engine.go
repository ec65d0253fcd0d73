// Package engine moves the nouns of package bridge: it takes a turn's output
// through the gate to recorded work, hands the work to the ports, and brings
// what came of it back as the agent's next turn. It knows no database, no HTTP
// and no vendor. Rule of thumb: whatever must not be lost or done twice is
// decided here, inside one store transaction.
package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Options configures an Engine. Store, Policy, Runtime, Actions and Keys are required.
type Options struct {
	Store   bridge.Store
	Runtime bridge.Runtime
	Actions bridge.ActionRunner
	Keys    bridge.Keys
	// Policy returns the policy in force; it may change between calls.
	Policy func() *policy.Policy
	// API is the version for launches whose rule does not say; default v1.
	API string
	// PublicURL is where the outside reaches the webhook receiver, without a trailing slash; empty means no webhooks.
	PublicURL string
	Parser    parser.Options
	// PollMin and PollMax bound the wait between looks at a run; default 10 s and 60 s.
	PollMin, PollMax time.Duration
	// Settle says of an agent's Runtime how long an effect may still appear after its
	// answer was lost: at least twice the runtime's own timeout. Nil means 5 minutes.
	Settle func(runtime string) time.Duration
	// V0Settle is after how long a v0 launch whose answer was lost, and which no
	// look-up shows, counts as not launched. 0 leaves it uncertain until a person
	// settles it: an agent that shows later would run without the bridge.
	V0Settle time.Duration
	// RetryWait is the first wait before a turn whose run broke is tried again;
	// each further one is four times as long. Default 30 s.
	RetryWait time.Duration
	// ActionPatience is how long a relay is asked what came of a request whose answer was lost, until the command is
	// uncertain; default 1 minute. How long an action waits that was not sent yet stands in its rule.
	ActionPatience time.Duration
	// Streams bounds the run streams that are followed at a time; default 256,
	// negative for none. Runs beyond that are looked at by polling alone.
	Streams int
	// Grace is how long calls in flight may go on when Run is told to stop; default 10 s.
	Grace time.Duration
	// Slots bounds the work that is handled side by side; default 64.
	Slots int
	// Away says of an agent's Runtime why nothing can be sent there now, and what a person can do; nil while something can. Such
	// turns wait, and new launches there are refused. Nil means that all are there.
	Away func(runtime string) error
	// Homes says whose workspace a subagent works in; nil means that each has one of its own.
	Homes Homes
	// Hosts says of a Runtime which relay hosts its agents, and under which entry of that relay's file. The last result is false for any other
	// Runtime. Nil means that no relay hosts any.
	Hosts func(runtime string) (relay, entry string, is bool)
	// Mail handles work of the kind bridge.WorkMail; nil where there is no post
	// office. It gives the work back or finishes it, as the engine's own handlers do.
	Mail func(context.Context, bridge.Work) error
	// Chat handles work of the kind bridge.WorkChat; nil where no chat models are. It gives the work back or finishes it.
	Chat func(context.Context, bridge.Work) error
	// Doors says of a Runtime whether its agents get a door to the bridge with their
	// turns; nil means that all do. The v0 API takes no door.
	Doors func(runtime string) bool
	// Preamble is what of an agent's own memory stands at the head of its turns; nil is
	// nothing. What it returns is not trusted.
	Preamble func(*bridge.Scene, bridge.AgentID) (string, error)
	// Now and NewID are injected; defaults are the clock and random ids.
	Now   func() time.Time
	NewID func(prefix string) string
	// Rand spreads waits: numbers from 0 up to 1; default math/rand/v2. Safe for concurrent use.
	Rand func() float64
	// OnEvent is called after the commit that recorded the event. It must not block.
	OnEvent func(bridge.Event)
	Log     zerolog.Logger
}

// Engine takes agents' output through the gate and carries out what was
// granted. Its methods are safe for concurrent use; Run is called once.
type Engine struct {
	o     Options
	lanes *lanes.Dispatcher

	mu       sync.Mutex // guards watchers
	watchers map[chan struct{}]struct{}

	streams followers
	// inspector tells what agents used; nil when nobody can be asked.
	inspector bridge.Inspector
	seen      seen
}

// New returns an engine that does nothing until Run. It fails when a required option is missing.
func New(o Options) (*Engine, error) {
	if o.Store == nil || o.Runtime == nil || o.Actions == nil || o.Policy == nil {
		return nil, errors.New("engine needs a store, a runtime, an action runner and a policy")
	}
	if len(o.Keys.Current.Secret) < 32 {
		return nil, errors.New("engine needs a bridge key of at least 32 bytes")
	}
	setDefaults(&o)
	return newEngine(o), nil
}

// NewRecorder returns an engine that can only record deliveries: the receiver
// in front, which holds nothing that could act. Its Run must not be called.
func NewRecorder(o Options) (*Engine, error) {
	if o.Store == nil {
		return nil, errors.New("recorder needs a store")
	}
	setDefaults(&o)
	return newEngine(o), nil
}

// Homes says whose workspace a subagent works in. Both methods are pure and safe for concurrent use.
type Homes interface {
	// Shares reports whether the subagent of a command works in its parent's workspace; an error of kind Invalid says why it cannot.
	Shares(parent bridge.Agent, m bridge.Command) (bool, error)
	// Home returns where an agent works on a person's machine; the zero Home for an agent of the cloud.
	Home(tx *bridge.Scene, a bridge.Agent) (bridge.Home, error)
}

// shares is the Homes' word.
func (e *Engine) shares(parent bridge.Agent, m bridge.Command) (bool, error) {
	if e.o.Homes == nil {
		return false, nil
	}
	return e.o.Homes.Shares(parent, m)
}

// away says why nothing can be sent to agents of a Runtime now; nil while something can.
func (e *Engine) away(runtime string) error {
	if e.o.Away == nil {
		return nil
	}
	return e.o.Away(runtime)
}

// reaches says why no agent can be launched on a repository in a Runtime now; nil when one can.
func (e *Engine) reaches(repo, runtime string) error {
	if policy.Repo(repo).Local() && bridge.InCloud(runtime) {
		return bridge.Errorf(bridge.Denied, "%s is a clone on a machine, which agents of the cloud cannot reach; launch the agent in the runtime of that machine", repo)
	}
	return e.away(runtime)
}

func newEngine(o Options) *Engine {
	e := &Engine{o: o, watchers: map[chan struct{}]struct{}{}}
	e.inspector, _ = o.Runtime.(bridge.Inspector)
	e.lanes = lanes.New(lanes.Options{Store: o.Store, Handle: e.dispatch, Stuck: e.stuck, Slots: o.Slots, Grace: o.Grace, Now: o.Now, Rand: o.Rand, Log: o.Log})
	return e
}

func setDefaults(o *Options) {
	o.API = or(o.API, bridge.APIv1)
	o.PollMin = or(o.PollMin, 10*time.Second)
	o.PollMax = max(or(o.PollMax, 60*time.Second), o.PollMin)
	if o.Settle == nil {
		o.Settle = func(string) time.Duration { return 5 * time.Minute }
	}
	o.RetryWait = or(o.RetryWait, 30*time.Second)
	o.ActionPatience = or(o.ActionPatience, time.Minute)
	o.Slots = or(o.Slots, 64)
	o.Grace = or(o.Grace, 10*time.Second)
	o.Streams = or(o.Streams, 256)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = bridge.NewID
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Preamble == nil {
		o.Preamble = func(*bridge.Scene, bridge.AgentID) (string, error) { return "", nil }
	}
	if o.OnEvent == nil {
		o.OnEvent = func(bridge.Event) {}
	}
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Change implements bridge.Steps.
func (e *Engine) Change(ctx context.Context, fn func(bridge.Change) error, hints ...bridge.Need) error {
	return e.update(ctx, func(c *change) error { return fn(bridge.Change{Scene: c.Scene, Teller: c}) }, hints...)
}

// Wake makes the engine look for work, and everyone who watches look again. It
// is called when somebody else changed the database.
func (e *Engine) Wake() {
	e.lanes.Wake()
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Watch returns a channel that gets a value after changes, and a function that
// ends the watch. Several changes may be told as one.
func (e *Engine) Watch() (<-chan struct{}, func()) {
	w := make(chan struct{}, 1)
	e.mu.Lock()
	e.watchers[w] = struct{}{}
	e.mu.Unlock()
	return w, func() {
		e.mu.Lock()
		delete(e.watchers, w)
		e.mu.Unlock()
	}
}

// notFound turns a store's "no such row" into words for the caller.
func notFound(err error, noun, id string) error {
	if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	list := noun + "s"
	if noun == "turn" {
		list += " AGENT"
	}
	return bridge.Errorf(bridge.NotFound, "no %s %+.60q; list them with `drawbridge %s`", noun, id, list)
}

// View runs a look-up on a snapshot of the store.
func (e *Engine) View(ctx context.Context, fn func(*bridge.Scene) error) error {
	return e.o.Store.View(ctx, fn)
}

// FindAgent finds an agent by id or name.
func (e *Engine) FindAgent(ctx context.Context, idOrName string) (a bridge.Agent, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) error {
		if strings.HasPrefix(idOrName, "agt_") {
			a, err = tx.Agent(bridge.AgentID(idOrName))
			return err
		}
		a, err = tx.FindAgent(bridge.ByName, idOrName)
		return err
	})
	return a, notFound(err, "agent", idOrName)
}
