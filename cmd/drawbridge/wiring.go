package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/alerts"
	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/runtimes"
	"drawbridge/chatmodel"
	"drawbridge/cloudagents"
	"drawbridge/config"
	"drawbridge/internal/httpx"
	"drawbridge/internal/logs"
	"drawbridge/internal/tracing"
	"drawbridge/mail"
	"drawbridge/mcpserver"
	"drawbridge/mcpserver/doors"
	"drawbridge/memory"
	"drawbridge/openai"
	"drawbridge/openai/agents"
	"drawbridge/openai/cursor"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/scripted"
	"drawbridge/store"
	"drawbridge/store/passes"
	"drawbridge/web"
	"drawbridge/webhooks"
)

// parts is a whole bridge, wired and not yet running.
type parts struct {
	config  *config.Bridge
	newKey  bool // the earlier bridge key is lost
	log     zerolog.Logger
	policy  atomic.Pointer[policy.Policy]
	trouble atomic.Pointer[string] // what is wrong with the allowlist on disk, nil when nothing
	store   *store.Store
	engine  *engine.Engine
	mail    *mail.Service
	memory  *memory.Service
	tokens  *doors.Keyring
	door    *mcpserver.Door
	relays  *hub.Hub
	scripts []*scripted.Runtime
	hosted  map[string]*hosted.Runtime
	chats   chatmodel.Runtimes
	cloud   *cloudagents.Client // nil without a key
	// callers and callerDoor are the OpenAI-compatible door, nil without one.
	callers     *openai.Keyring
	callerDoor  *openai.Door
	callerTools *agents.Tools
	cursors     []*cursor.Client
	api         *api.Handler
	alerts      *alerts.Service // nil without an address for them
	metrics     *api.Metrics
	tracing     *tracing.Tracing
}

// loadConfig reads bridge.yaml and its allowlist and prints every problem of both.
func loadConfig(path string, serve bool, a app) (*config.Bridge, *policy.Policy, error) {
	load := config.LoadKeyless
	if serve {
		load = config.Load
	}
	cfg, problems := load(path, a.getenv)
	if cfg == nil {
		return nil, nil, a.problems(path, append(problems, besideProblems(path)...))
	}
	if serve {
		problems = append(problems, cfg.ServeProblems()...)
	}
	rules, more := config.LoadAllowlist(cfg.Allowlist)
	problems = append(problems, more...)
	var p *policy.Policy
	if len(more) == 0 {
		p, more = cfg.Policy(rules)
		problems = append(problems, more...)
	}
	if len(problems) > 0 {
		return cfg, nil, a.problems(path, problems)
	}
	return cfg, p, nil
}

// besideProblems are those of the allowlist beside a bridge.yaml that cannot be
// read, so that all problems come at once all the same.
func besideProblems(path string) []config.Problem {
	beside := filepath.Join(filepath.Dir(path), defaultAllowlist)
	if _, err := os.Stat(beside); err != nil {
		return nil // it may have another name; nobody can tell yet
	}
	_, problems := config.LoadAllowlist(beside)
	return problems
}

// problems prints them and returns the error that ends the command.
func (a app) problems(path string, problems []config.Problem) error {
	for _, p := range problems {
		fmt.Fprintln(a.stderr, p.String())
	}
	if len(problems) == 1 {
		return usageError{fmt.Errorf("%s: 1 problem; correct it and try again", path)}
	}
	return usageError{fmt.Errorf("%s: %d problems; correct them and try again", path, len(problems))}
}

func newLog(w io.Writer, c config.Log) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(logs.Writer(w, c.Format)).Level(level).With().Timestamp().Logger()
}

