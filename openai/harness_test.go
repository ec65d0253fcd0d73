package openai_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drawbridge/openai"
	"drawbridge/openai/upstream"
	"drawbridge/store"
	"drawbridge/store/callers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a backend that says what a test scripts. Safe for concurrent use.
type fake struct {
	mu      sync.Mutex
	started []upstream.Request
	turns   map[string]*fakeTurn
	// say is the answer to a request; nil is the text "Hello".
	say func(upstream.Request) []upstream.Event
	// refuse fails a start, and meanwhile happens before it does.
	refuse    error
	meanwhile func()
	// resumes lets turns be resumed after a restart.
	resumes bool
	// gate holds back what stands behind the text "(gate)" until it is closed.
	gate chan struct{}
}

func (f *fake) Models(context.Context) ([]upstream.Model, error) {
	return []upstream.Model{{ID: "m", Context: 1000}, {ID: "agent/main"}}, nil
}

func (f *fake) Start(_ context.Context, r upstream.Request) (upstream.Turn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, r)
	if f.refuse != nil {
		if f.meanwhile != nil {
			f.meanwhile()
		}
		return nil, f.refuse
	}
	events := []upstream.Event{{Kind: upstream.Text, Text: "Hello"}, {Kind: upstream.Ended, Finish: "stop"}}
	if f.say != nil {
		events = f.say(r)
	}
	t := &fakeTurn{id: r.Turn, gate: f.gate, events: events, results: make(chan []upstream.Result, 1), over: make(chan struct{})}
	if f.resumes {
		t.ref = "ref-" + r.Turn
	}
	if f.turns == nil {
		f.turns = map[string]*fakeTurn{}
	}
	f.turns[r.Turn] = t
	return t, nil
}

func (f *fake) Resume(_ context.Context, r upstream.Request, ref string) (upstream.Turn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.turns[r.Turn]
	if !f.resumes || t == nil || ref != t.ref {
		return nil, &upstream.Error{Code: "turn_lost", Message: "the bridge was restarted and this backend keeps nothing"}
	}
	return &fakeTurn{id: t.id, ref: t.ref, events: t.events[t.at:], results: make(chan []upstream.Result, 1), over: make(chan struct{})}, nil
}

func (f *fake) starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.started)
}

type fakeTurn struct {
	id, ref string
	gate    chan struct{}
	events  []upstream.Event
	at      int
	waits   bool
	results chan []upstream.Result
	over    chan struct{}
	once    sync.Once
	mu      sync.Mutex
	got     []upstream.Result
}

func (t *fakeTurn) Ref() string { return t.ref }

func (t *fakeTurn) Next(ctx context.Context) (upstream.Event, error) {
	if t.waits {
		select {
		case r := <-t.results:
			t.mu.Lock()
			t.got = append(t.got, r...)
			t.mu.Unlock()
			t.waits = false
		case <-t.over:
			return upstream.Event{}, io.EOF
		case <-ctx.Done():
			return upstream.Event{}, ctx.Err()
		}
	}
	if t.at >= len(t.events) {
		return upstream.Event{}, &upstream.Error{Status: 500, Code: "cut", Message: "the backend ended in the middle"}
	}
	e := t.events[t.at]
	if e.Text == "(gate)" {
		select {
		case <-t.gate:
			t.at++
			return t.Next(ctx)
		case <-ctx.Done():
			return upstream.Event{}, ctx.Err()
		}
	}
	if e.Text == "(wait)" {
		select {
		case <-t.over:
			return upstream.Event{}, io.EOF
		case <-ctx.Done():
			return upstream.Event{}, ctx.Err()
		}
	}
	t.at++
	t.waits = e.Kind == upstream.Parked
	return e, nil
}

func (t *fakeTurn) Deliver(_ context.Context, r []upstream.Result) error {
	t.results <- r
	return nil
}

func (t *fakeTurn) Cancel(context.Context) error {
	t.once.Do(func() { close(t.over) })
	return nil
}

