package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

func TestBothErasOfferTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.launch("main")
	for _, era := range []string{oldEra, "2025-06-18", "2025-03-26", newEra} {
		s := w.connect("main", era, "")
		if got := s.InitializeResult(); got.ProtocolVersion != era || !strings.Contains(got.Instructions, string(a.ID)) {
			t.Errorf("%s: the server says version %q, instructions %q", era, got.ProtocolVersion, got.Instructions)
		}
		listed, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if era == newEra && listed.CacheScope != "private" {
			t.Errorf("%s: the list of one agent's tools may be cached for others: its scope is %q", era, listed.CacheScope)
		}
		var names []string
		for _, tool := range listed.Tools {
			names = append(names, tool.Name)
			if len(tool.Description) < 40 || tool.InputSchema == nil {
				t.Errorf("%s: tool %s is not described", era, tool.Name)
			}
		}
		want := []string{"agent_status", "cancel_reminder", "launch_agent", "list_agents", "list_allowed", "remind", "run_local_action"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", era, diff)
		}
		got := good[struct {
			You    string                `json:"you"`
			Agents []mcpserver.AgentView `json:"agents"`
		}](w, s, "list_agents", nil)
		if got.You != string(a.ID) || len(got.Agents) != 1 || got.Agents[0].Relation != "self" {
			t.Errorf("%s: list_agents says %+v", era, got)
		}
	}
}

func TestADoorWithoutAKeyStaysShut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	for _, era := range []string{oldEra, newEra} {
		if _, err := w.dial("guessed", era, ""); err == nil {
			t.Errorf("%s: an unknown token opened the door", era)
		}
	}
	tests := []struct {
		name   string
		header http.Header
		want   int
	}{
		{"no token", http.Header{}, 401},
		{"two tokens", http.Header{"Authorization": {"Bearer " + w.secret("main"), "Bearer " + w.secret("main")}}, 401},
		{"basic", http.Header{"Authorization": {"Basic " + w.secret("main")}}, 401},
		{"empty", http.Header{"Authorization": {"Bearer "}}, 401},
		{"another site", http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Origin": {"https://evil.example"}}, 403},
		{"cross-site fetch", http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Sec-Fetch-Site": {"cross-site"}}, 403},
	}
	for _, tt := range tests {
		tt.header.Set("Content-Type", "application/json")
		tt.header.Set("Accept", "application/json, text/event-stream")
		if got := w.post("", tt.header, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
	}
	rebound := http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Host": {"evil.example"}}
	if got := w.post("", rebound, `{}`); got != 403 {
		t.Errorf("a rebound name: status %d", got)
	}
}

// post sends one raw message and returns the status.
func (w *world) post(path string, header http.Header, body string) int {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header, req.Host = header, header.Get("Host")
	resp, _ := w.send(req)
	return resp.StatusCode
}

// TestARefusalAtTheDoorNamesNoOperatorCommand: an agent can read these bodies, and it cannot run what only the operator may.
func TestARefusalAtTheDoorNamesNoOperatorCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	own := "Bearer " + w.secret("main")
	headers := map[string]http.Header{
		"no token":      {},
		"empty token":   {"Authorization": {"Bearer "}},
		"two tokens":    {"Authorization": {own, own}},
		"unknown token": {"Authorization": {"Bearer guessed"}},
		"another agent": {"Authorization": {own}, mcpserver.AgentHeader: {"someone-else"}},
	}
	for name, header := range headers {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		header.Set("Content-Type", "application/json")
		header.Set("Accept", "application/json, text/event-stream")
		r.Header = header
		got, body := w.send(r)
		if got.StatusCode != 401 && got.StatusCode != 403 || strings.Contains(string(body), "drawbridge") || !strings.Contains(string(body), "operator") {
			t.Errorf("%s: %d %s", name, got.StatusCode, body)
		}
	}
}

func TestARevokedTokenEndsWhatItOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	old, modern := w.connect("main", oldEra, ""), w.connect("main", newEra, "")
	good[any](w, old, "list_allowed", nil)
	if n, err := w.tokens.Revoke(t.Context(), main.ID, ""); n != 1 || err != nil {
		t.Fatalf("%d tokens revoked, %v", n, err)
	}
	for era, s := range map[string]*mcp.ClientSession{oldEra: old, newEra: modern} {
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_allowed"}); err == nil {
			t.Errorf("%s: a revoked token still calls tools", era)
		}
	}
}