// wire builds every part of the bridge. What it opened is closed by close.
func wire(ctx context.Context, a app, cfg *config.Bridge, p *policy.Policy) (*parts, error) {
	forget(cfg.Secrets())
	w := &parts{newKey: a.newKey, config: cfg, log: newLog(a.stderr, cfg.Log), metrics: api.NewMetrics(version)}
	w.policy.Store(p)
	var err error
	if w.tracing, err = tracing.New(ctx, version, a.getenv); err != nil {
		return nil, err
	}
	if !cfg.CloudOff() {
		if w.cloud, err = tracedCloud(cfg, w.tracing); err != nil {
			return nil, errors.Join(err, w.tracing.Close())
		}
	}
	keys := bridgeKeys(cfg)
	if err := w.openStore(ctx, keys); err != nil {
		return nil, err
	}
	w.relays, err = newHub(cfg, hub.Options{Store: w.store, Keys: keys, Shared: store.IsURL(cfg.Database), Woken: func() { w.engine.Wake() }, Lanes: func(tx *bridge.Scene, relay string) ([]string, error) { return w.engine.LanesAt(tx, relay) }, Answered: w.answered, Alarm: w.alarm, Permissions: questions{w}, Log: w.log,
		MCP: relayDoor{store: w.store, hosts: w.relayOf, door: func() http.Handler { return w.api.DoorForGuests() }, bindFor: usualBind}})
	if err != nil {
		return nil, w.close(err)
	}
	named, err := w.openRuntimes()
	if err != nil {
		return nil, w.close(err)
	}
	all := runtimes.Set{Named: named}
	if w.cloud != nil { // a nil pointer in an interface is not nil
		all.Cloud = w.cloud
	}
	doored := &doors.Runtime{Cloud: all, Store: w.store, Keys: keys, PublicURL: cfg.PublicURL, LocalURL: cfg.DoorURL(), Tokenless: w.tokenless}
	w.engine, err = engine.New(markPorts(engine.Options{
		Store: w.store, Runtime: doored, Actions: w.relays, Keys: keys, Policy: w.policy.Load,
		API: cfg.Cursor.API, PublicURL: cfg.PublicURL, Parser: parserOptions(cfg),
		PollMin: cfg.Poll.Min, PollMax: cfg.Poll.Max, Settle: all.SettleTime, Away: all.Away, Homes: runtimes.Homes{Place: w.relayOf}, V0Settle: cfg.Cursor.V0Settle,
		Hosts: w.hosts, Mail: w.mailWork, Chat: w.chatWork, Doors: doored.Gives, Preamble: w.preamble, OnEvent: w.onEvent, Log: w.log,
	}))
	if err != nil {
		return nil, w.close(err)
	}
	if w.mail, err = mail.New(mail.Options{Steps: w.engine, Doors: doored.Gives, Tokenless: w.tokenless, Workspace: w.workspace, Files: cfg.Files, PerPair: cfg.Mail.PerMinute, ChainDepth: cfg.Mail.ChainDepth, MaxFile: cfg.Mail.MaxFile}); err != nil {
		return nil, w.close(err)
	}
	hooks, err := webhooks.New(webhooks.Options{Bridge: w.engine, Keys: keys, OnVerdict: w.metrics.OnVerdict, Log: w.log})
	if err != nil {
		return nil, w.close(err)
	}
	if err := w.openDoor(); err != nil {
		return nil, w.close(err)
	}
	if err := w.openCallers(); err != nil {
		return nil, w.close(err)
	}
	if err := w.openAlerts(); err != nil {
		return nil, w.close(err)
	}
	if w.api, err = api.New(w.apiOptions(w.tracing.Server(hooksRoute, hooks.Handler()))); err != nil {
		return nil, w.close(err)
	}
	return w, nil
}

// hooksRoute is the receiver's route in traces.
const hooksRoute = "/hooks/cursor/{key}/{operation}"

