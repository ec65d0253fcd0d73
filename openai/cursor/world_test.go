package cursor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/internal/pause"
	"drawbridge/openai"
	"drawbridge/openai/cursor"
	"drawbridge/openai/cursor/agentsim"
	"drawbridge/proof/pipes"
	"drawbridge/store"
	"drawbridge/store/callers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// emptyDB is a database with its schema, which the worlds copy.
var emptyDB = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "drawbridge")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "drawbridge.db")
	s, err := store.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// record is what several goroutines write.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// world is the door with the backend in front of the stand-in, in virtual time.
type world struct {
	t       *testing.T
	sim     *agentsim.Sim
	log     record // of the stand-in
	said    record // of the backend
	o       cursor.Options
	records *callers.Records
	door    *openai.Door
	token   string
	client  *cursor.Client
	stop    func()
	lines   *pipes.Listener
	// lenient is a part of what the stand-in may report in this story.
	lenient string
}

// play runs a story of a script in a bubble, over HTTP/1.1.
func play(t *testing.T, script string, story func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	playOver(t, false, script, story)
}

// playBoth runs a story once over each carriage.
func playBoth(t *testing.T, script string, story func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP 1.1": false, "HTTP 2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playOver(t, http2, script, story)
		})
	}
}

func playOver(t *testing.T, http2 bool, script string, story func(t *testing.T, w *world)) {
	t.Helper()
	empty, err := emptyDB()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		defer func() {
			if t.Failed() {
				t.Logf("the stand-in:\n%s\nthe backend:\n%s", &w.log, &w.said)
			}
		}()
		s, err := agentsim.Parse([]byte(script))
		if err != nil {
			t.Fatal(err)
		}
		w.sim = agentsim.New(agentsim.Options{Script: s, Log: &w.log, Strict: true})
		w.lines = pipes.New()
		server := &http.Server{Handler: w.sim, ReadHeaderTimeout: time.Hour, Protocols: &http.Protocols{}}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		served := make(chan error, 1)
		go func() { served <- server.Serve(w.lines) }()
		path := filepath.Join(t.TempDir(), "drawbridge.db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := store.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		w.records = callers.New(db)
		w.o = cursor.Options{Name: "c", Key: agentsim.DefaultKey, URL: "http://127.0.0.1:1", Dial: w.lines.Dial, HTTP2: http2, Log: zerolog.New(&w.said).Level(zerolog.DebugLevel)}
		w.start()
		secret, _, err := openai.Keyring{Records: w.records}.Mint(t.Context(), openai.Token{Name: "all", Models: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		w.token = secret
		story(t, w)
		w.stop()
		for _, wrong := range w.sim.Wrong() {
			if w.lenient != "" && strings.Contains(wrong, w.lenient) {
				continue
			}
			t.Errorf("the stand-in reports: %s", wrong)
		}
		_ = server.Close()
		<-served
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// start opens the door, and after a stop the next one on the same records.
func (w *world) start() {
	w.t.Helper()
	var err error
	if w.client, err = cursor.New(w.o); err != nil {
		w.t.Fatal(err)
	}
	if w.door, err = openai.New(openai.Options{Records: w.records, Backends: []openai.Backend{{Name: "c", Upstream: w.client, Anew: true}}, Alone: true, Log: zerolog.Nop()}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.door.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		w.client.Close()
		synctest.Wait()
	})
}

// answer is what the tests read of an answer.
type answer struct {
	Status  int
	Body    string
	Choices []struct {
		Message struct {
			Content   string
			Reasoning string     `json:"reasoning_content"`
			ToolCalls []toolCall `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	}
	Error *struct {
		Message, Code, Type string
	}
}

type toolCall struct {
	ID       string                           `json:"id"`
	Type     string                           `json:"type"`
	Function struct{ Name, Arguments string } `json:"function"`
}

// post sends a request to the door.
func (w *world) post(path string, body any) (a answer) {
	w.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://127.0.0.1"+path, bytes.NewReader(raw))
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	got := httptest.NewRecorder()
	w.door.Handler().ServeHTTP(got, req)
	a.Status, a.Body = got.Code, got.Body.String()
	if !strings.HasPrefix(a.Body, "data:") && !strings.HasPrefix(a.Body, ":") {
		if err := json.Unmarshal(got.Body.Bytes(), &a); err != nil {
			w.t.Fatal(err, a.Body)
		}
	}
	return a
}

// message is one of a conversation.
type message map[string]any

func user(text string) message { return message{"role": "user", "content": text} }

func result(id, text string) message {
	return message{"role": "tool", "tool_call_id": id, "content": text}
}

// says is the answer of an assistant as the next request has it.
func (a answer) says() message {
	m := message{"role": "assistant", "content": a.text()}
	if calls := a.calls(); len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return m
}

func (a answer) text() string {
	if len(a.Choices) == 0 {
		return ""
	}
	return a.Choices[0].Message.Content
}

func (a answer) calls() []toolCall {
	if len(a.Choices) == 0 {
		return nil
	}
	return a.Choices[0].Message.ToolCalls
}

func (a answer) finish() string {
	if len(a.Choices) == 0 {
		return fmt.Sprintf("status %d: %s", a.Status, a.Body)
	}
	return a.Choices[0].Finish
}

var bash = map[string]any{"type": "function", "function": map[string]any{"name": "bash", "description": "Execute a bash command in the terminal", "parameters": map[string]any{
	"type": "object", "properties": map[string]any{"command": map[string]any{"type": "string"}}, "required": []string{"command"}}}}

// pass lets virtual time pass.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	if err := pause.For(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// ask is a chat request with a shell of the caller.
func (w *world) ask(messages ...message) answer {
	w.t.Helper()
	return w.post("/v1/chat/completions", map[string]any{"model": "gpt-4o", "messages": messages, "tools": []any{bash}})
}

// expect fails the test when an answer is not what it has to be.
func (w *world) expect(a answer, finish, text string, calls ...string) {
	w.t.Helper()
	var got []string
	for _, c := range a.calls() {
		got = append(got, c.Function.Name+" "+c.Function.Arguments)
	}
	if a.finish() != finish || a.text() != text || strings.Join(got, "; ") != strings.Join(calls, "; ") {
		w.t.Errorf("finish %q, text %q, calls %q; want %q, %q, %q\n%s", a.finish(), a.text(), got, finish, text, calls, a.Body)
	}
}
