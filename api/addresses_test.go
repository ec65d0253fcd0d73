package api_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/policy"
)

const agentToken = "dbt_token-of-an-agent"

// keyring knows the token of one agent.
type keyring struct{ agent bridge.AgentID }

func (keyring) Mint(context.Context, bridge.AgentID, string) (string, bridge.DoorToken, error) {
	return "", bridge.DoorToken{}, bridge.Errorf(bridge.Unavailable, "not here")
}
func (keyring) List(context.Context, bridge.AgentID) ([]bridge.DoorToken, error) { return nil, nil }
func (keyring) Revoke(context.Context, bridge.AgentID, bridge.TokenID) (int, error) {
	return 0, nil
}

func (k keyring) Holder(_ context.Context, secret string) (bridge.DoorToken, error) {
	if secret != agentToken {
		return bridge.DoorToken{}, bridge.Errorf(bridge.Unauthenticated, "this token is unknown")
	}
	return bridge.DoorToken{Agent: k.agent, Hash: "h"}, nil
}

// says answers with a word that no other handler has.
func says(word string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, word) })
}

// twoAddresses is a bridge with everything behind it, and the agent whose token agentToken is.
func twoAddresses(t *testing.T) *world {
	t.Helper()
	keys := &keyring{}
	w := newWorld(t, func(o *api.Options) {
		o.Webhooks, o.RelayDoor, o.Door, o.Tokens = says("the receiver"), says("the relays' door"), says("the agents' door"), keys
		o.PublicURL, o.OperatorURL, o.DoorURL, o.MetricsToken = "https://bridge.example.com", "https://ops.example.com", "http://127.0.0.1:7410", "token-of-the-scraper"
	})
	l, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "one", Repo: chatRepo, Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	keys.agent = bridge.AgentID(l.Agent.ID)
	return w
}

// credentials are ways to come with a token, and with none.
func credentials() map[string]http.Header {
	return map[string]http.Header{
		"no token": {}, "a wrong token": {"Authorization": {"Bearer x"}}, "the operator's token": {"X-Bridge-Token": {testToken}},
		"the operator's token as a bearer": {"Authorization": {"Bearer " + testToken}}, "the scraper's token": {"Authorization": {"Bearer token-of-the-scraper"}},
		"an agent's token": {"Authorization": {"Bearer " + agentToken}},
	}
}

// operatorPaths are the routes with a path that could match, with their methods, but for those that both addresses serve.
func operatorPaths(t *testing.T, h *api.Handler) map[string][]string {
	t.Helper()
	paths := map[string][]string{}
	for _, r := range routes(t, h) {
		path := strings.NewReplacer("{id}", "one", "{user}", "u").Replace(r.template)
		paths[path] = append(paths[path], r.method)
	}
	if len(paths) < 20 {
		t.Fatalf("%d paths", len(paths))
	}
	for _, both := range []string{"/health", "/healthz", "/events"} {
		if paths[both] == nil {
			t.Fatalf("%s is not a route", both)
		}
		delete(paths, both)
	}
	return paths
}

// request calls a handler and returns the answer without the request's own id.
func request(h http.Handler, method, path string, header http.Header) (code int, answer string) {
	r := rawRequest(method, path)
	r.Header = header.Clone()
	rec := serveDirect(h, r)
	rec.Header().Del("X-Request-Id")
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(rec.Header())) {
		lines = append(lines, fmt.Sprint(key, rec.Header()[key]))
	}
	return rec.Code, strings.Join(append(lines, rec.Body.String()), "\n")
}

