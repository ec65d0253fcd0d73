package mcpstdio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/pause"
)

// The methods and the header that the pipe knows.
const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	// methodListen is the stream of notifications in the protocols without sessions. It has no end of its own.
	methodListen  = "subscriptions/listen"
	sessionHeader = "Mcp-Session-Id"
)

// progressStep is by how much the pipe's own progress grows. It is small, because the bridge's own numbers must stay above it.
const progressStep = 0.001

// calls are the requests that are under way. The zero value has none. Safe for concurrent use.
type calls struct {
	mu    sync.Mutex // guards the fields below, and the fields of each call
	open  map[string]*call
	bytes int
}

// call is one request of the client.
type call struct {
	cancel context.CancelFunc
	size   int
	// silent is true when nothing more is to be written for the call: it is answered, or the client cancelled it.
	silent bool
	// alone is true for a request that belongs to no session: its end at the bridge is the end of its connection.
	alone    bool
	token    json.RawMessage
	progress float64
	heard    time.Time
}

// add takes a request, or says why it is not taken.
func (c *calls) add(m message, cancel context.CancelFunc) (added *call, refusal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open[string(m.ID)] != nil:
		return nil, "a request with this id is under way; use another id"
	case len(c.open) >= maxWaiting+slots || c.bytes+len(m.raw) > maxWaitingBytes && len(c.open) > 0:
		return nil, "too many requests are under way, so this one was not sent; wait for answers, then send it again"
	}
	if c.open == nil {
		c.open = map[string]*call{}
	}
	added = &call{cancel: cancel, size: len(m.raw), alone: m.Params.Meta.Version >= newEra, heard: time.Now()}
	if token := m.Params.Meta.Progress; len(token) > 0 && isID(token) {
		added.token = token
	}
	c.open[string(m.ID)] = added
	c.bytes += added.size
	return added, ""
}

func (c *calls) remove(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.open[string(m.ID)]; k != nil {
		delete(c.open, string(m.ID))
		c.bytes -= k.size
	}
}

// answering ends the progress of a request whose answer is about to be written. It is false when the client cancelled the request, or
// has an answer: nothing may be written for it then.
func (c *calls) answering(m message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.open[string(m.ID)]
	if k == nil {
		return true
	}
	was := k.silent
	k.silent = true
	return !was
}

// heard notes progress that the bridge itself reports of a request.
func (c *calls) heard(m, got message) {
	if got.Method != methodProgress {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.open[string(m.ID)]; k != nil && bytes.Equal(got.Params.Token, k.token) {
		k.heard, k.progress = time.Now(), max(k.progress, got.Params.Progress)
	}
}

// cancel takes the client's word that it does not want an answer any more.
func (c *calls) cancel(id json.RawMessage) (k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k = c.open[string(id)]; k != nil {
		k.silent = true
	}
	return k
}

// begin carries a request beside the others, when there is a slot for it.
func (p *pipe) begin(ctx context.Context, m message, busy *sync.WaitGroup, free chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	k, refusal := p.calls.add(m, cancel)
	if refusal != "" {
		cancel()
		p.write(failure(m.ID, codeInvalid, refusal))
		return
	}
	busy.Go(func() {
		defer cancel()
		defer p.calls.remove(m)
		stop := p.report(ctx, k)
		defer stop()
		if m.Method != methodListen {
			select {
			case free <- struct{}{}:
				defer func() { <-free }()
			case <-ctx.Done():
				p.answer(m, codeLost, "the connection is closing, and this request was not sent")
				return
			}
		}
		p.carry(ctx, m)
	})
}

// report tells the client of a call that takes long, until the call has an answer.
func (p *pipe) report(ctx context.Context, k *call) (stop func()) {
	if k.token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(p.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				p.tell(k, now)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// tell writes one notification, unless the bridge has said something itself. The lock keeps it before the answer.
func (p *pipe) tell(k *call, now time.Time) {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	if k.silent || now.Sub(k.heard) < p.o.Every/2 {
		return
	}
	k.progress += progressStep
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": methodProgress,
		"params": map[string]any{"progressToken": k.token, "progress": k.progress, "message": "the call is still under way"}})
	if err == nil {
		p.write(data)
	}
}

// cancelled passes a cancellation on. A request without a session ends with its connection; in a session the bridge gets the word first.
func (p *pipe) cancelled(ctx context.Context, m message) {
	k := p.calls.cancel(m.Params.Request)
	if k == nil || !k.alone {
		p.carry(ctx, m)
	}
	if k != nil {
		k.cancel()
	}
}

// notices is the stream of what the bridge sends by itself. The zero value is closed. Safe for concurrent use.
type notices struct {
	mu    sync.Mutex // guards stop and over
	stop  context.CancelFunc
	ended chan struct{}
	over  bool
}

func (n *notices) end() {
	n.mu.Lock()
	n.over = true
	stop, ended := n.stop, n.ended
	n.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
}

// noticePause is how long the pipe waits before it opens a stream again that ended.
const noticePause = 2 * time.Second

// hear opens the stream of the session that has begun, in the place of an earlier one. It does not wait.
func (p *pipe) hear(ctx context.Context) {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	n := &p.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if !p.o.Notices || session == "" || n.over {
		return
	}
	if n.stop != nil {
		n.stop()
		<-n.ended
	}
	ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	n.ended = ended
	go func() {
		defer close(ended)
		for p.listen(ctx, session) {
			_ = pause.For(ctx, noticePause)
		}
	}()
}

// listen reads one stream to its end, and reports whether it is worth to open another.
func (p *pipe) listen(ctx context.Context, session string) (again bool) {
	req, err := p.request(ctx, http.MethodGet, nil)
	if err != nil {
		return ctx.Err() == nil
	}
	p.mu.Lock()
	version := p.version
	p.mu.Unlock()
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(sessionHeader, session)
	if version != "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return ctx.Err() == nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		// The bridge has no stream for this session. A message that finds the session gone begins another.
		return resp.StatusCode == http.StatusServiceUnavailable && ctx.Err() == nil
	}
	eachMessage(resp.Header.Get("Content-Type"), resp.Body, p.write)
	return ctx.Err() == nil
}

// failure is an error of the protocol under an id.
func failure(id json.RawMessage, code int, text string) []byte {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
	if err != nil {
		panic(fmt.Sprintf("write an error: %v", err)) // an id that was read and a text
	}
	return data
}
