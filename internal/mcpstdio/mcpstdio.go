// Package mcpstdio carries MCP messages between standard input and output and
// the door of a running bridge, one line a message, so that a client which can
// only start a process reaches the same daemon as all others. It understands
// nothing of the messages but what the HTTP transport needs in its headers. Rule
// of thumb: every request that came in gets one answer out, whatever happens to
// the bridge meanwhile.
package mcpstdio

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Options configures Run. All but Log are required.
type Options struct {
	// Open returns the door and the agent's own token. The pipe calls it until it succeeds, one call at a time, and shows
	// its error to the client.
	Open func(context.Context) (Door, error)
	// Agent is whose token it should be; another's is refused.
	Agent string
	In    io.Reader
	Out   io.Writer
	// Log gets a line when something goes wrong; it never gets a message.
	Log io.Writer
	// Transport replaces the network. Its errors may be an [Unsent].
	Transport http.RoundTripper
	// Patience is how long one answer may take; default 2 minutes.
	Patience time.Duration
	// Every is how often the client hears of a call that takes long, if it asked for progress; default 5 seconds.
	Every time.Duration
	// Notices opens a stream for what the bridge sends by itself, in the protocols with sessions.
	Notices bool
}

// Unsent is the error of a Transport that sent nothing of a request. The client sees the reason.
type Unsent struct{ Reason string }

// Error implements error.
func (e *Unsent) Error() string { return e.Reason }

// Door is where an agent's messages go, and with which token.
type Door struct {
	// URL is as Endpoint makes it.
	URL, Token string
}

// Endpoint returns the door's address at a bridge: all toolsets of the agent, or
// one when set is not empty.
func Endpoint(base, set string) string {
	address := strings.TrimRight(base, "/") + "/mcp"
	if set != "" {
		address += "/" + url.PathEscape(set)
	}
	return address
}

// The bounds of the pipe: how long one message and one answer may be in bytes (a
// hundred passages of quotes are the longest that the bridge gives), how long one
// answer may take, and how many requests are under way at a time.
const (
	maxLine   = 4 << 20
	maxAnswer = 32 << 20
	patience  = 2 * time.Minute
	slots     = 16
	// maxWaiting is how many requests may wait for a slot, and maxWaitingBytes how long they are together.
	maxWaiting      = 256
	maxWaitingBytes = 8 << 20
	// every is how often a client hears of a call that takes long: some give up a call that is silent for a minute.
	every = 5 * time.Second
)

// newEra is the first version of the protocol in which a request stands alone.
const newEra = "2026-07-28"

// pipe is one client's connection.
type pipe struct {
	o    Options
	http *http.Client

	out sync.Mutex // guards o.Out

	mu      sync.Mutex // guards session, version, hello
	session string
	version string
	// hello are the client's own first messages, to begin a session again with.
	hello [][]byte
	// beginning makes one goroutine at a time do that.
	beginning sync.Mutex

	asking sync.Mutex // guards door
	door   Door

	calls calls
	// notices runs the stream of the session that is open now.
	notices notices
}

// errNoToken is the end of a message that could not be sent for want of a token.
type errNoToken struct{ error }

// enter returns the door, and asks for it when it is not known yet: the bridge
// may come up later than its clients.
func (p *pipe) enter(ctx context.Context) (Door, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	if p.door.Token == "" {
		door, err := p.o.Open(ctx)
		if err != nil {
			return Door{}, errNoToken{err}
		}
		p.door = door
	}
	return p.door, nil
}

// Run carries messages until In ends or ctx does; then what is under way is
// answered first. It returns an error only when In or Out fails.
func Run(ctx context.Context, o Options) error {
	if o.Transport == nil {
		network := &http.Transport{DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: slots, IdleConnTimeout: time.Minute}
		defer network.CloseIdleConnections()
		o.Transport = network
	}
	o.Patience, o.Every = cmp.Or(o.Patience, patience), cmp.Or(o.Every, every)
	p := &pipe{o: o, http: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() { // ends with In, which nothing can interrupt; main ends the process
		defer close(lines)
		failed <- p.read(ctx, lines)
	}()
	var busy sync.WaitGroup
	free := make(chan struct{}, slots)
	defer p.bye(ctx)
	defer p.notices.end()
	defer busy.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return <-failed
			}
			m := look(line)
			switch {
			case m.fault != nil:
				p.answer(m, m.fault.code, m.fault.text)
			case m.Method == methodCancelled:
				p.cancelled(ctx, m)
			case m.Method == "" || m.ID == nil || m.Method == methodInitialize:
				// What has no answer, and what all others wait for, stays in order.
				p.carry(ctx, m)
			default:
				p.begin(ctx, m, &busy, free)
			}
		}
	}
}

