package scripted_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"drawbridge/bridge"
	"drawbridge/policy"
	"drawbridge/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a Runtime that works, over the lives of several.
type host struct {
	t    testing.TB
	dir  string
	text string
	*scripted.Runtime
	end func()
}

func newHost(t testing.TB, text string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), text: text}
	h.start()
	t.Cleanup(func() { h.end() })
	return h
}

func (h *host) start() {
	h.t.Helper()
	script, err := scripted.Parse("script.yaml", []byte(h.text))
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := scripted.Open(scripted.Options{Script: script, Dir: h.dir})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.Runtime, h.end = r, func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		if err := r.Close(); err != nil {
			h.t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

// restart ends the Runtime in order and starts the next one on its folder.
func (h *host) restart() {
	h.end()
	h.start()
}

// lines are those of the journal of a kind.
func (h *host) lines(kind string) (found []scripted.Line) {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, scripted.JournalFile))
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Record scripted.Line }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			h.t.Fatal(err)
		}
		if l.Record.Kind == kind {
			found = append(found, l.Record)
		}
	}
	return found
}

// launch launches an agent with a prompt and waits for the end of its turn.
func (h *host) launch(prompt string, door *bridge.Door) bridge.Observation {
	h.t.Helper()
	r := h.begin(prompt, door)
	if err := h.Follow(h.t.Context(), r); err != nil {
		h.t.Fatal(err)
	}
	return h.observe(r)
}

func (h *host) begin(prompt string, door *bridge.Door) bridge.RunRef {
	h.t.Helper()
	p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/me/my-app"}}})
	if len(problems) > 0 {
		h.t.Fatal(problems)
	}
	l := bridge.Launch{Grant: p.OperatorGrant("github.com/me/my-app", prompt).Grant, AgentID: "bc-1", Name: "one", Door: door}
	s, err := h.Launch(h.t.Context(), l)
	if err != nil {
		h.t.Fatal(err)
	}
	return bridge.RunRef{Agent: s.Agent, Run: s.Run}
}

func (h *host) observe(r bridge.RunRef) bridge.Observation {
	h.t.Helper()
	o, err := h.Observe(h.t.Context(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// tell gives the agent a further turn and waits for its end.
func (h *host) tell(marker, text string) bridge.Observation {
	h.t.Helper()
	s, err := h.Send(h.t.Context(), bridge.FollowUp{Agent: "bc-1", Marker: marker, Text: text})
	if err != nil {
		h.t.Fatal(err)
	}
	r := bridge.RunRef{Agent: s.Agent, Run: s.Run}
	if err := h.Follow(h.t.Context(), r); err != nil {
		h.t.Fatal(err)
	}
	return h.observe(r)
}

const doorToken = "dbt_0123456789"

// newDoor is an MCP server with one tool, note, that takes a text.
func newDoor(t testing.TB, note func(text string) (string, error)) *bridge.Door {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "door", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	type out struct {
		ID string `json:"id"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "note"}, func(_ context.Context, _ *mcp.CallToolRequest, args in) (*mcp.CallToolResult, out, error) {
		id, err := note(args.Text)
		return nil, out{id}, err
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+doorToken {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return &bridge.Door{URL: web.URL, Token: doorToken}
}
