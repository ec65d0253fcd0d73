package httpx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	guard, err := httpx.NewGuard("https://bridge.example.com", "public_url")
	if err != nil {
		t.Fatal(err)
	}
	base, _ := serve(t, httpx.ServerOptions{Handler: guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	port := u.Port()
	tests := []struct {
		name, host string
		headers    http.Header
		want       int
	}{
		{"listen address", u.Host, nil, 204},
		{"localhost", "localhost:" + port, nil, 204},
		{"localhost in capitals", "LOCALHOST:" + port, nil, 204},
		{"IPv6 loopback", "[::1]:" + port, nil, 204},
		{"public URL", "bridge.example.com", nil, 204},
		{"public URL with its port", "bridge.example.com:443", nil, 204},
		{"rebound name", "evil.example:" + port, nil, 403},
		{"public name with another port", "bridge.example.com:" + port, nil, 403},
		{"name that begins like ours", "localhost.evil.example:" + port, nil, 403},
		{"trailing dot", "localhost.:" + port, nil, 403},
		{"other port", "127.0.0.1:1", nil, 403},
		{"no port", "127.0.0.1", nil, 403},
		{"other loopback spelling", "127.1:" + port, nil, 403},
		{"own origin", u.Host, http.Header{"Origin": {base}}, 204},
		{"public origin", "bridge.example.com", http.Header{"Origin": {"https://bridge.example.com"}}, 204},
		{"public origin over http", u.Host, http.Header{"Origin": {"http://bridge.example.com"}}, 403},
		{"foreign origin", u.Host, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"null origin", u.Host, http.Header{"Origin": {"null"}}, 403},
		{"origin of another port", u.Host, http.Header{"Origin": {"http://127.0.0.1:1"}}, 403},
		{"origin that begins like ours", u.Host, http.Header{"Origin": {base + ".evil.example"}}, 403},
		{"two origins", u.Host, http.Header{"Origin": {base, "https://evil.example"}}, 403},
		{"same-origin fetch", u.Host, http.Header{"Sec-Fetch-Site": {"same-origin"}}, 204},
		{"typed address", u.Host, http.Header{"Sec-Fetch-Site": {"none"}}, 204},
		{"cross-site fetch", u.Host, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"same-site fetch", u.Host, http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"two fetch words", u.Host, http.Header{"Sec-Fetch-Site": {"none", "cross-site"}}, 403},
		{"a link from elsewhere to a whole page", u.Host, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, 204},
		{"the same into a frame", u.Host, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}, 403},
		{"the same under another Host", "evil.example", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, 403},
	}
	c := client(t)
	for _, tt := range tests {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		for k, v := range tt.headers {
			req.Header[k] = v
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, resp.StatusCode, tt.want)
		}
	}
}

func TestNewGuardRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"bridge.example.com", "ftp://x", "https://", "https://u:p@x", "://", "/path"} {
		if _, err := httpx.NewGuard(bad, "public_url"); err == nil {
			t.Errorf("%q was taken for a public URL", bad)
		}
	}
}

func TestPlainPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/": true, "/v1/agents": true, "/v1/agents/a%20b": true, "/v1/%61gents": true,
		"/v1//agents": false, "//v1": false, "/v1/agents/": false, "/v1/../x": false, "/v1/./x": false, "/v1/%2e%2e/x": false, "/v1/%2E/x": false,
		"/v1/a%2fb": false, "/v1/a%2Fb": false, "/v1/a%5cb": false, "/v1/a%00b": false, "*": false,
	} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := httpx.PlainPath(u); got != want {
			t.Errorf("PlainPath(%q) = %v", path, got)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	const secret = "a-token-of-the-bridge"
	token, err := httpx.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		headers http.Header
		want    bool
	}{
		{"none", nil, false},
		{"own header", http.Header{"X-Bridge-Token": {secret}}, true},
		{"bearer", http.Header{"Authorization": {"Bearer " + secret}}, true},
		{"bearer in small letters", http.Header{"Authorization": {"bearer " + secret}}, true},
		{"both right", http.Header{"Authorization": {"Bearer " + secret}, "X-Bridge-Token": {secret}}, true},
		{"both, one wrong", http.Header{"Authorization": {"Bearer x"}, "X-Bridge-Token": {secret}}, false},
		{"twice, one wrong", http.Header{"X-Bridge-Token": {secret, "x"}}, false},
		{"basic", http.Header{"Authorization": {"Basic " + secret}}, false},
		{"no scheme", http.Header{"Authorization": {secret}}, false},
		{"empty", http.Header{"X-Bridge-Token": {""}}, false},
		{"prefix", http.Header{"X-Bridge-Token": {secret[:5]}}, false},
		{"longer", http.Header{"X-Bridge-Token": {secret + "x"}}, false},
		{"other case", http.Header{"X-Bridge-Token": {strings.ToUpper(secret)}}, false},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = tt.headers
		if got := token.Allows(r); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	for _, bad := range []string{"", " ", "\t\n"} {
		if _, err := httpx.NewToken(bad); err == nil {
			t.Errorf("token %q was taken", bad)
		}
	}
}

func TestRequestLog(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		status  int
		want    map[string]any
	}{
		{"plain read", func(w http.ResponseWriter, r *http.Request) {
			rec := httpx.RecordOf(r.Context())
			rec.Route = "/x/{id}"
			rec.Add("agent", "agt_1")
			w.WriteHeader(201)
		}, 201, map[string]any{"level": "debug", "route": "/x/{id}", "agent": "agt_1", "status": 201.0, "path": "/x/1", "method": "GET"}},
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 200, map[string]any{"level": "debug", "status": 200.0}},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, 404, map[string]any{"level": "info", "status": 404.0}},
		{"cause", func(w http.ResponseWriter, r *http.Request) {
			httpx.RecordOf(r.Context()).Err = errors.New("disk full")
			httpx.WriteError(w, 500, "internal", "internal error")
		}, 500, map[string]any{"level": "error", "cause": "disk full", "status": 500.0}},
		{"panic", func(http.ResponseWriter, *http.Request) { panic("boom") }, 500, map[string]any{"level": "error", "cause": "panic: boom", "status": 500.0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			var served []httpx.Served
			h := httpx.RequestLog(httpx.LogOptions{Log: zerolog.New(&out), OnServed: func(s httpx.Served) { served = append(served, s) }}, httpx.Recover(tt.handler))
			r := httptest.NewRequest(http.MethodGet, "/x/1?key=hidden", strings.NewReader("hidden"))
			r.Header.Set("Authorization", "Bearer hidden")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.status || len(served) != 1 || served[0].Status != tt.status {
				t.Errorf("status %d, served %v", w.Code, served)
			}
			if strings.Contains(out.String(), "hidden") || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("log: %s", out.String())
			}
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			for k, v := range tt.want {
				if diff := cmp.Diff(v, line[k]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", k, diff)
				}
			}
			if line["request"] != w.Header().Get("X-Request-Id") {
				t.Error("the answer and the log line have different request ids")
			}
		})
	}
}

func TestRecoverCutsOffHalfAnAnswer(t *testing.T) {
	t.Parallel()
	base, _ := serve(t, httpx.ServerOptions{Handler: httpx.RequestLog(httpx.LogOptions{Log: zerolog.Nop()}, httpx.Recover(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"half":`)
		_ = http.NewResponseController(w).Flush()
		panic("boom")
	})))})
	resp, err := client(t).Get(base)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer %q passes for a whole one", body)
	}
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]error{0: nil, 99: nil, 100: nil, 101: httpx.ErrTooLarge, 100_000: httpx.ErrTooLarge} {
		w := httptest.NewRecorder()
		body, err := httpx.ReadBody(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", n))), 100)
		if !errors.Is(err, want) || (want == nil && len(body) != n) {
			t.Errorf("%d bytes: %d, %v", n, len(body), err)
		}
	}
}

func TestWriteJSONOfABug(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	httpx.WriteJSON(w, http.StatusOK, func() {})
	var body httpx.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusInternalServerError || body.Error.Kind != "internal" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