// carry sends one message and writes what comes back.
func (p *pipe) carry(ctx context.Context, m message) {
	if m.Method != methodListen {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.Patience)
		defer cancel()
	}
	resp, err := p.post(ctx, m)
	if err == nil && resp.StatusCode == http.StatusNotFound && m.Method != methodInitialize && resp.Request.Header.Get(sessionHeader) != "" {
		// The bridge does not know the session: it restarted, or nobody spoke for
		// long. The message did nothing, so that it may be sent again.
		_ = resp.Body.Close()
		if err = p.again(ctx, resp.Request.Header.Get(sessionHeader)); err == nil {
			resp, err = p.post(ctx, m)
		}
	}
	if err != nil {
		p.lost(m, err)
		return
	}
	defer resp.Body.Close()
	if m.Method == methodInitialize || m.Method == methodInitialized {
		p.greet(m, resp)
	}
	p.relay(m, resp)
	if m.Method == methodInitialized {
		p.hear(ctx)
	}
}

// greet remembers how a session began.
func (p *pipe) greet(m message, resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Method == methodInitialize {
		p.hello, p.session, p.version = nil, resp.Header.Get(sessionHeader), ""
	}
	p.hello = append(p.hello, m.raw)
}

// again opens a session again with the client's own first messages, unless
// another request did so already.
func (p *pipe) again(ctx context.Context, lost string) error {
	p.beginning.Lock()
	defer p.beginning.Unlock()
	p.mu.Lock()
	done, hello := p.session != lost, p.hello
	if !done {
		p.session, p.version = "", ""
	}
	p.mu.Unlock()
	if done {
		return nil
	}
	for _, raw := range hello {
		m := look(raw)
		resp, err := p.post(ctx, m)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode > 299 {
			return fmt.Errorf("begin the session again: HTTP %d", resp.StatusCode)
		}
		if m.Method == methodInitialize {
			p.mu.Lock()
			p.session = resp.Header.Get(sessionHeader)
			p.mu.Unlock()
			eachMessage(resp.Header.Get("Content-Type"), bytes.NewReader(body), p.note)
		}
	}
	fmt.Fprintln(p.o.Log, "drawbridge: the bridge no longer knew the session, so a new one was begun")
	p.hear(ctx)
	return nil
}

// note learns the version from the answer to initialize.
func (p *pipe) note(data []byte) bool {
	var hello struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(data, &hello) == nil && hello.Result.Version != "" {
		p.mu.Lock()
		p.version = hello.Result.Version
		p.mu.Unlock()
	}
	return true
}

func (p *pipe) post(ctx context.Context, m message) (*http.Response, error) {
	req, err := p.request(ctx, http.MethodPost, bytes.NewReader(m.raw))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	session, version := p.session, p.version
	p.mu.Unlock()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if v := m.Params.Meta.Version; v >= newEra {
		// The new era repeats in headers what the body says.
		version, session = v, ""
		req.Header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI; name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	if version != "" && m.Method != methodInitialize {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	if session != "" && m.Method != methodInitialize {
		req.Header.Set(sessionHeader, session)
	}
	return p.http.Do(req)
}

// request makes a request to the door in the agent's name.
func (p *pipe) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	door, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, door.URL, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+door.Token)
	req.Header.Set("Drawbridge-Agent", p.o.Agent)
	return req, nil
}

// relay writes the messages of an answer. A request that got none is told so.
func (p *pipe) relay(m message, resp *http.Response) {
	kind := resp.Header.Get("Content-Type")
	protocol := strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "application/json")
	if resp.StatusCode > 299 {
		p.refused(m, resp)
		return
	}
	answered := m.ID == nil || m.response
	if protocol {
		eachMessage(kind, resp.Body, func(data []byte) bool {
			if m.Method == methodInitialize {
				p.note(data)
			}
			// An answer has the request's id and no method.
			got := look(bytes.TrimSpace(data))
			if got.Method == "" && bytes.Equal(got.ID, m.ID) {
				answered = true
				if !p.calls.answering(m) {
					return true
				}
			}
			p.calls.heard(m, got)
			return m.response || p.write(data)
		})
	}
	if !answered {
		p.lost(m, errors.New("the answer was cut off"))
	}
}

