package mcpstdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drawbridge/internal/mcpstdio"
)

// client is one that stays: it writes lines and reads lines.
type client struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *bufio.Reader
	ended chan error
}

// start runs the pipe against a bridge that answers as serve says.
func start(t *testing.T, serve http.HandlerFunc, change func(*mcpstdio.Options)) *client {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	read, in := io.Pipe()
	out, write := io.Pipe()
	o := mcpstdio.Options{Agent: "main", In: read, Out: write, Log: io.Discard, Every: time.Millisecond, Open: func(context.Context) (mcpstdio.Door, error) {
		return mcpstdio.Door{URL: server.URL, Token: "dbt_x"}, nil
	}}
	if change != nil {
		change(&o)
	}
	c := &client{t: t, in: in, out: bufio.NewReader(out), ended: make(chan error, 1)}
	go func() { c.ended <- mcpstdio.Run(t.Context(), o) }()
	t.Cleanup(func() {
		_ = in.Close()
		go func() { _, _ = io.Copy(io.Discard, c.out) }()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
		_ = write.Close()
	})
	return c
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// line is one line of the pipe.
type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
	} `json:"params"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (c *client) hear() (l line) {
	c.t.Helper()
	text, err := c.out.ReadBytes('\n')
	if err != nil || json.Unmarshal(text, &l) != nil {
		c.t.Fatalf("%q, %v", text, err)
	}
	return l
}

func answer(w http.ResponseWriter, r *http.Request) {
	var m struct{ ID json.RawMessage }
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &m)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
}

// A call that takes long reports progress under the client's token, ever more, and nothing after its answer.
func TestALongCallReportsProgress(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Name") == "held" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":7}}\n\n")
			w.(http.Flusher).Flush()
			<-free
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
			return
		}
		answer(w, r)
	}, nil)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"held","_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	last := 0.0
	for n := 0; n < 3 || last < 7; n++ {
		l := c.hear()
		if l.Method != "notifications/progress" || string(l.Params.Token) != `"p"` || l.Params.Progress <= last {
			t.Fatalf("%+v after %v", l, last)
		}
		last = l.Params.Progress
	}
	close(free)
	for l := c.hear(); string(l.ID) != "1"; l = c.hear() {
		if l.Method != "notifications/progress" || l.Params.Progress <= last {
			t.Fatalf("%+v after %v", l, last)
		}
		last = l.Params.Progress
	}
	// Whatever came after the answer would stand before this one.
	c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if l := c.hear(); string(l.ID) != "2" {
		t.Errorf("after the answer: %+v", l)
	}
}

// A cancelled call ends at the bridge and is not answered, also while more calls are held than may run at a time.
func TestACancelledCallEnds(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan string, 64), make(chan string, 64)
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if name := r.Header.Get("Mcp-Name"); name != "" {
			_, _ = io.Copy(io.Discard, r.Body)
			arrived <- name
			<-r.Context().Done()
			gone <- name
			return
		}
		answer(w, r)
	}, nil)
	const held = 20
	for n := range held {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"held","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, n))
	}
	<-arrived
	for n := range held {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n))
	}
	<-gone
	c.say(`{"jsonrpc":"2.0","id":"next","method":"ping"}`)
	if l := c.hear(); string(l.ID) != `"next"` {
		t.Errorf("a cancelled call was answered: %+v", l)
	}
}

// failing is a way on which nothing gets through.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// A call without an answer says whether it may have had an effect, and how to repeat it.
func TestALostCallSaysWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		args string
		want string
	}{
		{io.ErrUnexpectedEOF, `{}`, "may or may not have had its effect; look before you repeat it"},
		{io.ErrUnexpectedEOF, `{"idempotency_key":"k"}`, "repeat it with the same idempotency_key"},
		{&mcpstdio.Unsent{Reason: "nothing was sent"}, `{"idempotency_key":"k"}`, "nothing was sent"},
	} {
		p := start(t, answer, func(o *mcpstdio.Options) { o.Transport = failing{c.err} })
		p.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":` + c.args + `}}`)
		if l := p.hear(); !strings.Contains(l.Error.Message, c.want) {
			t.Errorf("%v %s: %q", c.err, c.args, l.Error.Message)
		}
	}
}

// A client cannot make the pipe keep more than it may: what is too much is refused at once, and an id counts once.
func TestAFloodOfRequestsIsRefused(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		<-free
		answer(w, r)
	}, nil)
	const flood = 400
	go func() {
		for n := range flood {
			_, _ = fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", n)
		}
		_, _ = io.WriteString(c.in, `{"jsonrpc":"2.0","id":0,"method":"ping"}`+"\n")
	}()
	refused := 0
	for seen := false; !seen; refused++ {
		l := c.hear()
		if l.Error.Message == "" {
			t.Fatalf("%+v", l)
		}
		seen = string(l.ID) == "0" && strings.Contains(l.Error.Message, "use another id")
	}
	close(free)
	for n := refused - 1; n < flood; n++ {
		if l := c.hear(); l.Error.Message != "" {
			t.Fatalf("%+v", l)
		}
	}
	if refused-1 < 100 || refused-1 > 200 {
		t.Errorf("%d of %d requests were refused", refused-1, flood)
	}
}

// What the bridge sends by itself reaches the client, in the session that is open.
func TestNoticesReachTheClient(t *testing.T) {
	t.Parallel()
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
				t.Errorf("%v", r.Header)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.Method == http.MethodDelete:
		case r.Header.Get("Mcp-Session-Id") == "":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}, func(o *mcpstdio.Options) { o.Notices = true })
	c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	if l := c.hear(); string(l.ID) != "1" {
		t.Fatalf("%+v", l)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if l := c.hear(); l.Method != "notifications/tools/list_changed" {
		t.Errorf("%+v", l)
	}
}