// A token that is made for a client takes the place of the agent's earlier one for it, with what that opened; other
// tokens and other agents' stay.
func TestATokenForAClientReplacesItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main, other := w.launch("main"), w.launch("other")
	mint := func(agent bridge.Agent, client, name string) {
		secret, _, err := w.tokens.Mint(t.Context(), agent.ID, client)
		if err != nil {
			t.Fatal(err)
		}
		w.secrets.Store(name, secret)
	}
	mint(main, "codex", "first")
	mint(main, "claude", "claude")
	mint(other, "codex", "elsewhere")
	open := w.connect("first", oldEra, "")
	good[any](w, open, "list_allowed", nil)
	mint(main, "codex", "second")
	if _, err := open.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_allowed"}); err == nil {
		t.Error("a session of the token that was replaced goes on")
	}
	for name, works := range map[string]bool{"first": false, "second": true, "claude": true, "elsewhere": true, "main": true} {
		if s, err := w.dial(name, newEra, ""); (err == nil) != works {
			t.Errorf("%s: %v", name, err)
		} else if err == nil {
			s.Close()
		}
	}
	for _, bad := range []string{"a b", "x\n", strings.Repeat("x", 41), "ü"} {
		if _, _, err := w.tokens.Mint(t.Context(), main.ID, bad); bridge.KindOf(err) != bridge.Invalid {
			t.Errorf("client %q: %v", bad, err)
		}
	}
}

func TestEndEndsStreamsAndSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	s := w.connect("main", oldEra, "")
	tokens, err := w.tokens.List(t.Context(), main.ID)
	if err != nil || len(tokens) != 1 {
		t.Fatal(tokens, err)
	}
	if n, err := w.tokens.Revoke(t.Context(), main.ID, tokens[0].ID); n != 1 || err != nil {
		t.Fatalf("%d tokens revoked, %v", n, err)
	}
	if err := s.Wait(); err == nil { // its stream ended, and it may not open another
		t.Error("the client's session ended without an error")
	}
	w.mint(main)
	header := http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Mcp-Session-Id": {s.ID()}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for _, body := range []string{`{"jsonrpc":"2.0","id":9,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"list_agents","arguments":{"text":"what is io.modelcontextprotocol/protocolVersion?"}}}`} {
		if got := w.post("", header, body); got != http.StatusNotFound {
			t.Errorf("the session of a token that was revoked: status %d to %s", got, body)
		}
	}
}

// A client that opens sessions without end loses its oldest ones, and nobody else does.
func TestSessionsOfATokenAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	w.launch("other")
	first, others := w.connect("main", oldEra, ""), w.connect("other", oldEra, "")
	header := http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for range 70 {
		if got := w.post("", header, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); got != http.StatusOK {
			t.Fatalf("initialize: status %d", got)
		}
	}
	if err := first.Wait(); err == nil {
		t.Error("the oldest of 71 sessions ended without an error")
	}
	header.Set("Mcp-Session-Id", first.ID())
	if got := w.post("", header, `{"jsonrpc":"2.0","id":9,"method":"ping"}`); got != http.StatusNotFound {
		t.Errorf("the oldest of 71 sessions: status %d", got)
	}
	good[any](w, w.connect("main", oldEra, ""), "list_agents", nil)
	good[any](w, others, "list_agents", nil)
}

func TestASessionBelongsToItsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	w.launch("other")
	s := w.connect("main", oldEra, "")
	w.mint(main)
	for _, name := range []string{"other", "main"} { // main's is another one by now
		stolen := http.Header{"Authorization": {"Bearer " + w.secret(name)}, "Mcp-Session-Id": {s.ID()}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if got := w.post("", stolen, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"list_agents"}}`); got != http.StatusForbidden {
			t.Errorf("main's session with another token of %s: status %d", name, got)
		}
	}
}

// turning sends requests to doors in turn, as a load balancer does.
type turning struct {
	doors []http.Handler
	next  atomic.Int64
}

func (b *turning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.doors[int(b.next.Add(1))%len(b.doors)].ServeHTTP(w, r)
}

// A session of the older protocols that began at one replica goes on at another. It guards against clients that are cut off,
// because few begin another session by themselves.
func TestASessionGoesOnAtAnotherReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	other, err := mcpserver.New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&turning{doors: []http.Handler{w.door, other}})
	w.url = server.URL + "/mcp"
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error)
	go func() { done <- other.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	s := w.connect("main", oldEra, "")
	for range 4 {
		if got := good[struct{ Repos []string }](w, s, "list_allowed", nil); len(got.Repos) == 0 {
			t.Errorf("list_allowed: %+v", got)
		}
	}
	header := http.Header{"Mcp-Session-Id": {s.ID()}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer nobody"}}
	for range 2 {
		if got := w.post("", header, `{"jsonrpc":"2.0","id":9,"method":"ping"}`); got != http.StatusUnauthorized {
			t.Errorf("without a token: status %d", got)
		}
	}
}

func TestAnAgentSeesItsOwnTreeOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	other := w.launch("other")
	s := w.connect("main", newEra, "")
	for _, key := range []string{"other", string(other.ID), "nobody", "", "agt_nothing", strings.Repeat("x", 5000)} {
		r := w.call(s, "agent_status", args{"agent": key})
		if !r.IsError || !strings.Contains(words(r), "in your tree") || len(words(r)) > 500 {
			t.Errorf("agent_status(%.20q): %s", key, words(r))
		}
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	s := w.connect("main", newEra, "")
	tests := []struct {
		name, tool string
		args       any
		want       string
	}{
		{"missing", "launch_agent", args{"repo": "github.com/me/my-app"}, `"prompt"`},
		{"none", "launch_agent", nil, "it takes repo (string), prompt (string)"},
		{"extra", "launch_agent", args{"repo": "github.com/me/my-app", "prompt": "x", "force": true}, "force"},
		{"extra of none", "list_agents", args{"all": true}, "no arguments"},
		{"wrong type", "launch_agent", args{"repo": 7, "prompt": "x"}, "string"},
		{"null", "launch_agent", args{"repo": nil, "prompt": "x"}, "string"},
		{"empty", "launch_agent", args{"repo": "github.com/me/my-app", "prompt": "  "}, "prompt is empty"},
		{"control characters", "launch_agent", args{"repo": "github.com/me/my-app", "prompt": "a\x1b[31m"}, "control characters"},
		{"right to left", "remind", args{"when": "10m", "message": "a\u202eb"}, "control characters"},
		{"large", "launch_agent", args{"repo": "github.com/me/my-app", "prompt": strings.Repeat("x", 70_000)}, "at most 65536"},
		{"two lines", "run_local_action", args{"action": "backup_script\nlock"}, "is not on the allowlist"},
		{"not allowed", "launch_agent", args{"repo": "github.com/evil/x", "prompt": "x"}, "allowed"},
		{"no repository", "launch_agent", args{"repo": "../../etc/passwd", "prompt": "x"}, "denied: refused"},
		{"no action", "run_local_action", args{"action": "rm -rf"}, "backup_script"},
		{"no time", "remind", args{"when": "soon", "message": "x"}, "denied: refused"},
		{"no reminder", "cancel_reminder", args{"reminder_id": "cmd_1"}, "no reminder"},
	}
	for _, tt := range tests {
		r := w.call(s, tt.tool, tt.args)
		if !r.IsError || !strings.Contains(words(r), tt.want) || len(words(r)) > 700 {
			t.Errorf("%s: error %v, says %q, want %q", tt.name, r.IsError, words(r), tt.want)
		}
	}
	if n := w.cloud.Effects("launch github.com/me/my-app"); n != 0 {
		t.Errorf("%d launches", n)
	}
	header := http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if got := w.post("", header, `{"pad":"`+strings.Repeat("x", 3<<20)+`"}`); got != http.StatusRequestEntityTooLarge && got != http.StatusBadRequest {
		t.Errorf("a huge message: status %d", got)
	}
}

func TestTheBridgeSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	s := w.connect("main", oldEra, "")
	w.slow.Store(true) // else the second is of another turn, in which it may be asked again
	launched := good[mcpserver.Asked](w, s, "launch_agent", args{"repo": "https://github.com/me/my-app", "prompt": "Add a health check.\nThen stop."})
	if launched.Status != "launched" || launched.AgentID == "" || launched.Name == "" {
		t.Fatalf("launch_agent: %+v", launched)
	}
	again := good[mcpserver.Asked](w, s, "launch_agent", args{"repo": "github.com/me/my-app", "prompt": "Add a health check.\nThen stop."})
	if again.Status != "held" || again.Reason == "" {
		t.Errorf("the same launch twice: %+v", again)
	}
	held := good[mcpserver.Asked](w, s, "launch_agent", args{"repo": "github.com/me/careful", "prompt": "Look."})
	if held.Status != "held" {
		t.Errorf("a launch that needs approval: %+v", held)
	}
	w.slow.Store(false)
	if got := good[mcpserver.Asked](w, s, "run_local_action", args{"action": "backup_script"}); got.Status != "requested" {
		t.Errorf("run_local_action: %+v", got)
	}
	reminder := good[mcpserver.Asked](w, s, "remind", args{"when": "2h", "message": "look again"})
	if reminder.Status != "set" || reminder.Due.IsZero() {
		t.Errorf("remind: %+v", reminder)
	}
	good[any](w, s, "cancel_reminder", args{"reminder_id": reminder.CommandID})
	if r := w.call(s, "cancel_reminder", args{"reminder_id": reminder.CommandID}); !r.IsError || !strings.Contains(words(r), "cannot be cancelled any more") {
		t.Errorf("cancel twice: %s", words(r))
	}
	allowed := good[mcpserver.Allowed](w, s, "list_allowed", nil)
	if len(allowed.Repos) != 3 || len(allowed.Actions) != 3 || allowed.Limits.CommandsPerTurn == 0 {
		t.Errorf("list_allowed: %+v", allowed)
	}
	// What was asked for has its one effect, and its result comes as a turn.
	w.until("the results have been told", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: main.ID})
		told := ""
		for _, turn := range turns {
			told += turn.Sent
		}
		return err == nil && strings.Contains(told, launched.Name) && strings.Contains(told, "backup_script")
	})
	if n := w.cloud.Effects("launch github.com/me/my-app"); n != 1 {
		t.Errorf("%d launches, want 1:\n%s", n, strings.Join(w.cloud.Log(), "\n"))
	}
	status := good[mcpserver.AgentView](w, s, "agent_status", args{"agent": launched.Name})
	if status.Relation != "child" || status.Turn == nil || status.Turn.Seq != 1 {
		t.Errorf("agent_status: %+v", status)
	}
}

// get reads a path of the door with an agent's token.
func (w *world) get(path, name string) (body string, status int) {
	w.Helper()
	return w.ask(http.MethodGet, path, name, "")
}

// put uploads as an agent.
func (w *world) put(path, name, body string) (string, int) {
	w.Helper()
	return w.ask(http.MethodPut, path, name, body)
}

func (w *world) ask(method, path, name, content string) (body string, status int) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, strings.TrimSuffix(w.url, "/mcp")+path, strings.NewReader(content))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.secret(name))
	resp, data := w.send(req)
	return string(data), resp.StatusCode
}

// send sends a request and reads the whole answer.
func (w *world) send(req *http.Request) (*http.Response, []byte) {
	w.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp, data
}

// Whoever's token is revoked cannot answer a broadcast any more, and its sender hears of it at once.
func TestNobodyWaitsForWhoLostItsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	w.launch("main")
	w.slow.Store(true) // bob must not end its turn, which is a word of its own, before it loses its token
	boss := w.connect("main", newEra, "")
	var ids [2]bridge.AgentID
	for i, name := range []string{"ann", "bob"} {
		child := good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": name, "instructions": "Work as " + name, "repo": "github.com/me/my-app"})
		ids[i] = bridge.AgentID(child.AgentID)
		w.mint(bridge.Agent{ID: ids[i], Name: name})
	}
	good[any](w, w.connect("ann", newEra, ""), "broadcast", args{"text": "Votes, please.", "joined": true})
	if _, err := w.tokens.Revoke(t.Context(), ids[1], ""); err != nil {
		t.Fatal(err)
	}
	w.until("the word waits for ann", func(tx *bridge.Scene) bool {
		waiting, err := tx.WaitingNotices(ids[0], 10)
		return err == nil && len(waiting) > 0
	})
	w.slow.Store(false)
	w.until("ann is told", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: ids[0], Limit: 1})
		return err == nil && len(turns) == 1 && strings.Contains(turns[0].Sent, "none from bob (its token was revoked)")
	})
}
