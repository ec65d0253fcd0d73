package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/internal/tracing"
	"drawbridge/mail"
	"drawbridge/mcpserver/doors"
	"drawbridge/memory"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Engine is what the door needs of the engine. Its methods are safe for
// concurrent use.
type Engine interface {
	bridge.Steps
	// Ask takes the command of a tool call through the gate and returns it as
	// recorded, or as it stands now when it was asked for under the same key before.
	Ask(ctx context.Context, id bridge.AgentID, once bridge.Once, cmd parser.Command) (bridge.Command, error)
	// ContinueFor gives a failed turn another try for an agent, and returns the turn of that try. Conflict when there is nothing to
	// try. Twice under one key is once.
	ContinueFor(ctx context.Context, by bridge.AgentID, once bridge.Once, id bridge.TurnID) (bridge.Turn, error)
	// Watch returns a channel that gets a value after changes, and what ends it.
	Watch() (<-chan struct{}, func())
}

// Tokens knows whose a token is.
type Tokens interface {
	// Holder returns the token that a secret is. The error is Unauthenticated for a
	// secret that is unknown or revoked. Called once a request, concurrently.
	Holder(ctx context.Context, secret string) (bridge.DoorToken, error)
	// Valid reports whether the token of a hash is still good. Twice is fine.
	Valid(ctx context.Context, hash string) (bool, error)
}

// Options configures a Door. Engine, Policy and Tokens are required.
type Options struct {
	Engine Engine
	// Policy returns the policy in force; it may change between calls.
	Policy func() *policy.Policy
	Tokens Tokens
	// Mail is the post office; without it there are no team, threads and channels.
	Mail *mail.Service
	// Machines looks at workspaces of agents that relays host; nil when no relay hosts agents.
	Machines Machines
	// Memory keeps what agents remember; without it there is no toolset memory.
	Memory *memory.Service
	// Toolsets names the sets that an agent under a root is offered, in order; nil means DefaultToolsets for all.
	Toolsets func(root, agent bridge.Agent) []string
	// Callers are tools of those who wait for an agent at another door; nil is none.
	Callers CallerTools
	// PerMinute is how many tools one agent may call in any minute, at this replica;
	// default 6000, negative for no bound.
	PerMinute int
	// NoReminders leaves out the tools that set and cancel reminders.
	NoReminders bool
	// Idle ends a session of the older protocols that nobody used for so long; default 30 minutes.
	Idle time.Duration
	// Extend may change the options of each server before it is made; what it returns
	// adds to the tools that are on it. Nil in every release: a build of
	// cmd/drawbridge with the tag conformance sets it.
	Extend func(*mcp.ServerOptions) func(*mcp.Server)
	// OnCall is called after each tool call with the tool's name as it is offered and
	// "ok" or the error's kind, concurrently; it must not block. Nil means that nobody counts.
	OnCall func(tool, outcome string)
	// Tracing gets a span of each call; nil makes none.
	Tracing *tracing.Tracing
	Version string
	Log     zerolog.Logger
}

// Machines looks at what agents have on people's machines. Its methods are safe for concurrent use. Their errors are *bridge.Error.
type Machines interface {
	// Hosts reports whether a relay hosts an agent; the other methods are for such agents alone.
	Hosts(a bridge.Agent) bool
	// Uncommitted returns what of the agent's workspace is in no commit, "" when all is.
	Uncommitted(ctx context.Context, a bridge.Agent) (string, error)
	// File returns a file from the folder in which the agent works.
	File(ctx context.Context, a bridge.Agent, path string) ([]byte, error)
}

// hosted reports whether a relay hosts the caller.
func (d *Door) hosted(c *caller) bool { return d.o.Machines != nil && d.o.Machines.Hosts(c.agent) }

// DefaultToolsets is what an agent is offered whose orchestrator names none.
var DefaultToolsets = []string{SetBridge}

// maxBody bounds one message of a client, in bytes.
const maxBody = 2 << 20

// maxEvents bounds what is kept of all sessions for resumption, in bytes.
const maxEvents = 16 << 20

// Door serves MCP at /mcp, with all toolsets of the calling agent, and at
// /mcp/{toolset}, with one. Safe for concurrent use.
type Door struct {
	o    Options
	sets map[string][]tool
	// names are those of our tools, with the name of their set in front and without.
	names map[string]bool
	// id tells this door's sessions from those of other replicas.
	id string
	// The two eras of the protocol: from 2026-07-28 on each request stands alone;
	// before, there are sessions, whose streams can be resumed.
	stateless, stateful http.Handler
	// brief is stateless, and answers with plain JSON in the place of a stream.
	brief http.Handler
	// edge refuses browsers of other sites before anything else is looked at.
	edge   http.Handler
	live   live
	known  known
	record *recorder
	pace   *pace
	// beat is how often a call that is held says that it goes on.
	beat time.Duration

	mu     sync.Mutex // guards offers
	offers map[string]*offer
}

