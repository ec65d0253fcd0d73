// Package tunnel carries the calls of hosted agents to the bridge's MCP door over a relay's connection: requests of HTTP in frames of
// package wire.
//
// It knows neither sockets nor agents, and does not read what it carries. [Client] is the relay's end and [Server] the bridge's. Rule of
// thumb: each call ends once, with an answer or with an error that says whether the bridge may have got it.
package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"drawbridge/internal/mcpstdio"
	"drawbridge/internal/pause"
	"drawbridge/relay/chunks"
	"drawbridge/relay/wire"
)

const (
	// aliveEvery is how often the bridge says that a call is under way, and silence how long a relay waits without such a word.
	aliveEvery = 5 * time.Second
	silence    = 45 * time.Second
	// maxLarge is how many calls, or parts of answers, may travel in chunks at a time. Turns and their ends need places, too.
	maxLarge = 2
	// maxKept bounds what a relay keeps of all answers that its agents do not read, in bytes.
	maxKept = 64 << 20
	// callsPerSecond and burst bound what a relay sends, so that its agents together stay below what the bridge takes from a relay.
	callsPerSecond = 100
	burst          = 200
)

// Send sends one frame, whole or in chunks, see [chunks.Sender]. It ends with an error when the connection does.
type Send func(context.Context, wire.Frame) error

// User is a handler of a relay's connection whose agents call the bridge's MCP door.
type User interface {
	// Tunnel is the relay's end. It is one for the life of the relay, whatever connections come and go.
	Tunnel() *Client
}

// Client is the relay's end. The zero Client is not connected. It is safe for concurrent use.
type Client struct {
	mu sync.Mutex // guards the fields below, and what each call has received
	// way is the connection, nil while there is none.
	way   *way
	calls int
	// kept is how many bytes of all answers wait for agents.
	kept int
	pace pace
}

// way is one connection.
type way struct {
	send  Send
	open  map[string]*call
	large chan struct{}
	over  chan struct{}
}

// call is one request on its way. The fields from head on are guarded by the client's mutex.
type call struct {
	client  *Client
	way     *way
	id      string
	session string
	// news is closed and made again when anything arrived.
	news chan struct{}
	head *wire.MCPPart
	body []byte
	last time.Time
	end  bool
	err  error
}

// Errors of a call that the bridge may have got.
var (
	ErrLost   = errors.New("the connection to the bridge was lost")
	errSilent = errors.New("the bridge stopped answering the call")
	errFull   = errors.New("the unread answers of this connection are too large")
	errCut    = errors.New("the bridge cut the answer off")
)

func unsent(text string) error {
	return &mcpstdio.Unsent{Reason: text + "; this call had no effect"}
}

// Attach makes a connection the way to the bridge, in the place of an earlier one, until the returned function is called: calls that are
// under way then end with [ErrLost].
func (c *Client) Attach(send Send) (detach func()) {
	w := &way{send: send, open: map[string]*call{}, large: make(chan struct{}, maxLarge), over: make(chan struct{})}
	c.mu.Lock()
	c.way = w
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.way == w {
			c.way = nil
		}
		close(w.over)
		for _, k := range w.open {
			k.finish(ErrLost)
		}
	})
}

// Waits reports whether a call waits for parts of its answer.
func (c *Client) Waits(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.way != nil && c.way.open[id] != nil
}

// Take takes a part of an answer. It never waits. A part of a call that is over says nothing.
func (c *Client) Take(p wire.MCPPart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.way == nil || c.way.open[p.ID] == nil {
		return
	}
	k := c.way.open[p.ID]
	if k.head == nil && p.Status != 0 {
		head := p
		head.Body = ""
		k.head = &head
	}
	k.last = time.Now()
	k.body = append(k.body, p.Body...)
	if c.kept += len(p.Body); c.kept > maxKept {
		k.finish(errFull)
		return
	}
	switch {
	case p.Cut:
		k.finish(errCut)
	case p.End:
		k.finish(nil)
	default:
		k.tell()
	}
}

// tell wakes who waits for news. The caller holds the mutex.
func (k *call) tell() {
	close(k.news)
	k.news = make(chan struct{})
}

// finish ends a call. The caller holds the mutex.
func (k *call) finish(err error) {
	if k.end {
		return
	}
	delete(k.way.open, k.id)
	k.end, k.err = true, err
	k.tell()
}

// Session returns the way of one session's agent to the door. It is good as long as the caller wants it to be.
func (c *Client) Session(session string) http.RoundTripper { return sessionWay{c, session} }

type sessionWay struct {
	client  *Client
	session string
}

// RoundTrip implements http.RoundTripper. The address of the request does not matter, and of its headers only those of the protocol travel. An
// error is an *mcpstdio.Unsent when the bridge got nothing of the request.
func (s sessionWay) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, wire.MaxMCPCall+1)); err != nil {
			return nil, unsent("the message could not be read")
		}
	}
	switch {
	case len(body) > wire.MaxMCPCall:
		return here(r, http.StatusRequestEntityTooLarge, ""), nil
	case !utf8.Valid(body):
		return here(r, http.StatusBadRequest, "the message is not UTF-8"), nil
	}
	ask := wire.MCPCall{ID: "any", Session: s.session, Method: r.Method, Door: r.Header.Get("Mcp-Session-Id"), Version: r.Header.Get("Mcp-Protocol-Version"),
		Call: r.Header.Get("Mcp-Method"), Name: r.Header.Get("Mcp-Name"), Body: string(body)}
	if err := ask.Check(); err != nil {
		return here(r, http.StatusBadRequest, err.Error()), nil
	}
	if err := s.client.pace.wait(r.Context()); err != nil {
		return nil, unsent("the caller stopped waiting before the relay sent the call")
	}
	k, err := s.client.begin(&ask)
	if err != nil {
		return nil, err
	}
	if err := k.send(r.Context(), ask); err != nil {
		return nil, err
	}
	return k.response(r)
}

