package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/httpx"
	"drawbridge/mail"
	"drawbridge/mcpserver"
	"drawbridge/mcpserver/doors"
	"drawbridge/memory"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
)

// The two eras of the protocol.
const (
	oldEra = "2025-11-25"
	newEra = "2026-07-28"
)

// world is a door on an engine, with a fake cloud and relay. Clients come over loopback, so its time is real: a bubble
// of virtual time stands still while a goroutine waits for the network.
type world struct {
	testing.TB
	policy atomic.Pointer[policy.Policy]
	engine *engine.Engine
	cloud  *runtimes.Cloud
	tokens *doors.Keyring
	// secrets are the agents' tokens by name.
	secrets sync.Map
	door    *mcpserver.Door
	options mcpserver.Options
	url     string
	mail    *mail.Service
	// sets are what all agents are offered, workspace where they work; set before agents connect.
	sets []string
	// slow keeps subagents at work.
	slow      atomic.Bool
	workspace string
	machine   machine
}

var rules = policy.Rules{
	Repos: []policy.RepoRule{{Pattern: "github.com/me/my-app"}, {Pattern: "github.com/acme/*"},
		{Pattern: "github.com/me/careful", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
	Actions: []policy.ActionRule{{ID: "backup_script", Relay: "laptop"}, {ID: "free"},
		{ID: "lock_screen", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
	OperatorRepos: []string{"github.com/me/agent-env"},
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, memstore.NewDisk().Open())
}

func newWorldOn(t testing.TB, db bridge.Store) *world {
	t.Helper()
	p, problems := policy.New(rules)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := &world{TB: t, sets: mcpserver.DefaultToolsets}
	w.policy.Store(p)
	w.cloud = &runtimes.Cloud{Answer: func(repo, _ string) bridge.Observation {
		if w.slow.Load() && repo != "github.com/me/agent-env" {
			return bridge.Observation{State: bridge.RunRunning}
		}
		return bridge.Observation{State: bridge.RunFinished, Reply: "Done."}
	}}
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	getPolicy := w.policy.Load
	var err error
	w.engine, err = engine.New(engine.Options{
		Store: db, Runtime: w.cloud, Actions: &runtimes.Relay{}, Policy: getPolicy,
		Keys:    bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}},
		PollMin: time.Millisecond, PollMax: 5 * time.Millisecond, Parser: parser.Options{Remind: true}, Log: log,
		Mail: func(ctx context.Context, work bridge.Work) error { return w.mail.Work(ctx, work) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.tokens = doors.NewKeyring(w.engine)
	if w.mail, err = mail.New(mail.Options{Steps: w.engine, Files: t.TempDir(), Workspace: func(bridge.Agent) string { return w.workspace }}); err != nil {
		t.Fatal(err)
	}
	remembered, err := memory.New(memory.Options{Steps: w.engine})
	if err != nil {
		t.Fatal(err)
	}
	w.options = mcpserver.Options{Machines: &w.machine, Mail: w.mail, Memory: remembered, Engine: w.engine, Policy: getPolicy, Tokens: w.tokens, Toolsets: func(_, _ bridge.Agent) []string { return w.sets }, PerMinute: -1, Version: "test", Log: log}
	if w.door, err = mcpserver.New(w.options); err != nil {
		t.Fatal(err)
	}
	w.run()
	return w
}

// run starts the engine and an HTTP server as the bridge's own is.
func (w *world) run() {
	guard, err := httpx.NewGuard("", "public_url")
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- w.engine.Run(ctx) }()
	go func() { done <- w.door.Run(ctx) }()
	server := httptest.NewServer(httpx.RequestLog(httpx.LogOptions{Log: zerolog.Nop()}, httpx.Recover(guard.Wrap(w.door))))
	w.url = server.URL + "/mcp"
	w.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				w.Errorf("run: %v", err)
			}
		}
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
}

// serve puts another door in front, with other options; nobody runs it.
func (w *world) serve(change func(*mcpserver.Options)) *mcpserver.Door {
	w.Helper()
	o := w.options
	change(&o)
	door, err := mcpserver.New(o)
	if err != nil {
		w.Fatal(err)
	}
	server := httptest.NewServer(door)
	w.url = server.URL + "/mcp"
	w.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return door
}

// launch launches a root agent and gives it a token of its own name.
func (w *world) launch(name string) bridge.Agent {
	w.Helper()
	a, _, err := w.engine.LaunchAgent(w.Context(), engine.Spec{Name: name, Repo: "github.com/me/agent-env", Prompt: "Begin, " + name + "."})
	if err != nil {
		w.Fatal(err)
	}
	w.mint(a)
	w.until(name+" is idle", func(tx *bridge.Scene) bool {
		got, err := tx.Agent(a.ID)
		return err == nil && got.State == bridge.AgentIdle
	})
	return a
}

// mint gives an agent a token, which connect finds by its name.
func (w *world) mint(a bridge.Agent) bridge.DoorToken {
	w.Helper()
	secret, t, err := w.tokens.Mint(w.Context(), a.ID, "")
	if err != nil {
		w.Fatal(err)
	}
	w.secrets.Store(a.Name, secret)
	return t
}

// secret is the token of an agent, or name itself when there is none.
func (w *world) secret(name string) string {
	if s, ok := w.secrets.Load(name); ok {
		return s.(string)
	}
	return name
}

// until waits for a condition on the store, looked at after each change.
func (w *world) until(what string, ok func(*bridge.Scene) bool) {
	w.Helper()
	changed, end := w.engine.Watch()
	defer end()
	limit := time.After(2 * time.Minute)
	for {
		met := false
		if err := w.engine.View(w.Context(), func(tx *bridge.Scene) error { met = ok(tx); return nil }); err != nil {
			w.Fatal(err)
		}
		if met {
			return
		}
		select {
		case <-changed:
		case <-limit:
			w.Fatalf("%s never happened", what)
		}
	}
}

// bearer sends a token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens the door with the SDK's own client.
func (w *world) connect(name, era, path string) *mcp.ClientSession {
	w.Helper()
	s, err := w.dial(name, era, path)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	return s
}

func (w *world) dial(name, era, path string) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: w.url + path, HTTPClient: &http.Client{Transport: bearer(w.secret(name))}, MaxRetries: -1}
	return client.Connect(w.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
}

// call calls a tool and returns what it answered.
func (w *world) call(s *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	w.Helper()
	r, err := s.CallTool(w.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		w.Fatalf("%s: %v", name, err)
	}
	return r
}

// good calls a tool that must succeed and reads its structured content.
func good[T any](w *world, s *mcp.ClientSession, name string, args any) (out T) {
	w.Helper()
	r := w.call(s, name, args)
	if r.IsError {
		w.Fatalf("%s%v: %s", name, args, words(r))
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		w.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		w.Fatalf("%s answers %s: %v", name, data, err)
	}
	return out
}

// words is the text of a result.
func words(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

type args map[string]any