// refused tells of an answer that is an error of HTTP: with the bridge's own
// message, or the protocol's error when it carries one.
func (p *pipe) refused(m message, resp *http.Response) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var ours struct {
		Jsonrpc string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	known := err == nil && json.Unmarshal(body, &ours) == nil
	if known && ours.Jsonrpc != "" && m.ID != nil && bytes.Equal(ours.ID, m.ID) {
		if p.calls.answering(m) {
			p.write(body)
		}
		return
	}
	text, code := ours.Error.Message, codeLost
	switch {
	case ours.Jsonrpc != "" && ours.Error.Code != 0:
		code = ours.Error.Code
	case text != "":
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		text = fmt.Sprintf("the message has %d bytes, which is more than the bridge takes; send less", len(m.raw))
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"):
		text = fmt.Sprintf("the bridge answered with HTTP %s: %.300s", resp.Status, bytes.TrimSpace(body))
	default:
		text = "the bridge answered with HTTP " + resp.Status
	}
	p.answer(m, code, text)
}

// lost tells of a request without an answer, and whether it may have had its effect.
func (p *pipe) lost(m message, err error) {
	var op *net.OpError
	var none errNoToken
	var unsent *Unsent
	text := "the bridge gave no answer, so the call may or may not have had its effect; look before you repeat it"
	if m.Params.Arguments.Key != "" {
		text = "the bridge gave no answer, so the call may or may not have had its effect; repeat it with the same idempotency_key, and it takes effect once"
	}
	switch {
	case errors.As(err, &unsent):
		text = unsent.Reason
	case errors.As(err, &none):
		text = none.Error()
	case errors.As(err, &op) && op.Op == "dial":
		text = "no bridge answers at " + p.address() + "; start it with `drawbridge serve`"
	}
	p.answer(m, codeLost, text)
}

// address returns the door's URL, once it is known.
func (p *pipe) address() string {
	p.asking.Lock()
	defer p.asking.Unlock()
	return p.door.URL
}

// answer writes an error of the protocol in answer to a request. It writes to the log
// instead for a notification and for a response: neither is ever answered. What
// cannot be read is answered under null, as JSON-RPC has it.
func (p *pipe) answer(m message, code int, text string) {
	if !p.calls.answering(m) {
		return
	}
	switch {
	case m.fault == nil && (m.response || (m.ID == nil && m.Method != "")):
		fmt.Fprintln(p.o.Log, "drawbridge:", text)
		return
	case m.ID == nil:
		m.ID = json.RawMessage("null")
	}
	p.write(failure(m.ID, code, text))
}

// write puts one message on a line of its own; false when nobody reads any more.
func (p *pipe) write(data []byte) bool {
	var line bytes.Buffer
	if json.Compact(&line, data) != nil {
		return true // not a message; there is nothing to tell of it
	}
	line.WriteByte('\n')
	p.out.Lock()
	defer p.out.Unlock()
	_, err := p.o.Out.Write(line.Bytes())
	return err == nil
}

// bye ends the session at the bridge, so that it does not wait for its time-out.
func (p *pipe) bye(ctx context.Context) {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	req, err := p.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	req.Header.Set(sessionHeader, session)
	if resp, err := p.http.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// eachMessage calls fn with each message of an answer, as JSON or as a stream of
// events, until fn returns false.
func eachMessage(kind string, body io.Reader, fn func([]byte) bool) {
	if !strings.HasPrefix(kind, "text/event-stream") {
		if data, err := io.ReadAll(io.LimitReader(body, maxAnswer)); err == nil && len(bytes.TrimSpace(data)) > 0 {
			fn(data)
		}
		return
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(text, []byte(" "))...), '\n')
			continue
		}
		if len(line) == 0 && len(bytes.TrimSpace(data)) > 0 {
			if !fn(data) {
				return
			}
		}
		if len(line) == 0 {
			data = data[:0]
		}
	}
}