// A stranger at the public address cannot tell whether a bridge has an operator's API at all, and the operator's token opens
// nothing there: each route answers byte for byte like a path that never was.
func TestPublicAddressHidesTheOperatorsAPI(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	public := w.handler.Public()
	paths := slices.Collect(maps.Keys(operatorPaths(t, w.handler)))
	paths = append(paths, "/v1", "/v1/", "/v1%2fagents", "//v1/agents", "/v1/../v1/agents", "/chat/", "/CHAT", "/Metrics", "/metrics/", "/health/../metrics")
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			for name, header := range credentials() {
				code, answer := request(public, method, path, header)
				wantCode, want := request(public, method, "/nowhere-"+strings.Repeat("x", 8), header)
				if code != http.StatusNotFound || wantCode != code || answer != want {
					t.Errorf("%s %s with %s: %d\n%s\nand a path that never was: %d\n%s", method, path, name, code, answer, wantCode, want)
				}
			}
		}
	}
	for _, word := range []string{"operator", "token", "bridge.yaml", "/v1"} {
		if _, answer := request(public, "GET", "/v1/agents", nil); strings.Contains(answer, word) {
			t.Errorf("the answer holds %q: %s", word, answer)
		}
	}
}

// The opposite: each of these routes is there at the operator's address, and at the only address of a bridge with one.
func TestOperatorAddressServesTheOperatorsAPI(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	for name, h := range map[string]http.Handler{"the operator's": w.handler.Operator(), "the only": w.handler} {
		for path, methods := range operatorPaths(t, w.handler) {
			for _, method := range methods {
				if code, _ := request(h, method, path, nil); code != http.StatusUnauthorized {
					t.Errorf("%s address: %s %s without a token: %d", name, method, path, code)
				}
				if code, _ := request(h, method, path, http.Header{"Authorization": {"Bearer " + agentToken}}); code != http.StatusUnauthorized {
					t.Errorf("%s address: %s %s with an agent's token: %d", name, method, path, code)
				}
			}
		}
		for _, path := range []string{"/v1/status", "/v1/agents", "/v1/agents/one", "/metrics", "/v1/allowed"} {
			if code, answer := request(h, "GET", path, http.Header{"X-Bridge-Token": {testToken}}); code != http.StatusOK {
				t.Errorf("%s address: %s with the token: %d %s", name, path, code, answer)
			}
		}
		if code, _ := request(h, "GET", "/metrics", http.Header{"Authorization": {"Bearer token-of-the-scraper"}}); code != http.StatusOK {
			t.Errorf("%s address: /metrics with the scraper's token: %d", name, code)
		}
		if code, answer := request(h, "GET", "/nowhere", nil); code != http.StatusNotFound || !strings.Contains(answer, "no such path") {
			t.Errorf("%s address: a path that never was: %d %s", name, code, answer)
		}
	}
}

// Agents, webhooks and relays have the public address and the only one. At the operator's none of them gets through, and the
// answer says where to go.
func TestProgramsHaveThePublicAddress(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	for path, word := range map[string]string{
		"/mcp": "the agents' door", "/mcp/team": "the agents' door", "/mcp/files/fil_1": "the agents' door", "/hooks/cursor/k/o": "the receiver",
		"/hooks/": "the receiver", "/relay/connect": "the relays' door", "/relay/join": "the relays' door", "/relay/../v1/agents": "the relays' door",
	} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for name, header := range credentials() {
				for address, h := range map[string]http.Handler{"public": w.handler.Public(), "only": w.handler} {
					if code, answer := request(h, method, path, header); code != http.StatusOK || !strings.HasSuffix(answer, word) {
						t.Errorf("%s address, %s %s with %s: %d %s", address, method, path, name, code, answer)
					}
				}
				code, answer := request(w.handler.Operator(), method, path, header)
				if code != http.StatusNotFound || !strings.Contains(answer, `"kind":"not_found"`) || !strings.Contains(answer, "`listen` in bridge.yaml") || strings.Contains(answer, "7410") {
					t.Errorf("the operator's address, %s %s with %s: %d %s", method, path, name, code, answer)
				}
			}
		}
	}
}

func TestBothAddressesAnswerHealth(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	for name, h := range map[string]http.Handler{"public": w.handler.Public(), "operator": w.handler.Operator(), "only": w.handler} {
		for _, path := range []string{"/health", "/healthz"} {
			if code, answer := request(h, "GET", path, nil); code != http.StatusOK || !strings.HasSuffix(answer, "{\"ok\":true}\n") {
				t.Errorf("%s %s: %d %s", name, path, code, answer)
			}
			if code, _ := request(h, "POST", path, nil); code != http.StatusMethodNotAllowed {
				t.Errorf("%s POST %s: %d", name, path, code)
			}
		}
	}
}