// New checks the options; it starts nothing. Run ends what outlives its token.
func New(o Options) (*Door, error) {
	if o.Engine == nil || o.Policy == nil || o.Tokens == nil {
		return nil, errors.New("MCP door needs an engine, a policy and tokens")
	}
	o.Idle = cmp.Or(o.Idle, 30*time.Minute)
	if o.OnCall == nil {
		o.OnCall = func(string, string) {}
	}
	if o.Toolsets == nil {
		o.Toolsets = func(_, _ bridge.Agent) []string { return DefaultToolsets }
	}
	d := &Door{o: o, id: rand.Text(), names: map[string]bool{}, offers: map[string]*offer{}, record: &recorder{steps: o.Engine},
		pace: newPace(cmp.Or(o.PerMinute, usualPace)), beat: usualBeat}
	if o.Callers != nil {
		o.Callers.OnChange(d.announce)
	}
	var err error
	if d.sets, err = d.toolsets(); err != nil {
		return nil, err
	}
	for set, tools := range d.sets {
		for _, t := range tools {
			d.names[t.name], d.names[set+"_"+t.name] = true, true
		}
	}
	events := mcp.NewMemoryEventStore(nil)
	events.SetMaxBytes(maxEvents)
	handler := func(h mcp.StreamableHTTPOptions) http.Handler {
		h.MaxRequestBodyBytes, h.PropagateRequestCancellation = maxBody, true
		// The guard in front checks Host and Origin, and knows the public name, too.
		h.DisableLocalhostProtection = true
		return mcp.NewStreamableHTTPHandler(d.serverOf, &h)
	}
	d.edge = http.NewCrossOriginProtection().Handler(http.HandlerFunc(d.authenticated))
	if keys, ok := o.Tokens.(*doors.Keyring); ok {
		keys.OnRevoked(func(hash string) {
			d.known.forget(hash)
			d.live.end(hash)
		})
	}
	d.stateless = handler(mcp.StreamableHTTPOptions{Stateless: true})
	d.brief = handler(mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	d.stateful = handler(mcp.StreamableHTTPOptions{EventStore: events, SessionTimeout: o.Idle})
	return d, nil
}

// prefix is where the door hangs.
const prefix = doors.Path

// AgentHeader may name the agent that a client means to be, by id or name. It
// opens nothing; with another agent's token it is refused.
const AgentHeader = "Drawbridge-Agent"

// newEra is the first version of the protocol in which a request stands alone.
const newEra = "2026-07-28"

// ServeHTTP implements http.Handler. Host and Origin are checked by whoever
// stands in front (package httpx); here come cross-origin browsers and the token.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.edge.ServeHTTP(w, r)
}

func (d *Door) authenticated(w http.ResponseWriter, r *http.Request) {
	if !d.isPath(r.URL.EscapedPath()) {
		refuse(w, r, bridge.Errorf(bridge.NotFound, "this path does not exist; use %s for all tools, or %s/NAME for one toolset: %s", prefix, prefix, strings.Join(SetNames(), ", ")))
		return
	}
	c, err := d.identify(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	c.traceparent = r.Header.Get("Traceparent")
	if r.URL.RawQuery != "" && !isUpload(r) {
		refuse(w, r, bridge.Errorf(bridge.Invalid, "this path takes no query; leave the query out. For one toolset, use %s/NAME", prefix))
		return
	}
	if isFiles(r.URL.EscapedPath()) {
		d.serveFile(w, r, c)
		return
	}
	if c.offer, err = d.pick(c, r.URL.EscapedPath()); err != nil {
		refuse(w, r, err)
		return
	}
	if named := r.Header.Get(AgentHeader); named != "" && c.is(AgentHeader, named) != nil {
		refuse(w, r, bridge.Errorf(bridge.Denied, "this token is not that of agent %+.80q; ask the operator for a token of that agent", named))
		return
	}
	rec := httpx.RecordOf(r.Context())
	rec.Add("agent", string(c.agent.ID))
	rec.Add("token", string(c.token.ID))
	ctx, done, err := d.live.enter(r, c.token.Hash)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer done()
	w = patientWriter{w}
	// The SDK takes an identity from its own middleware alone.
	bearer := auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		// A session belongs to the token that opened it, not merely to its agent.
		return &auth.TokenInfo{UserID: string(c.token.ID), Extra: map[string]any{callerKey: c}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	speaks(func(body []byte) http.Handler { return bearer(d.handler(r, body)) }).ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerContext{}, c)))
}

// isPath reports whether the door serves a path, to whichever agent. Others are
// not found before a token is looked at: clients look for OAuth below the path, too.
func (d *Door) isPath(path string) bool {
	rest := strings.TrimPrefix(path, prefix)
	_, isSet := d.sets[strings.Trim(rest, "/")]
	return rest == "" || rest == "/" || isSet || isFiles(path)
}