// here is an answer that the relay itself gives.
func here(r *http.Request, status int, text string) *http.Response {
	body := ""
	if text != "" {
		body = fmt.Sprintf(`{"error":{"message":%q}}`, text)
	}
	return &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)), Request: r}
}

// begin opens a call on the connection of this moment.
func (c *Client) begin(ask *wire.MCPCall) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.way == nil:
		return nil, unsent("the relay is not connected to the bridge; call again in a moment")
	case len(c.way.open) >= wire.MaxMCPCalls:
		return nil, unsent("too many calls of this relay's agents are under way; call again in a moment")
	}
	of := 0
	for _, k := range c.way.open {
		if k.session == ask.Session {
			of++
		}
	}
	if of >= wire.MaxMCPSession {
		return nil, unsent("too many calls of this agent are under way; call again in a moment")
	}
	c.calls++
	ask.ID = "m" + strconv.Itoa(c.calls)
	k := &call{client: c, way: c.way, id: ask.ID, session: ask.Session, news: make(chan struct{}), last: time.Now()}
	c.way.open[k.id] = k
	return k, nil
}

// send sends the call. Its error says whether the bridge may have got it.
func (k *call) send(ctx context.Context, ask wire.MCPCall) error {
	f := wire.Frame{MCPCall: &ask}
	if ask.Body != "" && len(ask.Body) > wire.MaxWhole/2 {
		select {
		case k.way.large <- struct{}{}:
			defer func() { <-k.way.large }()
		case <-ctx.Done():
			k.give(nil)
			return unsent("the caller stopped waiting before the relay sent the call")
		case <-k.way.over:
			return unsent("the relay is not connected to the bridge; call again in a moment")
		}
	}
	// The caller's end does not stop a frame: half of one would hold a place at the bridge for as long as the bridge waits for the rest.
	err := k.way.send(context.WithoutCancel(ctx), f)
	var refusal *chunks.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		k.give(nil)
		return unsent("the bridge did not take the call (" + string(refusal.Why) + "); call again in a moment")
	case errors.Is(err, chunks.ErrTooLarge):
		k.give(nil)
		return unsent("the call is larger than the bridge accepts; send less")
	}
	k.give(nil)
	return err
}

// give ends the call from our side.
func (k *call) give(err error) {
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	k.finish(err)
	k.client.kept -= len(k.body)
	k.body = nil
}

// response waits for the beginning of the answer.
func (k *call) response(r *http.Request) (*http.Response, error) {
	body := &answer{call: k, ctx: r.Context()}
	if err := body.await(func() bool { return k.head != nil }); err != nil {
		_ = body.Close()
		return nil, err
	}
	resp := here(r, k.head.Status, "")
	resp.Body, resp.ContentLength = body, -1
	if k.head.Type != "" {
		resp.Header.Set("Content-Type", k.head.Type)
	}
	if k.head.Door != "" {
		resp.Header.Set("Mcp-Session-Id", k.head.Door)
	}
	return resp, nil
}

// answer is the body of a response.
type answer struct {
	call *call
	ctx  context.Context //nolint:containedctx // a body is read under the context of its request
}

// await waits until ready says yes, under the client's mutex.
func (a *answer) await(ready func() bool) error {
	k := a.call
	patience := time.NewTimer(silence)
	defer patience.Stop()
	for {
		k.client.mu.Lock()
		done, news, end, err, last := ready(), k.news, k.end, k.err, k.last
		k.client.mu.Unlock()
		switch {
		case done:
			return nil
		case end && err == nil:
			return io.ErrUnexpectedEOF
		case end:
			return err
		}
		select {
		case <-news:
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-patience.C:
			if since := time.Since(last); since < silence {
				patience.Reset(silence - since)
				continue
			}
			return errSilent
		}
	}
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	k := a.call
	err := a.await(func() bool { return len(k.body) > 0 || k.end && k.err == nil })
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	n := copy(p, k.body)
	k.body = k.body[n:]
	k.client.kept -= n
	switch {
	case n > 0:
		return n, nil
	case err != nil:
		return 0, err
	}
	return 0, io.EOF
}

// Close implements io.Closer. A call that is not over ends at the bridge, too.
func (a *answer) Close() error {
	k := a.call
	k.client.mu.Lock()
	over, w := k.end, k.way
	k.client.mu.Unlock()
	k.give(nil)
	if over {
		return nil
	}
	return w.send(context.WithoutCancel(a.ctx), wire.Frame{MCPCancel: &wire.MCPCancel{ID: k.id}})
}

// pace bounds how often something is sent. The zero value lets a burst pass.
type pace struct {
	mu   sync.Mutex // guards next
	next time.Time
}

// wait returns when it is the caller's turn.
func (p *pace) wait(ctx context.Context) error {
	const every = time.Second / callsPerSecond
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-burst * every); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(every)
	left := p.next.Sub(now)
	p.mu.Unlock()
	if left <= 0 {
		return ctx.Err()
	}
	return pause.For(ctx, left)
}
