package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/internal/httpx"
	"drawbridge/policy"
)

// route is a path template and a method that the API takes there.
type route struct{ template, method string }

// path is a path that the template matches, of things that are not there.
func (r route) path() string {
	return strings.NewReplacer("{id}", "x", "{user}", "x").Replace(r.template)
}

// routes are all routes of the API, one for each method.
func routes(t *testing.T, h *api.Handler) (all []route) {
	t.Helper()
	err := h.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := r.GetMethods()
		for _, method := range methods {
			all = append(all, route{template, method})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every route but the open one refuses without the right token, whatever it is
// sent with, and does so before it looks at anything else.
func TestEveryRouteNeedsTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := 0
	for _, route := range routes(t, w.handler) {
		seen++
		for name, header := range map[string]http.Header{
			"no token": {}, "wrong token": {"X-Bridge-Token": {"x"}}, "empty token": {"X-Bridge-Token": {""}},
			"wrong scheme": {"Authorization": {"Basic " + testToken}}, "in a cookie": {"Cookie": {"x-bridge-token=" + testToken}},
			"one of two wrong": {"X-Bridge-Token": {testToken, "x"}},
		} {
			r := httptest.NewRequest(route.method, route.path()+"?token="+testToken, nil)
			r.Header = header
			rec := serveDirect(w.handler, r)
			want := http.StatusUnauthorized
			if route.template == "/health" || route.template == "/healthz" {
				want = http.StatusOK
			}
			challenge := rec.Header().Get("WWW-Authenticate")
			shown := name == "wrong token" || name == "one of two wrong"
			if want == http.StatusUnauthorized && (challenge == "" || strings.Contains(challenge, `error="invalid_token"`) != shown) {
				t.Errorf("%+v with %s: challenge %q", route, name, challenge)
			}
			if rec.Code != want {
				t.Errorf("%+v with %s: %d", route, name, rec.Code)
			}
		}
	}
	if seen < 20 {
		t.Fatalf("%d routes", seen)
	}
}

// A path that is not a route is 404 for everybody, under every method and with
// whatever token, and reaches nothing: clients of MCP that look for OAuth go on
// with their token only then.
func TestUnknownPathsAreNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/nowhere", "/health/", "//health", "/health/../v1/status", "/hooks/../v1/status", "/hooks", "/v1", "/v1/", "/v1/agents/x/y/z", "/register", "/authorize", "/token",
		"/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration", "/favicon.ico", "/v1%2fstatus"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			for name, header := range map[string]http.Header{"no token": {}, "wrong token": {"Authorization": {"Bearer x"}}, "the token": {"X-Bridge-Token": {testToken}}} {
				r := rawRequest(method, path)
				r.Header = header
				rec := serveDirect(w.handler, r)
				if rec.Code != http.StatusNotFound || rec.Header().Get("WWW-Authenticate") != "" {
					t.Errorf("%s %s with %s: %d, challenge %q", method, path, name, rec.Code, rec.Header().Get("WWW-Authenticate"))
				}
			}
		}
	}
	// A method that a route does not take is not told to strangers.
	if rec := serveDirect(w.handler, rawRequest(http.MethodDelete, "/v1/agents")); rec.Code != http.StatusUnauthorized {
		t.Errorf("DELETE /v1/agents without a token: %d", rec.Code)
	}
}

// rawRequest is a request whose path nobody cleaned.
func rawRequest(method, path string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path, r.RequestURI = path, path
	return r
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	hooks := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w := newWorld(t, func(o *api.Options) { o.Webhooks = hooks })
	tests := []struct {
		method, path string
		want         int
		allow        string
	}{
		{"GET", "/health", 200, ""},
		{"GET", "/healthz", 200, ""},
		{"HEAD", "/v1/status", 200, ""},
		{"POST", "/health", 405, "GET, HEAD"},
		{"DELETE", "/v1/agents", 405, "GET, HEAD, POST"},
		{"PUT", "/chat", 405, "POST"},
		{"GET", "/v1/commands/x/approve", 405, "POST"},
		{"OPTIONS", "/v1/agents", 405, "GET, HEAD, POST"},
		{"GET", "/v1", 404, ""},
		{"GET", "/v1/agents/", 404, ""},
		{"GET", "//v1/agents", 404, ""},
		{"GET", "/v1//agents", 404, ""},
		{"GET", "/v1/./agents", 404, ""},
		{"GET", "/v1/x/../agents", 404, ""},
		{"GET", "/v1%2fagents", 404, ""},
		{"GET", "/v1/agents%2fx", 404, ""},
		{"GET", "/v1/agents/a%2fturns", 404, ""},
		{"POST", "//chat", 404, ""},
		{"POST", "/hooks/cursor/k/x", 418, ""},
		{"GET", "/hooks/../v1/agents", 418, ""},
	}
	for _, tt := range tests {
		code, body, header := w.call(t, tt.method, tt.path, "")
		if code != tt.want || header.Get("Allow") != tt.allow || header.Get("Location") != "" {
			t.Errorf("%s %s: %d, Allow %q: %s", tt.method, tt.path, code, header.Get("Allow"), body)
		}
		// "no such path" and not "no agent": such a path reaches no handler.
		if code == 404 || code == 405 {
			if e := decode[httpx.ErrorBody](t, body); code == 404 && e.Error.Message != "no such path" {
				t.Errorf("%s %s: %s", tt.method, tt.path, body)
			}
		}
	}
	if log := w.log.String(); strings.Contains(log, testToken) || strings.Contains(log, `"status":418`) || !strings.Contains(log, `"status":405`) {
		t.Errorf("log: %s", log)
	}
}

func TestBrowsersFromElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, header := range map[string][]string{
		"origin": {"Origin", "https://evil.example"}, "fetch": {"Sec-Fetch-Site", "cross-site"},
	} {
		if code, _, h := w.call(t, "POST", "/chat", `{"user_id":"u","message":"m"}`, header...); code != http.StatusForbidden || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d", name, code)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("rebound host: %d", resp.StatusCode)
	}
}

func TestHostileBodiesAndQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	launch := func(fields string) string {
		return `{"name":"a","repo":"` + childRepo + `","prompt":"p"` + fields + `}`
	}
	tests := []struct {
		method, path, body string
		want               int
		says               string
	}{
		{"POST", "/v1/agents", "", 400, "valid JSON"},
		{"POST", "/v1/agents", "{", 400, "valid JSON"},
		{"POST", "/v1/agents", "[]", 400, "JSON object"},
		{"POST", "/v1/agents", "null", 400, "agent name"},
		{"POST", "/v1/agents", launch(`,"promt":"x"`), 400, `promt`},
		{"POST", "/v1/agents", launch(`,"Prompt":"x"`), 400, `Prompt`},
		{"POST", "/v1/agents", launch(`,"prompt":"x"`), 400, `prompt`},
		{"POST", "/v1/agents", launch(`}{`), 400, "valid JSON"},
		{"POST", "/v1/agents", `{"name":5}`, 400, `name`},
		{"POST", "/v1/agents", launch(`,"api":"v2"`), 400, "v0 or v1"},
		{"POST", "/v1/agents", launch(`,"ref":"a\nb"`), 400, "ref"},
		{"POST", "/v1/agents", `{"name":"../x","repo":"` + childRepo + `","prompt":"p"}`, 400, "agent name"},
		{"POST", "/v1/agents", `{"name":"a","repo":"github.com/evil/x","prompt":"p"}`, 403, "allowlist"},
		{"POST", "/v1/agents", `{"name":"a","repo":"https://github.com@evil.example/x/y","prompt":"p"}`, 403, "not a repository"},
		{"POST", "/v1/agents", `{"name":"` + strings.Repeat("a", 3<<20) + `"}`, 413, "bytes"},
		{"POST", "/v1/agents/nobody/turns", `{"text":"x"}`, 404, "nobody"},
		{"GET", "/v1/agents/" + strings.Repeat("a", 300), "", 404, "300 bytes"},
		{"GET", "/v1/agents/agt_x", "", 404, "agt_x"},
		{"GET", "/v1/agents/%ff", "", 400, "percent escapes"},
		{"GET", "/v1/turns/trn_x", "", 404, "trn_x"},
		{"GET", "/v1/commands/cmd_x", "", 404, "cmd_x"},
		{"POST", "/v1/commands/cmd_x/approve", "", 404, "cmd_x"},
		{"POST", "/v1/commands/cmd_x/approve", `{"x":1}`, 400, "x"},
		{"POST", "/v1/commands/cmd_x/deny", `{"reason":"r"}`, 404, "cmd_x"},
		{"POST", "/v1/commands/cmd_x/deny", `{"Reason":"r"}`, 400, "Reason"},
		{"GET", "/v1/agents?state=asleep", "", 400, "idle"},
		{"GET", "/v1/agents?stat=idle", "", 400, "stat"},
		{"GET", "/v1/agents?state=idle&state=busy", "", 400, "twice"},
		{"GET", "/v1/agents?limit=0", "", 400, "limit"},
		{"GET", "/v1/agents?limit=-1", "", 400, "limit"},
		{"GET", "/v1/agents?limit=1e3", "", 400, "limit"},
		{"GET", "/v1/agents?limit=%zz", "", 400, "encoded"},
		{"GET", "/v1/events?after=-1", "", 400, "after"},
		{"GET", "/v1/events?after=99999999999999999999", "", 400, "after"},
		{"GET", "/v1/commands?turn=a&before=b", "", 400, "together"},
		{"POST", "/chat", `{"message":"m"}`, 400, "user_id"},
		{"POST", "/chat", `{"user_id":"u"}`, 400, "message"},
		{"POST", "/chat", `{"user_id":"u","message":"a","text":"b"}`, 400, "differ"},
		{"POST", "/chat", `{"user_id":"u\u001f1","message":"a"}`, 400, "user_id"},
		{"POST", "/chat", `{"user_id":"` + strings.Repeat("u", 300) + `","message":"a"}`, 400, "user_id"},
		{"POST", "/chat", `{"user_id":"u","user_ID":"v","message":"a"}`, 400, "user_ID"},
		{"POST", "/chat", `{"user_id":7,"message":"a"}`, 400, "user_id"},
		{"GET", "/agent/nobody", "", 404, "no agent"},
	}
	for _, tt := range tests {
		code, body, _ := w.call(t, tt.method, tt.path, tt.body)
		short := tt.path[:min(len(tt.path), 60)] + " " + tt.body[:min(len(tt.body), 60)]
		if code != tt.want || !strings.Contains(body, tt.says) || len(body) > 1000 {
			t.Errorf("%s %s: %d %s", tt.method, short, code, body)
		}
		if e := decode[httpx.ErrorBody](t, body); e.Error.Kind == "" || e.Error.Message == "" {
			t.Errorf("%s: %s", short, body)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := func() *policy.Policy { return testPolicy(t) }
	for name, o := range map[string]api.Options{
		"no engine":      {Policy: p, Token: testToken},
		"no policy":      {Engine: w.engine, Token: testToken},
		"no token":       {Engine: w.engine, Policy: p},
		"bad public URL": {Engine: w.engine, Policy: p, Token: testToken, PublicURL: "bridge.example.com"},
	} {
		o.Log = zerolog.Nop()
		if _, err := api.New(o); err == nil {
			t.Errorf("%s: a handler was made", name)
		}
	}
}

// No body makes the server fail, and none that two readers could read in two
// ways is taken.
func FuzzLaunchBody(f *testing.F) {
	for _, seed := range []string{`{"name":"a","repo":"r","prompt":"p"}`, `{"name":"a","NAME":"b"}`, `{}`, `null`, `[`, `{"name":1}`, "\xff", `{"name":"a","x":{"y":[1,2,{"z":null}]}}`} {
		f.Add(seed)
	}
	var h http.Handler
	f.Fuzz(func(t *testing.T, body string) {
		if h == nil {
			h = deadEnd(t)
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/agents", strings.NewReader(body))
		r.Header.Set("X-Bridge-Token", testToken)
		w := serveDirect(h, r)
		// The empty policy refuses every launch, so a well-formed body ends at 400 or 403.
		if w.Code < 400 || w.Code >= 500 {
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		if w.Code == http.StatusForbidden {
			keys := map[string]any{}
			if err := json.Unmarshal([]byte(body), &keys); err != nil {
				t.Fatalf("%q was taken: %v", body, err)
			}
			for k := range keys {
				switch k {
				case "name", "repo", "ref", "prompt", "api":
				default:
					t.Errorf("%q was taken with key %q", body, k)
				}
			}
		}
	})
}

// Every route refuses a query that it does not read, and a key that is given twice: ignoring it, or taking the first value,
// may do something else than the caller meant. Monitors may add theirs to the three open routes.
func TestEveryRouteRefusesUnknownQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := 0
	for _, route := range routes(t, w.handler) {
		open := route.template == "/health" || route.template == "/healthz" || route.template == "/metrics"
		for _, query := range []string{"nosuch=1", "limit=1&limit=2", "Limit=1", "limit=1;after=2", "a=%zz"} {
			seen++
			code, body, _ := w.call(t, route.method, route.path()+"?"+query, "{}")
			if refused := code == http.StatusBadRequest && (route.method == http.MethodHead || strings.Contains(body, "query")); refused == open {
				t.Errorf("%+v?%s: %d %s", route, query, code, body)
			}
		}
	}
	if seen < 200 {
		t.Fatalf("%d requests", seen)
	}
}

// TestPageNamesEveryRoute: docs/reference/http-api.md has each route. In a row, … stands for a path that stands in front of it, or for its folder.
func TestPageNamesEveryRoute(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/reference/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`\{[^}/]*\}`)
	named := map[string]bool{}
	for row := range strings.SplitSeq(string(page), "\n") {
		var bases []string
		for _, span := range regexp.MustCompile("`[^`]+`").FindAllString(row, -1) {
			for word := range strings.FieldsSeq(place.ReplaceAllString(strings.Trim(span, "`"), "{}")) {
				path, _, _ := strings.Cut(word, "?")
				rest, short := strings.CutPrefix(path, "…")
				switch {
				case strings.HasPrefix(path, "/"):
					bases = append(bases, path)
					named[path] = true
				case short && strings.HasPrefix(rest, "/"):
					for _, base := range bases {
						named[base+rest], named[base[:strings.LastIndexByte(base, '/')]+rest] = true, true
					}
				}
			}
		}
	}
	for _, route := range routes(t, newWorld(t).handler) {
		if !named[place.ReplaceAllString(route.template, "{}")] {
			t.Errorf("the page does not have %s %s", route.method, route.template)
		}
	}
}
