package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/internal/strictjson"
)

// fastPath answers tool calls without the SDK, which for each of them reads the
// message some fifteen times and, in the new era, opens and ends a session. It
// knows nothing of the protocol but this: a request that differs from one which the
// SDK has just taken in nothing but id, tool and arguments would be taken, too.
// Whatever is not exactly so goes to the SDK, which also says what is wrong with it.
type fastPath struct {
	// fresh is for how long the SDK's word is good: short enough that a session
	// in use is never idle to the SDK.
	fresh time.Duration

	mu    sync.Mutex // guards the fields below
	until map[frame]time.Time
	// ended counts sessions that were ended, so that none is remembered because of a
	// call that was under way when it ended.
	ended int
}

// The bounds of the fast path: how many frames are remembered, how long the texts of
// one may be (in bytes), for how long at most, and how large a request may be (in bytes).
const (
	maxFrames   = 4096
	maxFrame    = 4 << 10
	freshFrame  = 10 * time.Second
	maxFastBody = 64 << 10
)

// frame is all of a request by which the SDK decides whether to take it, but for
// what call holds.
type frame struct {
	token, accept, contentType, version, session, meta string
	// Whether headers repeat the method and the tool's name, as the newer era demands.
	saysMethod, saysName bool
	offer                *offer
}

// call is the rest of a request: which tool is called with what.
type call struct {
	id   json.RawMessage
	name string
	args json.RawMessage
}

// plainID is an id that is the same however it is read.
var plainID = regexp.MustCompile(`^(-?(0|[1-9][0-9]{0,14})|"[ !#-\[\]-~]{0,200}")$`)

// split takes a request apart; not ok is one that only the SDK can judge. The
// body can be read again either way.
func split(r *http.Request, c *caller) (f frame, k call, ok bool) {
	if r.Method != http.MethodPost || r.ContentLength <= 0 || r.ContentLength > maxFastBody {
		return f, k, false
	}
	f = frame{token: c.token.Hash, offer: c.offer}
	for name, values := range r.Header {
		switch {
		case name == "Last-Event-Id" || strings.HasPrefix(name, "Mcp-Param-"):
			return f, k, false
		case !strings.HasPrefix(name, "Mcp-") && name != "Accept" && name != "Content-Type":
		case len(values) != 1:
			return f, k, false
		}
	}
	f.accept, f.contentType = r.Header.Get("Accept"), r.Header.Get("Content-Type")
	f.version, f.session = r.Header.Get("Mcp-Protocol-Version"), r.Header.Get(sessionHeader)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxFastBody))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	var message struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  struct {
			Meta      json.RawMessage `json:"_meta"`
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err != nil || strictjson.DecodeExact(body, &message) != nil || message.Version != "2.0" || message.Method != methodCall || !plainID.Match(message.ID) {
		return f, k, false
	}
	if bytes.Contains(message.Params.Meta, []byte(`"traceparent"`)) {
		return f, k, false // each has another one, so that nothing would be remembered
	}
	method, name := r.Header.Values("Mcp-Method"), r.Header.Values("Mcp-Name")
	f.saysMethod, f.saysName = method != nil, name != nil
	if (f.saysMethod && method[0] != methodCall) || (f.saysName && name[0] != message.Params.Name) {
		return f, k, false
	}
	if f.meta = string(message.Params.Meta); len(f.accept)+len(f.contentType)+len(f.version)+len(f.session)+len(f.meta) > maxFrame {
		return f, k, false
	}
	return f, call{message.ID, message.Params.Name, message.Params.Arguments}, true
}

// methodCall is the one method that the fast path knows.
const methodCall = "tools/call"

// serve hands a request to the tool that it calls, or to next, the SDK. In the
// older protocols it is for tools that change nothing: the answer to another one
// must be there for a client that comes back for it, and is kept by the SDK alone.
func (p *fastPath) serve(w http.ResponseWriter, r *http.Request, d *Door, next http.Handler) {
	c := callerOf(r.Context())
	f, k, plain := split(r, c)
	t, known := c.offer.tools[k.name]
	if !plain || !known || (f.version < newEra && !t.nature.readOnly) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			p.end(r.Header.Get(sessionHeader))
		}
		return
	}
	fresh, ended := p.has(f, time.Now())
	if !fresh {
		c.ran = new(atomic.Bool)
		next.ServeHTTP(w, r)
		if c.ran.Load() {
			p.put(f, ended, time.Now())
		}
		return
	}
	k.answer(w, f.version, t.run(r.Context(), d, c, k), d.implementation())
}

// has reports whether the SDK took such a request a moment ago, and what put is to be given.
func (p *fastPath) has(f frame, now time.Time) (fresh bool, ended int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.until[f]), p.ended
}

// put remembers that the SDK took a request.
func (p *fastPath) put(f frame, ended int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.session != "" && ended != p.ended {
		return
	}
	if p.until == nil || len(p.until) >= maxFrames {
		p.until = map[frame]time.Time{}
	}
	p.until[f] = now.Add(p.fresh)
}

// end forgets a session.
func (p *fastPath) end(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	for f := range p.until {
		if f.session == session {
			delete(p.until, f)
		}
	}
}

// answer writes the response in plain JSON, as the SDK would.
func (k call) answer(w http.ResponseWriter, version string, result *mcp.CallToolResult, server *mcp.Implementation) {
	var response struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  struct {
			Meta       mcp.Meta      `json:"_meta,omitempty"`
			Content    []mcp.Content `json:"content"`
			Structured any           `json:"structuredContent,omitempty"`
			IsError    bool          `json:"isError,omitempty"`
			Type       string        `json:"resultType,omitempty"`
		} `json:"result"`
	}
	response.Version, response.ID = "2.0", k.id
	response.Result.Meta = maps.Clone(result.Meta)
	response.Result.Content, response.Result.Structured, response.Result.IsError = result.Content, result.StructuredContent, result.IsError
	if version >= newEra {
		if response.Result.Meta == nil {
			response.Result.Meta = mcp.Meta{}
		}
		response.Result.Meta[mcp.MetaKeyServerInfo], response.Result.Type = server, "complete"
	}
	data, err := json.Marshal(response)
	if err != nil {
		panic(err) // texts and what was encoded before
	}
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // a client that went away has no use for an error
}
