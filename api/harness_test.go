package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/httpx"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testToken = "token-of-the-tests"
	chatRepo  = "github.com/me/agent-env"
	childRepo = "github.com/me/my-app"
)

// cloud is a strict stand-in for the Cloud Agents API: each run answers with
// what reply says of its text, when it is allowed to.
type cloud struct {
	mu     sync.Mutex // guards the fields below
	agents map[string]string
	runs   map[string]string
	n      int
	// reply makes the answer to a text; "…" keeps the run going.
	reply func(text string) (string, bridge.RunState)
	// launchErr fails every launch.
	launchErr error
	// hang is called with each launch's prompt, and the launch goes on when it returns.
	hang func(prompt string)
}

func echoCloud() *cloud {
	return &cloud{agents: map[string]string{}, runs: map[string]string{}, reply: func(string) (string, bridge.RunState) { return "done", bridge.RunFinished }}
}

func (c *cloud) start(agent, text string) bridge.Started {
	c.n++
	run := fmt.Sprintf("run-%d", c.n)
	c.runs[run] = text
	return bridge.Started{Agent: agent, Run: run, URL: "https://cursor.example/" + agent}
}

func (c *cloud) Launch(_ context.Context, l bridge.Launch) (bridge.Started, error) {
	c.mu.Lock()
	hang := c.hang
	c.mu.Unlock()
	if hang != nil {
		hang(l.Grant.Prompt())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.Grant.Valid() {
		return bridge.Started{}, errors.New("launch without a grant")
	}
	if c.launchErr != nil {
		return bridge.Started{}, c.launchErr
	}
	if _, twice := c.agents[l.AgentID]; twice {
		return bridge.Started{}, fmt.Errorf("agent %s was launched twice", l.AgentID)
	}
	c.agents[l.AgentID] = l.Name
	return c.start(l.AgentID, l.Grant.Prompt()), nil
}

func (c *cloud) FindLaunch(context.Context, bridge.Launch) (bridge.Started, bridge.Found, error) {
	return bridge.Started{}, bridge.FoundUnknown, errors.New("nothing was in doubt")
}

func (c *cloud) Send(_ context.Context, f bridge.FollowUp) (bridge.Started, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.agents[f.Agent]; !known {
		return bridge.Started{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	return c.start(f.Agent, f.Text), nil
}

func (c *cloud) FindSend(context.Context, bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	return bridge.Started{}, bridge.FoundUnknown, errors.New("nothing was in doubt")
}

func (c *cloud) Observe(_ context.Context, r bridge.RunRef) (bridge.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, known := c.runs[r.Run]
	if !known {
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such run")
	}
	reply, state := c.reply(text)
	return bridge.Observation{State: state, Reply: reply}, nil
}

func (c *cloud) Cancel(context.Context, bridge.RunRef) error { return nil }

func (c *cloud) set(change func(*cloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// relay runs actions by name.
type relay struct{}

func (relay) LookUp(context.Context, bridge.ActionLookup) (bridge.ActionFinding, error) {
	return bridge.ActionFinding{}, bridge.Errorf(bridge.Unavailable, "no relay")
}

func (relay) RunAction(_ context.Context, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	if !r.Grant.Valid() || r.Request == "" {
		return bridge.ActionOutcome{}, errors.New("action without a grant or a request id")
	}
	switch r.Grant.Action() {
	case "backup_script":
		return bridge.ActionOutcome{Status: bridge.ActionExecuted, Stdout: strings.Repeat("é", 600), Duration: time.Millisecond, HTTPStatus: 200}, nil
	case "not_at_relay":
		return bridge.ActionOutcome{Status: bridge.ActionRefused, Error: "not on this relay's list", HTTPStatus: 403}, nil
	case "slow":
		return bridge.ActionOutcome{Status: bridge.ActionTimedOut, HTTPStatus: 200}, nil
	}
	return bridge.ActionOutcome{}, bridge.Errorf(bridge.Invalid, "no such action")
}

func testPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	p, problems := policy.New(policy.Rules{
		Repos:         []policy.RepoRule{{Pattern: childRepo}, {Pattern: "github.com/acme/*", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
		Actions:       []policy.ActionRule{{ID: "backup_script", Relay: "laptop"}, {ID: "not_at_relay", Relay: "laptop"}, {ID: "slow", Relay: "laptop"}, {ID: "broken", Relay: "laptop"}},
		OperatorRepos: []string{chatRepo},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// world is a whole bridge behind a real listener. Its time is real, since a bubble of
// virtual time stands still while a goroutine waits for the network.
type world struct {
	cloud   *cloud
	engine  *engine.Engine
	handler *api.Handler
	metrics *api.Metrics
	url     string
	client  *api.Client
	log     *lockedBuffer
	// stop stops the HTTP server and returns what it returned.
	stop func() error
}

type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newWorld(t *testing.T, change ...func(*api.Options)) *world {
	t.Helper()
	db := memstore.NewDisk().Open()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{cloud: echoCloud(), metrics: api.NewMetrics("v1.2.3"), log: &lockedBuffer{}}
	p := testPolicy(t)
	var err error
	w.engine, err = engine.New(engine.Options{
		Store: db, Runtime: w.cloud, Actions: relay{}, Policy: func() *policy.Policy { return p }, OnEvent: w.metrics.OnEvent, Log: zerolog.Nop(),
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}},
		Hosts: func(runtime string) (string, string, bool) {
			return "laptop", "one", runtime == "laptop" || runtime == "desk"
		},
		PollMin: time.Millisecond, PollMax: 5 * time.Millisecond, ActionPatience: 10 * time.Millisecond, Parser: parser.Options{},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := api.Options{Engine: w.engine, Policy: func() *policy.Policy { return p }, Token: testToken, Metrics: w.metrics, Version: "v1.2.3",
		Chat: api.ChatOptions{Repo: chatRepo, Wait: 30 * time.Second}, Log: zerolog.New(w.log)}
	for _, c := range change {
		c(&o)
	}
	if w.handler, err = api.New(o); err != nil {
		t.Fatal(err)
	}
	w.run(t)
	return w
}

// run starts the engine and the server, and stops both at the end.
func (w *world) run(t *testing.T) {
	t.Helper()
	server, err := httpx.Listen(t.Context(), httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: w.handler, Log: zerolog.Nop(), Grace: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	serveCtx, stopServing := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = w.engine.Run(ctx) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(serveCtx) }()
	w.stop = sync.OnceValue(func() error { stopServing(); return <-served })
	w.url = "http://" + server.Addr().String()
	if w.client, err = api.NewClient(api.ClientOptions{URL: w.url, Token: testToken}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.client.Close()
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
	})
}

// call sends one raw request with the token and returns status, body and headers.
func (w *world) call(t *testing.T, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Bridge-Token", testToken)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data), resp.Header
}

// until waits for the engine to make cond true.
func (w *world) until(t *testing.T, cond func() bool) {
	t.Helper()
	changes, stop := w.engine.Watch()
	defer stop()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-changes:
		case <-deadline.C:
			t.Fatal("it never came true")
		}
	}
}

// serveDirect calls the handler without a connection.
func serveDirect(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// noStore is a database that is down.
type noStore struct{}

var errDown = errors.New("disk I/O error in /var/lib/secret-place")

func (noStore) Update(context.Context, func(*bridge.Scene) error, ...bridge.Need) error {
	return errDown
}

func (noStore) Claim(context.Context, bridge.Claim) ([]bridge.Work, error)            { return nil, errDown }
func (noStore) NextFor(context.Context, bridge.Claim) (time.Time, error)              { return time.Time{}, errDown }
func (noStore) Extend(context.Context, bridge.Work, time.Time) error                  { return errDown }
func (noStore) View(context.Context, func(*bridge.Scene) error, ...bridge.Need) error { return errDown }

// deadEnd is a handler whose policy allows nothing and whose database is down.
func deadEnd(t *testing.T, change ...func(*api.Options)) *api.Handler {
	t.Helper()
	return onStore(t, noStore{}, change...)
}

// onStore is a handler whose policy allows nothing, on a database.
func onStore(t *testing.T, db bridge.Store, change ...func(*api.Options)) *api.Handler {
	t.Helper()
	nothing := func() *policy.Policy { return &policy.Policy{} }
	engine, err := engine.New(engine.Options{Store: db, Runtime: echoCloud(), Actions: relay{}, Policy: nothing,
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}})
	if err != nil {
		t.Fatal(err)
	}
	o := api.Options{Engine: engine, Policy: nothing, Token: testToken, Log: zerolog.Nop()}
	for _, c := range change {
		c(&o)
	}
	h, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
