package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/rs/zerolog"

	"drawbridge/api/office"
	"drawbridge/api/recall"
	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/internal/rates"
	"drawbridge/mail"
	"drawbridge/openai"
	"drawbridge/policy"
)

// Options configures a Handler. Engine, Policy and Token are required.
type Options struct {
	Engine *engine.Engine
	// Policy returns the policy in force; it may change between calls.
	Policy func() *policy.Policy
	// Allowlist is the file behind Policy; nil where it comes from none.
	Allowlist AllowlistFile
	// Problem returns why the allowlist file is not in force as it stands, or
	// "". Nil means that nobody knows of one.
	Problem func() string
	// ConfigDigest names the text of the configuration, for Status; "" when there is not one.
	ConfigDigest string
	// Roles names the orchestrators that the configuration has on a canonical
	// repository, separated by blanks; nil means none anywhere.
	Roles func(repo string) string
	// Runtime names the one, besides the Cloud Agents API, for an agent of that name
	// and role; "" for the cloud. Nil means the cloud for all.
	Runtime func(name, role string) string
	// Join returns how results come back to an agent of that name and role when
	// its launch does not say; nil means one by one.
	Join func(name, role string) (bridge.Join, time.Duration)
	// Blocks returns the first memory blocks of an agent of that name and role, by label; nil means none for all.
	Blocks func(name, role string) map[string]string
	// Token opens every route but /health, /healthz and the webhooks, as the admin bridge.OwnerName.
	Token string
	// Operators are further people. Each has a name, a role and a token that no other one has.
	Operators []Operator
	Chat      ChatOptions
	// Mail serves channels and agents' mail; nil means that there is no post office here.
	Mail *mail.Service
	// Memory changes what agents remember, for the operator; nil means that nothing is remembered here.
	Memory recall.Keeper
	// Callers keeps the tokens of the OpenAI-compatible door; nil means that this bridge has none.
	Callers *openai.Keyring
	// Webhooks serves /hooks/; nil means that there is no receiver here.
	Webhooks http.Handler
	// Door serves /mcp, to agents with tokens of their own; nil means that there is none here.
	Door http.Handler
	// Tokens keeps those tokens; nil without a door.
	Tokens Tokens
	// Page makes the page of the operators, the owner among them. It asks and decides through the client, as the person of bridge.PersonOf.
	// Nil means that there is none here.
	Page func(*Client, []Operator) (Page, error)
	// Alerts tells a program of the operator what waits; nil when the configuration names none.
	Alerts Alerts
	// Streams admits an event stream under a door token, by the token's hash, and returns its
	// context and its end; RateLimited when too many are open. Nil admits all.
	Streams func(r *http.Request, token string) (context.Context, func(), error)
	// Relays administers the relays that dial in, and RelayDoor serves /relay/, where they do; nil means that none can.
	Relays    bridge.RelayAdmin
	RelayDoor http.Handler
	// Workspaces lists the workspaces of agents on people's machines; nil when no relay hosts agents.
	Workspaces func(ctx context.Context) (WorkspaceList, error)
	// Live returns what an agent at a relay did after a step, without Next; Invalid for an agent that lives elsewhere. Nil when no relay hosts agents.
	Live func(ctx context.Context, a bridge.Agent, after int64) (Live, error)
	// RelayOf names the relay that hosts the agents of a runtime, "" for any other runtime. Nil when no relay hosts agents.
	RelayOf func(runtime string) string
	// Metrics is shared with the engine's OnEvent; nil makes one of its own.
	Metrics *Metrics
	// OpenMetrics lets /metrics be scraped without the token.
	OpenMetrics bool
	// MetricsToken reads /metrics and nothing else; "" means that Token alone does.
	MetricsToken string
	// PublicURL is where the world reaches agents' door, webhooks and relays; "" when it does not.
	PublicURL string
	// OperatorURL is where a proxy shows the operator's address; "" without one. It counts for Operator alone.
	OperatorURL string
	// DoorURL is where agents, relays and webhooks reach this bridge from its own machine, if that is not where the
	// operator's API is; "" when one address serves all. Relay tokens and Status show it.
	DoorURL string
	Version string
	// Database says how the database is; nil means that nobody knows.
	Database func(ctx context.Context, now time.Time) (bridge.DatabaseHealth, error)
	// Healthy says why no work can be recorded at all, nil while it can; nil means always.
	Healthy func() error
	// Now defaults to the clock; the rate limit reads it.
	Now func() time.Time
	Log zerolog.Logger
}

// Handler serves the API. Safe for concurrent use.
type Handler struct {
	o      Options
	people []operator
	// began is when the handler was made.
	began time.Time
	// database is what the database said of itself last.
	database struct {
		mu   sync.Mutex // guards what follows
		at   time.Time
		seen *StatusHealth
	}
	// scrape is MetricsToken's; nil without one.
	scrape *httpx.Token
	rates  *rates.Limiter
	router *mux.Router
	// page is the operator's; nil without one.
	page Page
	// edge serves every path, operator and public their own.
	edge, operator, public http.Handler
}

