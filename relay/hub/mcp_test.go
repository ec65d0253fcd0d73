package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/internal/mcpstdio"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

// house is a relay whose agents call tools.
type house struct {
	*script
	client tunnel.Client
}

func newHouse() *house { return &house{script: newScript(echo)} }

// Tunnel implements tunnel.User.
func (h *house) Tunnel() *tunnel.Client { return &h.client }

// porch is a door that knows one agent at one relay, and answers as serve does.
type porch struct {
	serve http.HandlerFunc
	mu    sync.Mutex // guards asked
	asked []string
}

// Agent implements hub.MCPDoor.
func (p *porch) Agent(_ context.Context, relay, session string) (bridge.AgentID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, relay+" "+session)
	if relay != "laptop" || session != "bc-1" {
		return "", bridge.Errorf(bridge.Denied, "relay %q does not host the agent of session %q", relay, session)
	}
	return "agt_1", nil
}

// Handler implements hub.MCPDoor.
func (p *porch) Handler(agent bridge.AgentID, relay, session string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", fmt.Sprintf("%s at %s in %s", agent, relay, session))
		p.serve(w, r)
	})
}

func mcpSite(t *testing.T, serve http.HandlerFunc) (*site, *porch) {
	t.Helper()
	p := &porch{serve: serve}
	return siteOn(t, memstore.NewDisk(), func(o *hub.Options) { o.MCP = p }), p
}

// callDoor calls as an agent does that is to call again in a moment: the bridge knows of a connection a moment before its relay does.
func callDoor(t *testing.T, c *tunnel.Client, session, body string) (resp *http.Response, err error) {
	t.Helper()
	eventually(t, "the relay knows its connection", func() bool {
		resp, err = callOnce(t, c, session, body)
		var unsent *mcpstdio.Unsent
		return !errors.As(err, &unsent) || !strings.Contains(err.Error(), "not connected")
	})
	return resp, err
}

func callOnce(t *testing.T, c *tunnel.Client, session, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://door/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer stolen")
	r.Header.Set("Mcp-Name", "tool")
	return c.Session(session).RoundTrip(r)
}