// /events serves two kinds of readers, each with a token of its own: agents at the public address, the operator at the other.
func TestEventsBelongToTheAddressOfTheirToken(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	operator, agent := http.Header{"Authorization": {"Bearer " + testToken}}, http.Header{"Authorization": {"Bearer " + agentToken}}
	for name, tt := range map[string]struct {
		h      http.Handler
		header http.Header
		want   int
	}{
		"agent at the public address": {w.handler.Public(), agent, 200}, "agent at the operator's": {w.handler.Operator(), agent, 401}, "agent at the only one": {w.handler, agent, 200},
		"operator at the public address": {w.handler.Public(), operator, 401}, "operator at its own": {w.handler.Operator(), operator, 200}, "operator at the only one": {w.handler, operator, 200},
		"operator's own header at the public address": {w.handler.Public(), http.Header{"X-Bridge-Token": {testToken}}, 401},
		"nobody at the public address":                {w.handler.Public(), nil, 401}, "nobody at the operator's": {w.handler.Operator(), nil, 401},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", "/events", nil)
		r.Header = tt.header.Clone()
		rec := &firstFlush{httptest.NewRecorder(), cancel}
		tt.h.ServeHTTP(rec, r)
		cancel()
		if rec.Code != tt.want || (tt.want == 200) != strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		if strings.Contains(name, "public") && (strings.Contains(rec.Body.String(), "operator") || strings.Contains(rec.Body.String(), "bridge.yaml")) {
			t.Errorf("%s reads of the operator: %s", name, rec.Body)
		}
	}
}

// firstFlush ends a stream as soon as its head is sent.
type firstFlush struct {
	*httptest.ResponseRecorder
	sent func()
}

// Flush implements http.Flusher.
func (w *firstFlush) Flush() {
	w.ResponseRecorder.Flush()
	w.sent()
}

// Each address has one name from outside, and a name of the other does not count: a page on public_url must not reach the
// operator's address by a name that is bound to loopback.
func TestEachAddressHasItsOwnName(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	servers, err := httpx.ListenAll(t.Context(), httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: w.handler.Public(), Log: zerolog.Nop()},
		httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: w.handler.Operator(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- servers.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for i, tt := range []struct {
		server     int
		host, says string
		want       int
	}{
		{0, "bridge.example.com", "", 200}, {0, "ops.example.com", "set public_url", 403}, {0, "evil.example", "set public_url", 403}, {0, "", "", 200},
		{1, "ops.example.com", "", 200}, {1, "bridge.example.com", "set operator.url", 403}, {1, "evil.example", "set operator.url", 403}, {1, "", "", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+servers[tt.server].Addr().String()+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.want || !strings.Contains(string(body), tt.says) {
			t.Errorf("%d: Host %q: %d %s %v", i, tt.host, resp.StatusCode, body, err)
		}
	}
}

// A command that calls the public address hears which one to use, although the address itself says nothing.
func TestClientSaysWhichAddressToUse(t *testing.T) {
	t.Parallel()
	w := twoAddresses(t)
	for name, tt := range map[string]struct {
		h    http.Handler
		says string
	}{"public": {w.handler.Public(), "use the address under operator.listen"}, "operator": {w.handler.Operator(), ""}} {
		server := httptest.NewServer(tt.h)
		defer server.Close()
		c, err := api.NewClient(api.ClientOptions{URL: server.URL, Token: testToken})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		status, err := c.Status(t.Context())
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(bridge.SafeMessage(err), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && status.DoorURL != "http://127.0.0.1:7410" {
			t.Errorf("%s: door URL %q", name, status.DoorURL)
		}
	}
}

func TestNewRefusesWrongOperatorURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := testPolicy(t)
	_, err := api.New(api.Options{Engine: w.engine, Policy: func() *policy.Policy { return p }, Token: testToken, OperatorURL: "ops.example.com"})
	if err == nil || !strings.Contains(err.Error(), "operator.url") {
		t.Errorf("operator.url without a scheme: %v", err)
	}
}
