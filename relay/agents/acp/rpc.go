package acp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"

	sdk "github.com/coder/acp-go-sdk"
)

// Bounds of what an agent can make us hold or do.
const (
	// maxLine bounds a message, in bytes.
	maxLine = 8 << 20
	// keepLine is how large a buffer for lines is kept between two of them, in bytes.
	keepLine = 1 << 20
	// maxGarbage bounds what an agent may write that is not a message, in bytes, between two messages.
	maxGarbage = 1 << 20
	// maxAsked bounds the requests of an agent that are answered at a time.
	maxAsked = 64
	// writeFor is how long an agent may leave its input unread.
	writeFor = 10 * time.Second
	// endSoon is how long the end of a process may come after the end of its input.
	endSoon = 3 * time.Second
	// sample is how much of a text of the agent's goes into a reason, in bytes.
	sample = 200
)

// message is any JSON-RPC message.
type message struct {
	JSONRPC json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// rpcError is the answer of a side that could not do what it was asked for.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// problemOf reads the error of an answer, nil where there is none. In another form than an object it is the message.
func problemOf(raw json.RawMessage) *rpcError {
	if !loosejson.Said(raw) {
		return nil
	}
	var e struct {
		Code    loosejson.Value[float64] `json:"code"`
		Message loosejson.Value[string]  `json:"message"`
		Data    json.RawMessage          `json:"data"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return &rpcError{Message: cmp.Or(loosejson.Text(raw), string(raw))}
	}
	return &rpcError{int(e.Code.Is), e.Message.Is, e.Data}
}

// Error is the code and the message.
func (e *rpcError) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// Codes of errors, as the protocol has them.
const (
	codeAuth      = -32000
	codeNotFound  = -32002
	codeNoMethod  = -32601
	codeBadParams = -32602
	codeInternal  = -32603
)

// handlers are what the agent reaches.
type handlers struct {
	// notified is called for each notification, in order, on the goroutine that reads. It must not block.
	notified func(method string, params json.RawMessage)
	// asked answers a request, on a goroutine of its own. ctx ends with the connection, or when the agent takes the request back.
	asked func(ctx context.Context, method string, params json.RawMessage) (any, *rpcError)
}

// rpc is JSON-RPC over lines. What the agent writes is pushed into Write and handled there, so that an agent that writes faster than
// it is handled has to wait, and that an answer is handled after everything that came before it.
type rpc struct {
	input    Input
	handlers handlers
	clean    func(string) string
	// context makes the context of a request of the agent's.
	context func() (context.Context, context.CancelFunc)
	// done is closed when the connection is over.
	done chan struct{}
	// unread is that of the options.
	unread func() (int, error)
	// written counts the bytes that went into the input. gone is true when the process and all that it started have ended.
	written atomic.Int64
	gone    atomic.Bool

	// Only Write uses these fields.
	line    []byte
	garbage int
	// last is the digest of the message before, and lastBare is set when it had no text around it.
	last     uint64
	lastBare bool
	seed     maphash.Seed

	writing sync.Mutex
	asks    sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	next  uint64
	calls map[uint64]chan message
	// asking are the agent's requests that are being answered, by the text of their id.
	asking map[string]context.CancelFunc
	over   *agents.Error
	noise  agents.Noise
}

func newRPC(ctx context.Context, o Options, h handlers) *rpc {
	return &rpc{
		seed:  maphash.MakeSeed(),
		input: o.Input, unread: o.Unread, handlers: h, clean: o.clean, done: make(chan struct{}), calls: map[uint64]chan message{}, asking: map[string]context.CancelFunc{},
		context: func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
	}
}

// Write takes what the agent wrote. It never fails, and drops everything once the connection is over.
func (r *rpc) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && r.end() == nil; {
		i := bytes.IndexByte(rest, '\n')
		more := i
		if i < 0 {
			more = len(rest)
		}
		if len(r.line)+more > maxLine {
			r.line = nil
			r.fail(&agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent wrote a line of more than %d MiB", maxLine>>20)})
			break
		}
		if i < 0 {
			r.line = append(r.line, rest...)
			break
		}
		if len(r.line) == 0 {
			r.take(rest[:i])
		} else {
			r.line = append(r.line, rest[:i]...)
			r.take(r.line)
		}
		if r.line = r.line[:0]; cap(r.line) > keepLine {
			r.line = nil
		}
		rest = rest[i+1:]
	}
	return len(p), nil
}

// take handles one line.
func (r *rpc) take(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	objects, bare, alone := []json.RawMessage{line}, true, line[0] == '{' && json.Valid(line)
	if !alone {
		objects, bare = agents.Objects(line)
	}
	heard := false
	for _, object := range objects {
		var m message
		if json.Unmarshal(object, &m) != nil {
			continue
		}
		if m.Method == sdk.ClientMethodSessionUpdate && !loosejson.Said(m.ID) {
			m.ID = nil
		}
		if m.ID == nil && m.Method == "" || !bare && !m.surely() || r.copied(object, bare) {
			continue
		}
		if !heard && !alone {
			r.count(line)
		}
		r.hear(m)
		heard = true
	}
	if !heard {
		r.note(line)
	}
}

// copied reports whether a message is the one before once more: once by itself, and once in a log.
func (r *rpc) copied(object []byte, bare bool) bool {
	sum := maphash.Bytes(r.seed, object)
	twice := sum == r.last && bare != r.lastBare
	r.last, r.lastBare = sum, bare
	if twice {
		r.last = 0
	}
	return twice
}

// surely reports whether the agent itself sent a message that has text around it: an update, a question, or an answer that is none of ours. A log
// may quote one of ours.
func (m message) surely() bool {
	if m.Method != "" {
		return m.Method == sdk.ClientMethodSessionUpdate && m.ID == nil || m.Method == sdk.ClientMethodSessionRequestPermission && m.ID != nil
	}
	if e := problemOf(m.Error); e != nil { // we refuse with these two codes
		return e.Code != codeNoMethod && e.Code != codeBadParams
	}
	result, _ := loosejson.Object(m.Result)
	_, ours := result["outcome"]
	return !ours
}

// hear handles one message.
func (r *rpc) hear(m message) {
	r.garbage = 0
	switch {
	case m.Method == "$/cancel_request" && m.ID == nil:
		r.takeBack(m.Params)
	case m.Method != "" && m.ID != nil:
		r.answer(m)
	case m.Method != "":
		r.handlers.notified(m.Method, m.Params)
	default:
		r.deliver(m)
	}
}

// note counts what is not a message. Agents print a banner or a warning now and then; one that goes on so speaks another language.
func (r *rpc) note(line []byte) {
	r.garbage += len(line) + 1
	r.count(line)
	if r.garbage > maxGarbage {
		r.fail(&agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent does not write messages of the Agent Client Protocol; its output begins with %q", r.dropped().First)})
	}
}

// count remembers that a line held something beside a message.
func (r *rpc) count(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begins := ""
	if r.noise.Lines == 0 {
		// More than is shown, so that a secret in it is whole when it is looked for.
		begins = r.clean(string(line[:min(len(line), keepLine)]))
	}
	r.noise.Add(begins)
}

// dropped returns what was left out so far.
func (r *rpc) dropped() agents.Noise {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noise
}

// deliver hands an answer to the call that waits for it. An answer for which no call waits is dropped.
func (r *rpc) deliver(m message) {
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	if reply := r.calls[id]; err == nil && reply != nil {
		delete(r.calls, id)
		reply <- m
	}
}

// answer answers a request of the agent's. Each one gets an answer.
func (r *rpc) answer(m message) {
	ctx, cancel := r.context()
	key := string(m.ID)
	r.mu.Lock()
	crowded := len(r.asking) >= maxAsked
	_, twice := r.asking[key]
	begin := r.over == nil && !crowded && !twice
	if begin {
		r.asking[key] = cancel
		r.asks.Add(1)
	}
	r.mu.Unlock()
	switch {
	case begin:
	case crowded:
		cancel()
		r.fail(&agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent sent more than %d requests at once", maxAsked)})
		return
	case twice:
		cancel()
		r.fail(&agents.Error{Cause: agents.Crashed, Reason: "the agent sent two requests with the same id"})
		return
	default:
		cancel()
		return
	}
	go func() {
		defer r.asks.Done()
		result, problem := r.handlers.asked(ctx, m.Method, m.Params)
		r.mu.Lock()
		delete(r.asking, key)
		r.mu.Unlock()
		cancel()
		out := message{ID: m.ID}
		if problem == nil {
			out.Result, _ = json.Marshal(result) // of our own types
		} else {
			out.Error, _ = json.Marshal(problem)
		}
		_ = r.send(out)
	}()
}

// takeBack ends a request that the agent does not want answered any more.
func (r *rpc) takeBack(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.asking[string(p.RequestID)]; cancel != nil {
		cancel()
	}
}

// call asks the agent and waits for its answer, until ctx is done or the connection is over. An answer that came before the end counts.
// The error is an *rpcError, an *agents.Error, or the cause of ctx.
func (r *rpc) call(ctx context.Context, method string, params, result any) error {
	reply := make(chan message, 1)
	r.mu.Lock()
	r.next++
	id := r.next
	r.calls[id] = reply
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.calls, id)
		r.mu.Unlock()
	}()
	if err := r.request(strconv.AppendUint(nil, id, 10), method, params); err != nil {
		return r.endAfter(ctx, err)
	}
	var m message
	select {
	case m = <-reply:
	case <-r.done:
		select {
		case m = <-reply:
		default:
			return r.end()
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e := problemOf(m.Error); e != nil {
		return e
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent's answer to %s cannot be read: %s", method, r.clean(err.Error()))}
	}
	return nil
}

// endAfter returns how the connection ended, after a message that could not be written. The end of the process says more, and comes soon.
func (r *rpc) endAfter(ctx context.Context, err error) error {
	soon := time.NewTimer(endSoon)
	defer soon.Stop()
	select {
	case <-r.done:
		return r.end()
	case <-soon.C:
	case <-ctx.Done():
	}
	return err
}

// untouched reports whether the process has ended, and had read nothing of what was written after the first mark bytes.
func (r *rpc) untouched(mark int64) bool {
	if r.unread == nil || !r.gone.Load() {
		return false
	}
	left, err := r.unread()
	return err == nil && r.written.Load()-int64(left) <= mark
}

// request sends a request, or a notification when id is nil.
func (r *rpc) request(id json.RawMessage, method string, params any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("write %s: %w", method, err)
	}
	return r.send(message{ID: id, Method: method, Params: text})
}

// send writes one message. An agent that does not read it in time is given up, because half a message may be in its input.
func (r *rpc) send(m message) error {
	m.JSONRPC = json.RawMessage(`"2.0"`)
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if over := r.end(); over != nil {
		return over
	}
	err = r.input.SetWriteDeadline(time.Now().Add(writeFor))
	if err == nil {
		var n int
		n, err = r.input.Write(append(text, '\n'))
		r.written.Add(int64(n))
	}
	if err == nil {
		return nil
	}
	ended := &agents.Error{Cause: agents.Crashed, Reason: "the agent closed its input"}
	if isTimeout(err) {
		ended = &agents.Error{Cause: agents.Hung, Reason: fmt.Sprintf("the agent did not read its input for %s", writeFor)}
		r.fail(ended)
	}
	// An agent that is gone may have answered before: what it wrote is still on its way, and its end comes after that.
	return ended
}

// end returns how the connection ended, nil as long as it goes on.
func (r *rpc) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		return nil
	}
	return r.over
}

// fail ends the connection. Only the first end counts.
func (r *rpc) fail(why *agents.Error) {
	r.mu.Lock()
	if r.over != nil {
		r.mu.Unlock()
		return
	}
	r.over = why
	asking := r.asking
	r.asking = map[string]context.CancelFunc{}
	r.mu.Unlock()
	for _, cancel := range asking {
		cancel()
	}
	close(r.done)
}