// New checks the options and builds the routes; it starts nothing.
func New(o Options) (*Handler, error) {
	if o.Engine == nil || o.Policy == nil {
		return nil, errors.New("API needs an engine and a policy")
	}
	o.Chat = o.Chat.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Roles == nil {
		o.Roles = func(string) string { return "" }
	}
	if o.Runtime == nil {
		o.Runtime = func(string, string) string { return "" }
	}
	if o.Join == nil {
		o.Join = func(string, string) (bridge.Join, time.Duration) { return "", 0 }
	}
	if o.Blocks == nil {
		o.Blocks = func(string, string) map[string]string { return nil }
	}
	if o.Healthy == nil {
		o.Healthy = func() error { return nil }
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(o.Version)
	}
	h := &Handler{o: o, began: o.Now(), rates: rates.New(o.Chat.PerMinute, o.Now)}
	if err := h.setOperators(); err != nil {
		return nil, err
	}
	if o.MetricsToken != "" {
		scrape, err := httpx.NewToken(o.MetricsToken)
		if err != nil {
			return nil, fmt.Errorf("metrics token: %w", err)
		}
		h.scrape = &scrape
	}
	h.router = h.routes()
	if o.Page != nil {
		var err error
		if h.page, err = o.Page(h.within(), h.operators()); err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
	}
	if err := h.openAddresses(); err != nil {
		return nil, err
	}
	return h, nil
}

// Walk visits every route, for a page or a test that lists them.
func (h *Handler) Walk(visit mux.WalkFunc) error { return h.router.Walk(visit) }

// named records the route of a handler that is reached without the router.
func named(route string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpx.RecordOf(r.Context()).Route = route
		next.ServeHTTP(w, r)
	})
}

// mayScrape reports whether a request may read the metrics without the operator's token.
func (h *Handler) mayScrape(r *http.Request) bool {
	return h.o.OpenMetrics || (h.scrape != nil && h.scrape.Allows(r) && (r.Method == http.MethodGet || r.Method == http.MethodHead))
}

// isRoute reports whether a path is one of the routes, under any method.
func (h *Handler) isRoute(r *http.Request) bool {
	var match mux.RouteMatch
	return isPlain(r) && h.router.Match(r, &match) && !errors.Is(match.MatchErr, mux.ErrNotFound)
}

// isPlain reports whether a path has one reading. A user id may hold a slash, so
// that /agent/ alone gets encoded ones through.
func isPlain(r *http.Request) bool {
	return httpx.PlainPath(r.URL) || strings.HasPrefix(r.URL.EscapedPath(), "/agent/")
}

func (h *Handler) plainPath(w http.ResponseWriter, r *http.Request) {
	if !isPlain(r) {
		notFound(w, r)
		return
	}
	h.router.ServeHTTP(w, r)
}

// endpoint is a handler that returns its error instead of writing it.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// route is one line of the table of routes.
type route struct {
	method, path string
	serve        endpoint
}

// queried are the routes that read a query, and probed those that monitors call, with a
// query of their own at times. Every other route refuses one: ignoring it could do
// something else than the caller meant.
var (
	queried = []string{
		"POST /chat", "GET /agent/{user}", "GET /v1/agents", "GET /v1/agents/{id}/turns", "GET /v1/agents/{id}/live", "GET /v1/agents/{id}/mail", "GET /v1/agents/{id}/blocks", "POST /v1/agents/{id}/blocks/delete", "GET /v1/agents/{id}/passages",
		"GET /v1/turns/{id}/run", "GET /v1/commands", "GET /v1/events", "GET /v1/relays", "GET /v1/channels", "GET /v1/channels/{id}/messages", "GET /v1/alerts", "GET /v1/deliveries",
	}
	probed = []string{"/health", "/healthz", "/metrics"}
)

// guarded is a route's endpoint behind the check of who asks, and of the query. What a person changes leaves an event that names them.
func (h *Handler) guarded(l route) endpoint {
	serve := l.strict()
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := l.allowed(r.Context()); err != nil {
			return err
		}
		if !l.changes() {
			return serve(w, r)
		}
		p, _ := bridge.PersonOf(r.Context())
		p.Request = words.Clip(l.method+" "+r.URL.EscapedPath(), maxRequest)
		r = r.WithContext(bridge.ByPerson(r.Context(), p))
		err := serve(w, r)
		if err == nil {
			h.record(r.Context())
		}
		return err
	}
}

// strict is the route's endpoint behind a check of the query.
func (l route) strict() endpoint {
	if slices.Contains(probed, l.path) || slices.Contains(queried, l.method+" "+l.path) {
		return l.serve
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := readQuery(r); err != nil {
			return err
		}
		return l.serve(w, r)
	}
}