// wireReceiver builds the webhook receiver alone. Its engine records deliveries
// and runs nothing: it has no Runtime and no relays.
func wireReceiver(ctx context.Context, a app, cfg *config.Bridge, p *policy.Policy) (*parts, http.Handler, error) {
	forget(cfg.Secrets())
	w := &parts{config: cfg, log: newLog(a.stderr, cfg.Log), metrics: api.NewMetrics(version)}
	w.policy.Store(p)
	keys := bridgeKeys(cfg)
	var err error
	if w.tracing, err = tracing.New(ctx, version, a.getenv); err != nil {
		return nil, nil, err
	}
	if err := w.openStore(ctx, keys); err != nil {
		return nil, nil, err
	}
	if w.engine, err = engine.NewRecorder(markPorts(engine.Options{Store: w.store, Keys: keys, OnEvent: w.onEvent, Log: w.log})); err != nil {
		return nil, nil, w.close(err)
	}
	hooks, err := webhooks.New(webhooks.Options{Bridge: w.engine, Keys: keys, OnVerdict: w.metrics.OnVerdict, Log: w.log})
	if err != nil {
		return nil, nil, w.close(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/", w.tracing.Server(hooksRoute, hooks.Handler()))
	for _, path := range []string{"/health", "/healthz"} {
		mux.HandleFunc("GET "+path, func(rw http.ResponseWriter, _ *http.Request) {
			httpx.WriteJSON(rw, http.StatusOK, map[string]bool{"ok": true})
		})
	}
	return w, httpx.Recover(mux), nil
}

// openStore opens the database and makes sure that it belongs to these keys.
func (w *parts) openStore(ctx context.Context, keys bridge.Keys) (err error) {
	if w.store, err = store.Open(ctx, w.config.Database); err != nil {
		return err
	}
	if err := claimKey(ctx, w.store, keys, w.newKey); err != nil {
		return w.close(err)
	}
	return nil
}

// openRuntimes opens what the configuration names besides the cloud.
func (w *parts) openRuntimes() (map[string]bridge.Runtime, error) {
	named := map[string]bridge.Runtime{}
	w.hosted = map[string]*hosted.Runtime{}
	for name, c := range w.config.Runtimes {
		if c.Kind == "relay" {
			w.hosted[name] = hosted.New(hosted.Options{Turns: w.relays, Relay: c.Relay, Agent: c.Agent})
			named[name] = w.hosted[name]
			continue
		}
		if c.Kind == kindChat {
			r, err := w.openChat(name, c)
			if err != nil {
				return nil, err
			}
			named[name] = r
			continue
		}
		script, err := scripted.Load(c.Script)
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w", name, err)
		}
		r, err := scripted.Open(scripted.Options{Script: script, Dir: c.Dir, Log: w.log})
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w", name, err)
		}
		w.scripts = append(w.scripts, r)
		named[name] = r
		w.log.Warn().Str("runtime", name).Str("script", c.Script).Msg("this runtime is a stand-in without a model: its agents follow a script")
	}
	return named, nil
}

