package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"drawbridge/bridge"
	"drawbridge/policy"
	"drawbridge/proof/pg"
	"drawbridge/relay/hub"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

const token = "0123456789abcdef0123456789abcdef-hub"

func TestMain(m *testing.M) {
	keeper.Main()
	syscall.Umask(0o077)
	os.Exit(pg.Main(m, func() error { return goleak.Find() }))
}

// grant lets the policy grant an action, which is the only way to a Grant.
func grant(t testing.TB, action, relay string) policy.Grant {
	t.Helper()
	p, problems := policy.New(policy.Rules{Actions: []policy.ActionRule{{ID: action, Relay: relay}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	verdict := p.OperatorAction(action)
	if !verdict.Grant.Valid() {
		t.Fatalf("no grant: %+v", verdict)
	}
	return verdict.Grant
}

func open(t *testing.T, url string) *hub.Hub {
	t.Helper()
	h, err := hub.New(hub.Options{Relays: map[string]hub.Relay{"laptop": {URL: url, Token: token}}, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// realRelay serves a relay of this project.
func realRelay(t *testing.T, actions string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.yaml")
	text := "listen: 127.0.0.1:0\ntoken: " + token + "\nlimits: { per_minute: 3 }\nactions:\n" + actions
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := settings.Load(path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	relay, err := runner.Listen(t.Context(), runner.Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- relay.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + relay.Addr()
}

func TestWithARelay(t *testing.T) {
	t.Parallel()
	h := open(t, realRelay(t, "  both: { argv: [/bin/sh, -c, 'printf 123456; echo no >&2; exit 3'], i_know: true, output: 4 }\n"))
	request := bridge.ActionRequest{Grant: grant(t, "both", "laptop"), Request: "cmd_1"}
	want := bridge.ActionOutcome{Status: bridge.ActionExecuted, ExitCode: 3, Stdout: "3456", Stderr: "no\n", Omitted: 2, HTTPStatus: 200}
	for range 5 { // The same request runs once, or the rate of 3 would be exceeded.
		got, err := h.RunAction(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(bridge.ActionOutcome{}, "Duration")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	got, err := h.RunAction(t.Context(), bridge.ActionRequest{Grant: grant(t, "other", ""), Request: "cmd_2"})
	if err != nil {
		t.Fatal(err)
	}
	want = bridge.ActionOutcome{
		Status: bridge.ActionRefused, ExitCode: -1, HTTPStatus: 403, Error: `action "other" is not on this relay's list`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, id := range []string{"cmd_3", "cmd_4"} {
		if _, err := h.RunAction(t.Context(), bridge.ActionRequest{Grant: request.Grant, Request: id}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = h.RunAction(t.Context(), bridge.ActionRequest{Grant: request.Grant, Request: "cmd_5"})
	if bridge.KindOf(err) != bridge.RateLimited || bridge.IsUnclear(err) || bridge.RetryAfter(err) <= 0 {
		t.Errorf("over the rate: %v, retry after %s", err, bridge.RetryAfter(err))
	}
}

func TestRefusesBeforeSending(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("something was sent") }))
	defer server.Close()
	one := open(t, server.URL)
	two, err := hub.New(hub.Options{Relays: map[string]hub.Relay{"a": {server.URL, token}, "b": {server.URL, token}}})
	if err != nil {
		t.Fatal(err)
	}
	none, err := hub.New(hub.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/me/app"}}})
	launch := p.OperatorGrant("github.com/me/app", "do it").Grant
	tests := []struct {
		name    string
		hub     *hub.Hub
		request bridge.ActionRequest
		want    bridge.ErrorKind
	}{
		{"zero grant", one, bridge.ActionRequest{Request: "x"}, bridge.Denied},
		{"grant of a launch", one, bridge.ActionRequest{Grant: launch, Request: "x"}, bridge.Denied},
		{"no request id", one, bridge.ActionRequest{Grant: grant(t, "a", "")}, bridge.Invalid},
		{"request id with a newline", one, bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "a\nb"}, bridge.Invalid},
		{"unknown relay", one, bridge.ActionRequest{Grant: grant(t, "a", "desk"), Request: "x"}, bridge.NotFound},
		{"which relay", two, bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "x"}, bridge.NotFound},
		{"no relay", none, bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "x"}, bridge.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.hub.RunAction(t.Context(), tt.request)
			if bridge.KindOf(err) != tt.want || bridge.IsUnclear(err) {
				t.Errorf("error %v, want kind %s", err, tt.want)
			}
		})
	}
}

func TestUnreachableIsNotUnclear(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	listener.Close()
	request := bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "x"}
	_, err = open(t, url).RunAction(t.Context(), request)
	if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) {
		t.Errorf("error %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = open(t, url).RunAction(canceled, request)
	if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// What is sent, exactly once, whatever the other side does with it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/run")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = w.Write(bytes.Repeat([]byte(" "), 1<<16))
		}
	}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	refused := `{"action":"a","status":"refused","error":"why not","exit_code":-1}`
	executed := `{"action":"a","status":"executed","exit_code":0,"duration_ms":1500}`
	tests := []struct {
		name    string
		handler http.HandlerFunc
		// want is the kind of the error, or "" and status for an outcome.
		want    bridge.ErrorKind
		unclear bool
		status  bridge.ActionStatus
	}{
		{"executed", answer(200, executed), "", false, bridge.ActionExecuted},
		{"timed out", answer(200, `{"action":"a","status":"timed_out"}`), "", false, bridge.ActionTimedOut},
		{"failed", answer(200, `{"action":"a","status":"failed"}`), "", false, bridge.ActionFailed},
		{"newer relay", answer(200, `{"action":"a","status":"executed","more":{"x":1}}`), "", false, bridge.ActionExecuted},
		{"refused", answer(403, refused), "", false, bridge.ActionRefused},
		{"wrong token", answer(401, refused), bridge.Unauthenticated, false, ""},
		{"id used for another action", answer(409, refused), bridge.Conflict, false, ""},
		{"interrupted", answer(200, `{"action":"a","status":"interrupted","error":"it may have run"}`), bridge.Conflict, true, ""},
		{"interrupted on another status", answer(409, `{"action":"a","status":"interrupted"}`), bridge.Conflict, true, ""},
		{"interrupted for another action", answer(200, `{"action":"b","status":"interrupted"}`), bridge.Conflict, true, ""},
		{"rate", answer(429, refused), bridge.RateLimited, false, ""},
		{"queue", answer(503, refused), bridge.Unavailable, false, ""},
		{"protocol", answer(415, refused), bridge.Invalid, false, ""},
		{"connection lost", abort, bridge.Unavailable, true, ""},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, executed[:20])
		}, bridge.Unavailable, true, ""},
		{"not recorded", answer(500, `{"action":"a","status":"failed"}`), bridge.Unavailable, true, ""},
		{"gateway", answer(502, `bad gateway`), bridge.Unavailable, true, ""},
		{"not JSON", answer(200, `ok`), bridge.Unavailable, true, ""},
		{"two readings", answer(200, `{"action":"a","status":"refused","Status":"executed"}`), bridge.Unavailable, true, ""},
		{"unknown status", answer(200, `{"action":"a","status":"done"}`), bridge.Unavailable, true, ""},
		{"other action", answer(200, `{"action":"b","status":"executed"}`), bridge.Unavailable, true, ""},
		{"endless", endless, bridge.Unavailable, true, ""},
		{"redirect", answer(307, ``), bridge.Unavailable, false, ""},
		{"not a relay", answer(404, `404 page not found`), bridge.Unavailable, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var seen []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body bytes.Buffer
				_, _ = body.ReadFrom(r.Body)
				seen = append(seen, fmt.Sprintln(r.Method, r.URL, r.Header["Authorization"], r.Header[wire.RequestIDHeader],
					r.Header["Content-Type"], r.Header["Origin"], strings.TrimSpace(body.String())))
				tt.handler(w, r)
			}))
			got, err := open(t, server.URL).RunAction(t.Context(), bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "cmd_1"})
			server.Close()
			if bridge.KindOf(err) != tt.want || bridge.IsUnclear(err) != tt.unclear || got.Status != tt.status {
				t.Errorf("outcome %+v, error %v, unclear %v; want kind %q, unclear %v", got, err, bridge.IsUnclear(err), tt.want, tt.unclear)
			}
			if wait := bridge.RetryAfter(err); (tt.want == bridge.RateLimited) && wait != 7*time.Second {
				t.Errorf("retry after %s", wait)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("the error prints the token: %v", err)
			}
			want := []string{"POST /run [Bearer " + token + `] [cmd_1] [application/json] [] {"action":"a"}` + "\n"}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswerThatNeverComes(t *testing.T) {
	t.Parallel()
	began, free := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-free
	}))
	defer server.Close()
	defer close(free)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	_, err := open(t, server.URL).RunAction(ctx, bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "x"})
	if !bridge.IsUnclear(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// The environment's proxy would see the token and every action.
func TestNoProxy(t *testing.T) {
	var proxied atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Store(true) }))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	h, err := hub.New(hub.Options{Relays: map[string]hub.Relay{"far": {"https://relay.invalid", token}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.RunAction(t.Context(), bridge.ActionRequest{Grant: grant(t, "a", ""), Request: "x"})
	proxy.Close()
	if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) || proxied.Load() {
		t.Errorf("error %v, proxied %v", err, proxied.Load())
	}
}

func TestNewChecksRelays(t *testing.T) {
	t.Parallel()
	for url, fine := range map[string]bool{
		"http://127.0.0.1:7420": true, "http://127.0.0.1:7420/": true, "http://[::1]:7420": true, "http://localhost:1": true,
		"https://relay.example": true, "http://relay.example": false, "http://10.0.0.1:7420": false, "ftp://127.0.0.1": false,
		"127.0.0.1:7420": false, "": false, "http://u:p@127.0.0.1:1": false, "http://127.0.0.1:1/run": false,
		"http://127.0.0.1:1?x": false, "http://127.0.0.1.evil.example": false, "http://localhost.evil.example": false,
	} {
		_, err := hub.New(hub.Options{Relays: map[string]hub.Relay{"x": {url, token}}})
		if fine != (err == nil) {
			t.Errorf("%q: error %v, want fine = %v", url, err, fine)
		}
	}
	_, err := hub.New(hub.Options{Relays: map[string]hub.Relay{
		"b": {"http://127.0.0.1:1", "short-secret"}, "a": {"http://evil.example", token}, "c": {"http://127.0.0.1:1", token + "\n"},
	}})
	if err == nil || strings.Count(err.Error(), "relay ") != 3 || strings.Contains(err.Error(), "short-secret") {
		t.Errorf("error %v", err)
	}
	relay := hub.Relay{URL: "http://127.0.0.1:1", Token: token}
	if printed := fmt.Sprintf("%v %+v %#v", relay, relay, relay); strings.Contains(printed, token) {
		t.Errorf("a relay prints as %s", printed)
	}
}