// world is a door on a server of its own, or without a server and its connections where url is empty.
type world struct {
	t       *testing.T
	door    *openai.Door
	records *callers.Records
	server  *httptest.Server
	url     string
	token   string
	stop    func()
}

type option func(*openai.Options)

// open opens a door in front of a backend on a server, on the database of a path.
func open(t *testing.T, path string, f upstream.Upstream, options ...option) *world {
	t.Helper()
	w := openBare(t, path, f, options...)
	w.server = httptest.NewServer(w.door.Handler())
	w.url = w.server.URL
	return w
}

// openBare opens a door without a server, so that it can be tested in virtual time.
func openBare(t *testing.T, path string, f upstream.Upstream, options ...option) *world {
	t.Helper()
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, records: callers.New(s)}
	o := openai.Options{Records: w.records, Backends: []openai.Backend{{Name: "b", Upstream: f}}, Alone: true}
	for _, set := range options {
		set(&o)
	}
	if w.door, err = openai.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.door.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if w.server != nil {
			w.server.CloseClientConnections()
			w.server.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// newWorld opens a door with a token that may use everything.
func newWorld(t *testing.T, f upstream.Upstream, options ...option) *world {
	t.Helper()
	w := open(t, filepath.Join(t.TempDir(), "drawbridge.db"), f, options...)
	w.mint(openai.Token{Name: "all", Models: []string{"*"}})
	return w
}

// newBareWorld is newWorld without a server.
func newBareWorld(t *testing.T, f upstream.Upstream, options ...option) *world {
	t.Helper()
	w := openBare(t, filepath.Join(t.TempDir(), "drawbridge.db"), f, options...)
	w.mint(openai.Token{Name: "all", Models: []string{"*"}})
	return w
}

func (w *world) mint(k openai.Token) {
	w.t.Helper()
	secret, _, err := openai.Keyring{Records: w.records}.Mint(w.t.Context(), k)
	if err != nil {
		w.t.Fatal(err)
	}
	w.token = secret
}

// post sends a request and returns the status and the body.
func (w *world) post(path, body string, headers ...string) (int, string) {
	w.t.Helper()
	resp := w.send(w.t.Context(), path, body, headers...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func (w *world) send(ctx context.Context, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	resp, err := w.try(ctx, path, body, headers...)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// try is send for goroutines of a test, which may not end it.
func (w *world) try(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	if w.url == "" {
		answer := httptest.NewRecorder()
		w.door.Handler().ServeHTTP(answer, req)
		return answer.Result(), nil
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(req)
}

// ask is a chat request.
func ask(stream bool, messages ...string) string {
	return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[%s],"tools":[%s]}`, stream, strings.Join(messages, ","), bash)
}

const bash = `{"type":"function","function":{"name":"bash","description":"Run.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}`

func said(role, text string) string {
	return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text)
}

// completion is what the tests read of an answer.
type completion struct {
	ID      string `json:"id"`
	Choices []struct {
		Message struct {
			Content   *string `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Error *struct {
		Message, Type string
		Code          *string
	} `json:"error"`
}

func read(t *testing.T, body string) (c completion) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return c
}

// events are the data lines of a stream.
func events(body string) (out []string) {
	s := bufio.NewScanner(strings.NewReader(body))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

// calls makes the events of calls of bash, one for each command, and waits for their results.
func calls(commands ...string) (out []upstream.Event) {
	for i, c := range commands {
		out = append(out, upstream.Event{Kind: upstream.CallPiece, Index: i, ID: fmt.Sprintf("up_%d", i), Name: "bash", Arguments: fmt.Sprintf(`{"command":%q}`, c)})
	}
	return append(out, upstream.Event{Kind: upstream.Parked})
}

// sum is the digest under which a body is recorded.
func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return hex.EncodeToString(s[:])
}

// pause waits a moment for what another goroutine does.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal("the test ended")
	}
}

// smallModel is a fake under the name of another model.
type smallModel struct{ *fake }

func (smallModel) Models(context.Context) ([]upstream.Model, error) {
	return []upstream.Model{{ID: "tiny"}}, nil
}