// runScripts lets scripted agents work until ctx ends.
func (w *parts) runScripts(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(w.scripts))
	for i, r := range w.scripts {
		all.Go(func() { errs[i] = r.Run(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	return errors.Join(errs...)
}

// runHosted lets agents of relays get turns until ctx ends.
func (w *parts) runHosted(ctx context.Context) error {
	var all sync.WaitGroup
	for _, r := range w.hosted {
		all.Go(func() { _ = r.Run(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

// openDoor builds the MCP door; it opens with the API.
func (w *parts) openDoor() (err error) {
	if w.memory, err = memory.New(memory.Options{Steps: w.engine}); err != nil {
		return err
	}
	w.tokens = doors.NewKeyring(w.engine)
	w.openCallerTools()
	o := mcpserver.Options{
		Machines: hosted.Set(w.hosted),
		Engine:   w.engine, Policy: w.policy.Load, Tokens: w.tokens, Mail: w.mail, Memory: w.memory, Toolsets: w.toolsets, PerMinute: w.config.Tools.PerMinute, NoReminders: !w.config.Tools.Remind, Tracing: w.tracing, OnCall: w.metrics.OnCall, Version: version, Log: w.log}
	if w.callerTools != nil { // a nil pointer in an interface is not nil
		o.Callers = w.callerTools
	}
	w.door, err = mcpserver.New(extendDoor(o))
	return err
}

// mailWork hands the post office its work; it is there before the engine runs.
func (w *parts) mailWork(ctx context.Context, work bridge.Work) error { return w.mail.Work(ctx, work) }

// workspace is where an agent works on this machine, "" when it does not. Agents
// of the cloud do not; those below them neither.
func (w *parts) workspace(a bridge.Agent) string {
	if o := w.orchestrator(a.Name, a.Role); o != nil {
		return o.Workspace
	}
	return ""
}

// toolsets are what an agent under a root is offered, as the orchestrator's entry says.
func (w *parts) toolsets(root, agent bridge.Agent) []string {
	return offeredSets(w.config, w.orchestrator(root.Name, root.Role), root.Runtime, agent.Runtime)
}

func (w *parts) apiOptions(hooks http.Handler) api.Options {
	cfg := w.config
	chat := api.ChatOptions{PerMinute: cfg.Chat.PerMinute, Wait: cfg.Chat.Wait}
	for _, o := range cfg.Orchestrators {
		if o.Name == cfg.Chat.Orchestrator {
			chat.Repo, chat.Ref = o.Repo, o.Ref
		}
	}
	var told api.Alerts
	if w.alerts != nil { // a nil pointer in an interface is not nil
		told = w.alerts
	}
	return api.Options{
		Callers: w.callers, Alerts: told,
		Engine: w.engine, Policy: w.policy.Load, Problem: w.problem, Allowlist: allowlistFile{cfg}, Healthy: w.store.Check, Database: w.store.Health, ConfigDigest: cfg.Digest(), Roles: w.roles, Runtime: w.runtime, Join: w.join, Blocks: w.blocks, Token: cfg.Token.Reveal(), Operators: operators(cfg), Chat: chat, Mail: w.mail, Memory: w.memory,
		Relays: w.relays, RelayDoor: w.relays, Workspaces: w.workspaces, Live: w.live, RelayOf: w.relayOf, Door: w.door, Page: w.page, Streams: w.door.EnterStream, Tokens: w.tokens,
		Webhooks: hooks, Metrics: w.metrics, MetricsToken: cfg.Metrics.Token.Reveal(), PublicURL: cfg.PublicURL, OperatorURL: cfg.Operator.URL, DoorURL: w.doorURL(), Version: version, Log: w.log,
	}
}

// shown is the address at which a proxy shows the page, "" without one.
func (w *parts) shown() string {
	if w.config.Split() {
		return w.config.Operator.URL
	}
	return w.config.PublicURL
}

// operators are the further people of the configuration, in the order of their names.
func operators(cfg *config.Bridge) (all []api.Operator) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Operators)) {
		o := cfg.Operators[name]
		all = append(all, api.Operator{Name: name, Role: bridge.Role(o.Role), Token: o.Token.Reveal()})
	}
	return all
}

// page makes the operator's page.
func (w *parts) page(client *api.Client, operators []api.Operator) (api.Page, error) {
	return web.New(web.Options{API: client, Watch: w.engine.Watch, Records: passes.New(w.store), Operators: operators, URL: w.shown()})
}

// doorURL is where programs on this machine find the bridge, if that is not where the operator does.
func (w *parts) doorURL() string {
	if w.config.Split() {
		return w.config.DoorURL()
	}
	return ""
}

// roles names the orchestrators on a repository, so that what is narrowed for
// one of them holds under whatever name it is launched.
func (w *parts) roles(repo string) string {
	var names []string
	for _, o := range w.config.Orchestrators {
		if o.Repo == repo {
			names = append(names, o.Name)
		}
	}
	return strings.Join(names, " ")
}

// orchestrator finds an agent's entry: by its name first and else by the first
// of its roles; nil for an agent that has none.
func (w *parts) orchestrator(name, role string) *config.Orchestrator {
	for _, want := range append([]string{name}, strings.Fields(role)...) {
		for i, o := range w.config.Orchestrators {
			if o.Name == want && slices.Contains(strings.Fields(role), o.Name) {
				return &w.config.Orchestrators[i]
			}
		}
	}
	return nil
}

// runtime is where an agent lives, as its orchestrator's entry says; "" for the cloud.
func (w *parts) runtime(name, role string) string {
	if o := w.orchestrator(name, role); o != nil {
		return o.Runtime
	}
	return ""
}

// join is how results come back to an agent, as its orchestrator's entry says.
func (w *parts) join(name, role string) (bridge.Join, time.Duration) {
	if o := w.orchestrator(name, role); o != nil {
		return bridge.Join(o.Join), o.JoinDeadline
	}
	return "", 0
}

// problem is why the allowlist on disk is not in force, or "".
func (w *parts) problem() string {
	if text := w.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

func newCloud(cfg *config.Bridge) (*cloudagents.Client, error) { return tracedCloud(cfg, nil) }

// tracedCloud has a span made of each request; nil makes none.
func tracedCloud(cfg *config.Bridge, t *tracing.Tracing) (*cloudagents.Client, error) {
	return cloudagents.New(cloudagents.Options{
		BaseURL: cfg.Cursor.URL, Key: cfg.Cursor.Key.Reveal(), API: cfg.Cursor.API, Model: cfg.Cursor.Model,
		Timeout: cfg.Cursor.Timeout, UserAgent: "drawbridge/" + version,
		Around: func(next http.RoundTripper) http.RoundTripper { return t.Client(next, callsOf) },
	})
}

// callsOf tells traces for which turn calls are made, and whether looks are held back.
func callsOf(ctx context.Context) (turn string, tell func(func())) {
	c := bridge.CallsOf(ctx)
	if c == nil {
		return "", nil
	}
	return string(c.Turn), c.Tell
}

// answered has a relay asked again, because a person at its machine has said something.
func (w *parts) answered(ctx context.Context, relay, request string) error {
	return w.engine.RelayAnswered(ctx, relay, request)
}

// hosts says which relay hosts the agents of a runtime, and under which entry of its file.
func (w *parts) hosts(runtime string) (relay, entry string, is bool) {
	r := w.hosted[runtime]
	if r == nil {
		return "", "", false
	}
	relay, entry = r.Place()
	return relay, entry, true
}

// questions records the questions of hosted agents. The engine is made after the hub.
type questions struct{ w *parts }

// PermissionAsked implements hub.Permissions.
func (q questions) PermissionAsked(ctx context.Context, p bridge.Permission) error {
	return q.w.engine.PermissionAsked(ctx, p)
}

// PermissionWord implements hub.Permissions.
func (q questions) PermissionWord(ctx context.Context, relay string, ids []string) ([]bridge.PermissionWord, error) {
	return q.w.engine.PermissionWord(ctx, relay, ids)
}

// alarm tells people of a relay that was refused as a copy.
func (w *parts) alarm(ctx context.Context, text string) error {
	return w.engine.Change(ctx, func(tx bridge.Change) error {
		return tx.Record(bridge.EventAlarm, bridge.Agent{}, bridge.Event{Text: text})
	})
}

// newHub completes the options with the relays that are called at an address.
func newHub(cfg *config.Bridge, o hub.Options) (*hub.Hub, error) {
	o.Relays = map[string]hub.Relay{}
	for name, r := range cfg.Relays {
		o.Relays[name] = hub.Relay{URL: r.URL, Token: r.Token.Reveal()}
	}
	return hub.New(o)
}

func parserOptions(cfg *config.Bridge) parser.Options {
	return parser.Options{Fenced: parser.Fenced(cfg.Parser.Fenced), Remind: cfg.Parser.Remind, WebhookResult: cfg.Parser.WebhookResult}
}

// bridgeKeys gives each key an id that tells nothing of it and stays the same over restarts.
func bridgeKeys(cfg *config.Bridge) bridge.Keys {
	key := func(s config.Secret) bridge.Key {
		sum := sha256.Sum256([]byte("drawbridge key id|" + s.Reveal()))
		return bridge.Key{ID: hex.EncodeToString(sum[:4]), Secret: []byte(s.Reveal())}
	}
	keys := bridge.Keys{Current: key(cfg.Key)}
	for _, old := range cfg.OldKeys {
		keys.Old = append(keys.Old, key(old))
	}
	return keys
}

// onEvent writes the one wide line of each thing that happened, and counts it.
func (w *parts) onEvent(e bridge.Event) {
	w.metrics.OnEvent(e)
	mcpserver.TraceRun(w.tracing, e)
	line := w.log.Info()
	switch e.Kind {
	case bridge.EventAlarm:
		line = w.log.Warn().Str("text", e.Text) // the bridge's own words
	case bridge.EventParked, bridge.EventUncertain, bridge.EventTurnFailed, bridge.EventGated, bridge.EventOverCap, bridge.EventThrottled:
		line = w.log.Warn().Str("reason", short(e.Text, 300))
	}
	line = line.Str("event", e.Kind).Str("agent", string(e.Agent)).Str("name", e.Name)
	if e.Turn != "" {
		line = line.Str("turn", string(e.Turn))
	}
	if e.Command != "" {
		line = line.Str("command", string(e.Command))
	}
	// Ids, decisions and durations only: prompts, replies and output stay in the store.
	for _, key := range []string{"cause", "verb", "line", "code", "canonical", "relay", "status", "source", "exit_code", "duration_ms", "attempts", "input_tokens", "output_tokens", "cost_micros", "runtime", "api", "external", "verdict", "calls"} {
		if v := e.Fields[key]; v != "" {
			line = line.Str(key, v)
		}
	}
	line.Msg(e.Kind)
}

func (w *parts) close(err error) error {
	if w.tracing != nil {
		if e := w.tracing.Close(); e != nil {
			w.log.Warn().Err(e).Msg("the last traces were not sent")
		}
	}
	for _, r := range w.scripts {
		if e := r.Close(); e != nil && err == nil {
			err = fmt.Errorf("close the journal of scripted agents: %w", e)
		}
	}
	if w.store == nil {
		return err
	}
	if e := w.store.Close(); e != nil && err == nil {
		return fmt.Errorf("close store: %w", e)
	}
	return err
}