func (h *Handler) table() []route {
	return []route{
		{http.MethodGet, "/health", h.health},
		{http.MethodGet, "/healthz", h.health},
		{http.MethodGet, "/metrics", h.metrics},
		{http.MethodPost, "/chat", h.chat},
		{http.MethodGet, "/agent/{user}", h.chatAgent},
		{http.MethodGet, "/v1/agents", h.listAgents},
		{http.MethodPost, "/v1/agents", h.launch},
		{http.MethodGet, "/v1/agents/{id}", h.getAgent},
		{http.MethodGet, "/v1/agents/{id}/turns", h.listTurns},
		{http.MethodPost, "/v1/agents/{id}/turns", h.say},
		{http.MethodGet, "/v1/agents/{id}/live", h.live},
		{http.MethodGet, "/v1/agents/{id}/tree", h.tree},
		{http.MethodPost, "/v1/agents/{id}/stop", h.stop},
		{http.MethodPost, "/v1/agents/{id}/resume", h.resume},
		{http.MethodPost, "/v1/agents/{id}/forget", h.forget},
		{http.MethodPost, "/v1/agents/{id}/join", h.join},
		{http.MethodPost, "/v1/agents/{id}/move", h.move},
		{http.MethodGet, "/v1/agents/{id}/tokens", h.listTokens},
		{http.MethodPost, "/v1/agents/{id}/tokens", h.mintToken},
		{http.MethodPost, "/v1/agents/{id}/tokens/revoke", h.revokeTokens},
		{http.MethodGet, "/v1/turns/{id}", h.getTurn},
		{http.MethodGet, "/v1/commands", h.listCommands},
		{http.MethodGet, "/v1/commands/{id}", h.getCommand},
		{http.MethodPost, "/v1/commands/{id}/approve", h.approve},
		{http.MethodPost, "/v1/commands/{id}/deny", h.deny},
		{http.MethodPost, "/v1/commands/{id}/resolve", h.resolve},
		{http.MethodPost, "/v1/commands/{id}/cancel", h.cancelReminder},
		{http.MethodPost, "/v1/turns/{id}/resolve", h.resolveTurn},
		{http.MethodPost, "/v1/restored", h.resolveRestored},
		{http.MethodPost, "/v1/turns/{id}/continue", h.continueTurn},
		{http.MethodPost, "/v1/turns/{id}/say-again", h.sayAgain},
		{http.MethodPost, "/v1/turns/{id}/give-up", h.giveUp},
		{http.MethodPost, "/v1/turns/{id}/stop", h.stopTurn},
		{http.MethodGet, "/v1/events", h.events},
		{http.MethodGet, seedEventsPath, h.seedEvents},
		{http.MethodGet, "/v1/allowed", h.allowed},
		{http.MethodGet, "/v1/allowed/text", h.allowlistText},
		{http.MethodGet, "/v1/allowed/uses", h.uses},
		{http.MethodPost, "/v1/allowed/try", h.tryText},
		{http.MethodPost, "/v1/allowed/compare", h.compare},
		{http.MethodGet, "/v1/status", h.status},
		{http.MethodGet, "/v1/use", h.use},
		{http.MethodGet, "/v1/needs", h.needs},
		{http.MethodPost, "/v1/page/links", h.pageLink},
		{http.MethodGet, "/v1/alerts", h.listAlerts},
		{http.MethodGet, "/v1/deliveries", h.listDeliveries},
		{http.MethodPost, "/v1/alerts/test", h.testAlerts},
	}
}

// mailTable are the routes of the post office.
func (h *Handler) mailTable() (table []route) {
	if h.o.Mail == nil {
		return nil
	}
	for _, r := range office.New(h.o.Mail, office.Tools{Body: readExact, Path: pathValue, Page: readPage}).Routes() {
		table = append(table, route{r.Method, r.Path, r.Serve})
	}
	return table
}

// readPage reads which part of a list is asked for, and the value of one more key.
func readPage(r *http.Request, key string) (p office.Page, err error) {
	known := []string{"limit", "before"}
	if key != "" {
		known = append(known, key)
	}
	q, err := readQuery(r, known...)
	if err != nil {
		return p, err
	}
	p.Before, p.Value = q.get("before"), q.get(key)
	p.Limit, err = q.limit()
	return p, err
}

// routes builds the router. It matches the path as it was sent: cleaning would
// redirect a POST, and decoding would let %2F make a segment.
func (h *Handler) routes() *mux.Router {
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, line := range slices.Concat(h.table(), h.relayRoutes(), h.mailTable(), h.recallTable(), h.callersTable()) {
		methods := []string{line.method}
		if line.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		r.Handle(line.path, named(line.path, h.serve(h.guarded(line)))).Methods(methods...)
	}
	r.NotFoundHandler = http.HandlerFunc(notFound)
	r.MethodNotAllowedHandler = http.HandlerFunc(h.wrongMethod)
	return r
}

func (h *Handler) serve(serve endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			fail(w, r, err)
		}
	})
}

// noSuchPath is what every path that an address does not serve is answered with.
const noSuchPath = "no such path"

func notFound(w http.ResponseWriter, _ *http.Request) {
	httpx.WriteError(w, http.StatusNotFound, string(bridge.NotFound), noSuchPath)
}

// wrongMethod answers 405 with the methods that the path has, which mux leaves out.
func (h *Handler) wrongMethod(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		probe := *r
		probe.Method = method
		var match mux.RouteMatch
		if h.router.Match(&probe, &match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	httpx.WriteError(w, http.StatusMethodNotAllowed, string(bridge.Invalid), "this path takes "+list)
}