// read returns the whole answer.
func answerOf(t *testing.T, c *tunnel.Client, session, body string) (status int, text string) {
	t.Helper()
	resp, err := callDoor(t, c, session, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func mirror(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "%s %s %s %s ", r.Method, r.URL.Path, r.Header.Get("Mcp-Name"), r.Header.Get("Authorization"))
	_, _ = w.Write(body)
}

// Calls of any size that may be sent reach the door as the agent of the relay's session, many at a time, and their answers come back whole.
func TestMCPCalls(t *testing.T) {
	t.Parallel()
	s, _ := mcpSite(t, mirror)
	h := newHouse()
	connect(t, joined(t, s, "laptop"), h, nil)
	s.online(t, "laptop")
	resp, err := callDoor(t, h.Tunnel(), "bc-1", "{}")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get("Mcp-Session-Id"); got != "agt_1 at laptop in bc-1" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%q %v", got, resp.Header)
	}
	var all sync.WaitGroup
	bodies := []string{"{}", strings.Repeat("x", wire.MaxWhole), strings.Repeat(`"\é`, 20_000), strings.Repeat("\u2028", 20_000), strings.Repeat("界", wire.MaxMCPPart/3), strings.Repeat("x", wire.MaxMCPCall)}
	if sampled {
		bodies = bodies[:3]
	}
	for n, body := range bodies {
		all.Go(func() {
			if status, text := answerOf(t, h.Tunnel(), "bc-1", body); status != http.StatusOK || text != "POST /mcp tool  "+body {
				t.Errorf("%d: %d and %d bytes for %d", n, status, len(text), len(body))
			}
		})
	}
	all.Wait()
	if status, _ := answerOf(t, h.Tunnel(), "bc-1", strings.Repeat("x", wire.MaxMCPCall+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", status)
	}
	if status, text := answerOf(t, h.Tunnel(), "bc-1", "\xff"); status != http.StatusBadRequest || !strings.Contains(text, "UTF-8") {
		t.Errorf("not UTF-8: %d %s", status, text)
	}
	if end, err := s.RunTurn(t.Context(), turn("trn-1", strings.Repeat("x", wire.MaxTurnText))); err != nil || end.Cause != wire.TurnAnswered {
		t.Errorf("a turn beside: %v, %v", end.Cause, err)
	}
}

// A relay that names a session of another relay's agent gets nothing, whatever the rest of its frame says.
func TestMCPOfAnotherRelaysAgent(t *testing.T) {
	t.Parallel()
	served := make(chan string, 8)
	s, p := mcpSite(t, func(_ http.ResponseWriter, r *http.Request) { served <- r.RemoteAddr })
	good, bad := newHouse(), newHouse()
	connect(t, joined(t, s, "laptop"), good, nil)
	connect(t, joined(t, s, "thief"), bad, nil)
	s.online(t, "laptop")
	s.online(t, "thief")
	for _, c := range []struct {
		client  *tunnel.Client
		session string
	}{{bad.Tunnel(), "bc-1"}, {good.Tunnel(), "bc-2"}} {
		if status, text := answerOf(t, c.client, c.session, "{}"); status != http.StatusForbidden || !strings.Contains(text, "this call had no effect") {
			t.Errorf("%s: %d %s", c.session, status, text)
		}
	}
	if len(served) != 0 {
		t.Errorf("the door served %s", <-served)
	}
	if p.asked[0] != "thief bc-1" {
		t.Errorf("the door was asked for %v", p.asked)
	}
}

// A call that nobody waits for ends at the door, and so does one whose connection is lost. The agent hears which it was, and a
// later call goes over the next connection.
func TestMCPCallsEnd(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}, 8), make(chan struct{}, 8)
	s, _ := mcpSite(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) == "stay" {
			arrived <- struct{}{}
			<-r.Context().Done()
			gone <- struct{}{}
		}
	})
	h := newHouse()
	path := joined(t, s, "laptop")
	stop := connect(t, path, h, nil)
	s.online(t, "laptop")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	ask := func(ctx context.Context) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://door/mcp", strings.NewReader("stay"))
		if err == nil {
			_, err = h.Tunnel().Session("bc-1").RoundTrip(r) //nolint:bodyclose // there is none
		}
		result <- err
	}
	answerOf(t, h.Tunnel(), "bc-1", "{}") // the relay knows its connection
	go ask(ctx)
	<-arrived
	cancel()
	<-gone
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go ask(t.Context())
	<-arrived
	stop()
	<-gone
	if err := <-result; !errors.Is(err, tunnel.ErrLost) {
		t.Errorf("lost: %v", err)
	}
	var unsent *mcpstdio.Unsent
	if _, err := callOnce(t, h.Tunnel(), "bc-1", "{}"); !errors.As(err, &unsent) || !strings.Contains(err.Error(), "not connected") { //nolint:bodyclose // there is none
		t.Errorf("without a connection: %v", err)
	}
	connect(t, path, h, nil)
	eventually(t, "a call goes over the next connection", func() bool {
		resp, err := callDoor(t, h.Tunnel(), "bc-1", "{}")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// Streams arrive part by part, also when the door cuts one off.
func TestMCPStreams(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	s, _ := mcpSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for text := range next {
			if text == "cut" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	})
	h := newHouse()
	connect(t, joined(t, s, "laptop"), h, nil)
	s.online(t, "laptop")
	go func() { next <- "one" }()
	resp, err := callDoor(t, h.Tunnel(), "bc-1", "{}")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, text := range []string{"one", "two", "three"} {
		if text != "one" {
			next <- text
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
	next <- "cut"
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an answer that was cut off ends with %v", err)
	}
}

// A bridge without a door says so to the agent.
func TestMCPWithoutADoor(t *testing.T) {
	t.Parallel()
	bare := siteOn(t, memstore.NewDisk(), nil)
	h := newHouse()
	connect(t, joined(t, bare, "laptop"), h, nil)
	bare.online(t, "laptop")
	if status, text := answerOf(t, h.Tunnel(), "bc-1", "{}"); status != http.StatusNotFound || !strings.Contains(text, "no tools") {
		t.Errorf("a bridge without a door: %d %s", status, text)
	}
}
