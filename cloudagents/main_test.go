package cloudagents_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/policy"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey = "key_0123456789abcdef"
	agentID = "bc-00000000-0000-4000-8000-000000000001"
	myRepo  = "github.com/me/my-app"
)

// seen is a request as the fake API got it.
type seen struct {
	Method, Path, Query string
	Header              http.Header
	Body                map[string]any
}

// fake is an API that answers by method and path, and remembers.
type fake struct {
	*httptest.Server
	mu sync.Mutex
	// routes maps "METHOD /path" to answers, used up in order; the last stays.
	routes map[string][]reply
	got    []seen
}

type reply struct {
	status int
	header map[string]string
	body   string
	// do replaces the whole answer.
	do http.HandlerFunc
}

func newFake(t *testing.T, routes map[string][]reply) *fake {
	t.Helper()
	f := &fake{routes: routes}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP is strict: what no route names is a bug of the client.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := f.next(r)
	if !ok {
		http.Error(w, `{"error":{"code":"test","message":"no such route"}}`, http.StatusTeapot)
		return
	}
	if a.do != nil {
		a.do(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (f *fake) next(r *http.Request) (reply, bool) {
	body, _ := io.ReadAll(r.Body)
	s := seen{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone()}
	_ = json.Unmarshal(body, &s.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, s)
	key := r.Method + " " + r.URL.Path
	list := f.routes[key]
	if len(list) == 0 {
		return reply{}, false
	}
	if len(list) > 1 {
		f.routes[key] = list[1:]
	}
	return list[0], true
}

func (f *fake) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.got...)
}

func (f *fake) count(method string) int {
	n := 0
	for _, s := range f.requests() {
		if s.Method == method {
			n++
		}
	}
	return n
}

func newClient(t *testing.T, url string, with ...func(*cloudagents.Options)) *cloudagents.Client {
	t.Helper()
	opts := cloudagents.Options{BaseURL: url, Key: testKey, Timeout: time.Minute}
	for _, change := range with {
		change(&opts)
	}
	c, err := cloudagents.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func withV0(o *cloudagents.Options) { o.API = bridge.APIv0 }

// hasty is a client that gives up soon, for a server that hangs; what does get its answer has all the time it needs.
func hasty(hangs bool) func(*cloudagents.Options) {
	return func(o *cloudagents.Options) {
		if hangs {
			o.Timeout = 300 * time.Millisecond
		}
	}
}

// grant makes a Grant the only way there is: through a policy.
func grant(t *testing.T, prompt string) policy.Grant {
	t.Helper()
	p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: myRepo}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	v := p.OperatorGrant("https://github.com/Me/My-App.git", prompt)
	if !v.Grant.Valid() {
		t.Fatalf("no grant: %+v", v)
	}
	return v.Grant
}

func launchOf(t *testing.T) bridge.Launch {
	return bridge.Launch{Grant: grant(t, "do <this> & that"), AgentID: agentID, Op: "op_1", Name: "build it", Ref: "main"}
}

// check compares an error's kind and clarity.
func check(t *testing.T, err error, kind bridge.ErrorKind, unclear bool) {
	t.Helper()
	if bridge.KindOf(err) != kind || bridge.IsUnclear(err) != unclear {
		t.Errorf("got %v (kind %q, unclear %v), want kind %q, unclear %v", err, bridge.KindOf(err), bridge.IsUnclear(err), kind, unclear)
	}
}

// hang never answers; it ends with the client or the server.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// cut drops the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