// methodCall is the method that calls a tool.
const methodCall = "tools/call"

// isBrief reports whether a request of the new era gets one answer and nothing
// before it, as all calls of our own tools do. The headers say what the body
// holds, and the SDK refuses a body that says otherwise.
func (d *Door) isBrief(r *http.Request) bool {
	return r.Header.Get("Mcp-Method") == methodCall && d.names[r.Header.Get("Mcp-Name")]
}

// refuse answers before the protocol begins.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	httpx.RecordOf(r.Context()).Err = err
	if httpx.WriteCanceled(w, r, err) {
		return
	}
	status := http.StatusInternalServerError
	switch bridge.KindOf(err) {
	case bridge.Unauthenticated:
		httpx.WriteUnauthorized(w, r, bridge.SafeMessage(err))
		return
	case bridge.RateLimited:
		status = http.StatusTooManyRequests
		if wait := bridge.RetryAfter(err); wait > 0 {
			httpx.SetRetryAfter(w.Header(), wait)
		}
	case bridge.Denied:
		status = http.StatusForbidden
	case bridge.NotFound:
		status = http.StatusNotFound
	case bridge.Invalid:
		status = http.StatusBadRequest
		if w.Header().Get("Allow") != "" {
			status = http.StatusMethodNotAllowed
		}
	case bridge.Conflict:
		status = http.StatusConflict
	case bridge.TooLarge:
		status = http.StatusRequestEntityTooLarge
	case bridge.Unavailable:
		status = http.StatusServiceUnavailable
	}
	httpx.WriteError(w, status, string(cmp.Or(bridge.KindOf(err), "internal")), bridge.SafeMessage(err))
}

// caller is who a request comes from.
type caller struct {
	agent bridge.Agent
	root  bridge.Agent
	token bridge.DoorToken
	// offer is what the request's path and the agent's toolsets hold.
	offer *offer
	// traceparent is the client's own trace, from the request's header, or "".
	traceparent string
	// once is what a call is made under, of one call alone.
	once bridge.Once
	// key is what the bridge itself gives for an idempotency key, for a call that has none; "" for callers from outside.
	key string
}

type callerContext struct{}

// callerKey is where the SDK carries a *caller.
const callerKey = "caller"

// identify reads the one bearer token of a request and loads its agent.
func (d *Door) identify(r *http.Request) (*caller, error) {
	if c, known, err := d.guest(r); known {
		return c, err
	}
	shown := r.Header.Values("Authorization")
	if !httpx.TokenShown(r) {
		return nil, bridge.Errorf(bridge.Unauthenticated, "a token is required: send the agent's token as Authorization: Bearer TOKEN; the operator makes one. If the client sends an empty token, set the variable that the client reads it from")
	}
	if len(shown) != 1 {
		return nil, bridge.Errorf(bridge.Unauthenticated, "a token is required: send the agent's token once, as Authorization: Bearer TOKEN; the operator makes one")
	}
	scheme, secret, _ := strings.Cut(shown[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = ""
	}
	secret = strings.TrimSpace(secret)
	hash, now := bridge.HashDoorToken(secret), time.Now()
	if c, ok := d.known.get(hash, now); ok {
		return &c, nil
	}
	token, err := d.o.Tokens.Holder(r.Context(), secret)
	if err != nil {
		return nil, err
	}
	c := &caller{token: token}
	err = d.o.Engine.View(r.Context(), func(tx *bridge.Scene) error {
		if c.agent, err = tx.Agent(token.Agent); err == nil {
			c.root, err = tx.Agent(c.agent.Root)
		}
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return nil, bridge.Errorf(bridge.Unauthenticated, "the agent of this token no longer exists; ask the operator for a token of another agent")
	}
	if err != nil {
		return nil, fmt.Errorf("load agent %q: %w", token.Agent, err)
	}
	d.known.put(*c, now)
	return c, nil
}

// pick returns what a path offers: all of the agent's toolsets, or one.
func (d *Door) pick(c *caller, path string) (*offer, error) {
	names := d.o.Toolsets(c.root, c.agent)
	if one := strings.Trim(strings.TrimPrefix(path, prefix), "/"); one != "" {
		found := false
		for _, name := range names {
			found = found || name == one
		}
		if !found {
			return nil, bridge.Errorf(bridge.NotFound, "this agent has no toolset %+.40q; it has %s", one, strings.Join(names, ", "))
		}
		names = []string{one}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := strings.Join(names, ",")
	if o, ok := d.offers[key]; ok {
		return o, nil
	}
	o, err := d.newOffer(names)
	if err != nil {
		return nil, err
	}
	d.offers[key] = o
	return o, nil
}

// serverOf is how the SDK's handlers learn what was picked.
func (d *Door) serverOf(r *http.Request) *mcp.Server {
	c := callerOf(r.Context())
	if c == nil {
		return nil
	}
	return c.offer.server
}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerContext{}).(*caller)
	return c
}
