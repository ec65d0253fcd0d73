package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/bridge"
)

// noFaults fails when the log of requests has an error or a 5xx.
func noFaults(t *testing.T, what, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"status":5`) {
			t.Errorf("%s: %s", what, line)
		}
	}
}

// TestMistakesOfClientsAreNoFaults: no mistake of a client is answered as 5xx or logged at error level.
func TestMistakesOfClientsAreNoFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Chat.Repo, o.Chat.PerMinute = "", 2 })
	if _, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "one", Repo: chatRepo, Prompt: "p"}); err != nil {
		t.Fatal(err)
	}
	long := `{"name":"` + strings.Repeat("x", 3<<20) + `"}`
	bodies := []string{"", "no json", "{", "[]", "null", `"x"`, "{}", `{"name":1}`, `{"name":"a","NAME":"b"}`, `{"name":"a"}{}`, "\xff\xfe", "\x00", long, `{"unknown":true}`,
		strings.Repeat("[", 5000), `{"name":"one","repo":"` + chatRepo + `","prompt":"p"}`, `{"name":"two","repo":"github.com/evil/x","prompt":"p"}`, `{"name":"operator","repo":"` + chatRepo + `","prompt":"p"}`,
		`{"user_id":"u","message":"m"}`, `{"text":""}`, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, `{"hash":"x"}`}
	for _, path := range []string{"/chat", "/chat?async=true", "/v1/agents", "/v1/agents/one/turns", "/v1/agents/none/turns", "/v1/agents/one/stop", "/v1/agents/one/forget", "/v1/agents/one/join", "/v1/agents/none/resume",
		"/v1/commands/cmd_x/approve", "/v1/commands/cmd_x/deny", "/v1/commands/cmd_x/resolve", "/v1/commands/cmd_x/cancel", "/v1/turns/trn_x/continue", "/v1/turns/trn_x/say-again", "/v1/turns/trn_x/give-up", "/v1/turns/trn_x/resolve", "/v1/restored", "/v1/none", "/agent/u", "/metrics"} {
		for _, body := range bodies {
			if code, answer, _ := w.call(t, http.MethodPost, path, body); code >= 500 {
				t.Errorf("POST %s %.40q: %d %s", path, body, code, answer)
			}
		}
	}
	for _, path := range []string{"/agent/u?after=x", "/agent/%zz", "/agent/%ff", "/agent/..%2f..", "/v1/agents?limit=-1", "/v1/agents?state=x", "/v1/agents?before=" + strings.Repeat("x", 4000), "/v1/agents/%00", "/v1/agents/" + strings.Repeat("x", 300),
		"/v1/agents/%f0%9f%92%a9", "/v1/turns/%ff", "/v1/turns/x/run?after=x", "/v1/commands?agent=%ff", "/v1/commands?turn=x&turn=y", "/v1/events?after=x", "/v1/events?after=99999999999", "/v1/agents/one/turns?before=x",
		"/v1//agents", "/v1/../metrics", "/", "/.env", "/.well-known/oauth-authorization-server", "/events?x=y", "/v1/allowed?x", "/v1/relays/none", "/v1/status?x=1;y=2"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW", "TRACE"} {
			for _, token := range []string{testToken, "wrong", ""} {
				r := httptest.NewRequest(method, "/", nil)
				if u, err := r.URL.Parse(path); err == nil {
					r.URL = u
				}
				r.Header.Set("Authorization", "Bearer "+token)
				if a := serveDirect(w.handler, r); a.Code >= 500 {
					t.Errorf("%s %s: %d %s", method, path, a.Code, a.Body)
				}
			}
		}
	}
	noFaults(t, "mistakes", w.log.String())
}

// TestClientsThatLeaveAreNoFaults: a client may leave at any point of a request.
func TestClientsThatLeaveAreNoFaults(t *testing.T) {
	t.Parallel()
	const head = " HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Bridge-Token: " + testToken + "\r\n"
	for name, tt := range map[string]struct {
		send string
		// read is how much of the answer the client takes before it leaves.
		read int
	}{
		"in the middle of a body":    {"POST /chat" + head + "Content-Length: 500\r\n\r\n{\"user_id\"", 0},
		"while /chat waits":          {"POST /chat" + head + "Content-Length: 29\r\n\r\n{\"user_id\":\"u\",\"message\":\"m\"}", 0},
		"after the head of a stream": {"GET /events" + head + "\r\n", 16},
		"in the middle of a stream":  {"GET /v1/events?after=0" + head + "Accept: text/event-stream\r\n\r\n", 300},
		"before a list":              {"GET /v1/agents" + head + "\r\n", 0},
		"in the middle of a list":    {"GET /v1/events?after=0" + head + "\r\n", 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.cloud.set(func(c *cloud) { c.reply = func(string) (string, bridge.RunState) { return "", bridge.RunRunning } })
			if _, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "one", Repo: chatRepo, Prompt: "p"}); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				leave(t, w.url, tt.send, tt.read)
			}
			if err := w.stop(); err != nil {
				t.Error(err)
			}
			noFaults(t, name, w.log.String())
		})
	}
}

// leave sends a part of a request, reads a part of the answer, and resets the connection.
func leave(t *testing.T, url, send string, read int) {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	c, err := net.Dial("tcp", host) //nolint:noctx // the raw socket is the point
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, strings.Replace(send, "Host: 127.0.0.1", "Host: "+host, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, bufio.NewReader(c), int64(read)); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
}

// leavingStore is a database whose callers leave in the middle of each look-up.
type leavingStore struct {
	noStore
	leave func()
	err   error
}

func (s leavingStore) View(context.Context, func(*bridge.Scene) error, ...bridge.Need) error {
	s.leave()
	return s.err
}

// TestWhoLeavesDoesNotHideAFault: for each route a look-up that its caller gave up is 499 and not an error, and one that failed while
// the caller left is an error.
func TestWhoLeavesDoesNotHideAFault(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/agent/x", "/agent/x?after=0", "/v1/agents", "/v1/agents/x", "/v1/agents/x/turns", "/v1/turns/x", "/v1/commands", "/v1/commands/x", "/v1/events"} {
		for _, tt := range []struct {
			err    error
			status int
			level  string
		}{{fmt.Errorf("query: %w", context.Canceled), 499, ""}, {errDown, 500, `"level":"error"`}} {
			log := &lockedBuffer{}
			ctx, cancel := context.WithCancel(t.Context())
			h := onStore(t, leavingStore{leave: cancel, err: tt.err}, func(o *api.Options) { o.Log = zerolog.New(log) })
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			r.Header.Set("Authorization", "Bearer "+testToken)
			w := serveDirect(h, r)
			if w.Code != tt.status || strings.Contains(log.String(), `"level":"error"`) != (tt.level != "") {
				t.Errorf("%s, %v: %d, log %s", path, tt.err, w.Code, log)
			}
		}
	}
}
