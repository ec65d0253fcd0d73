package passthrough

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"drawbridge/openai/upstream"
)

// turn is one answer of the endpoint. Next is called by one goroutine at a time, Cancel by any.
type turn struct {
	p       *Endpoint
	resp    *http.Response
	lines   *bufio.Reader
	ctx     context.Context //nolint:containedctx // the request's own; it ends with the answer
	cancel  context.CancelCauseFunc
	silence *time.Timer
	stream  bool

	queue []upstream.Event
	calls []call
	// finish is what the endpoint said about the end, "" until it does.
	finish string
	usage  *upstream.Usage
	over   bool
}

// call is a call as it is being written.
type call struct {
	index    int
	id, name string
	// early are arguments that came before the name.
	early string
	extra map[string]json.RawMessage
}

// open reads from an answer that the endpoint began.
func (t *turn) open(resp *http.Response) *turn {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	t.resp, t.lines, t.stream = resp, bufio.NewReaderSize(resp.Body, 32<<10), err != nil || kind != "application/json"
	return t
}

// Ref implements upstream.Turn: an answer does not outlive the process.
func (t *turn) Ref() string { return "" }

// Deliver implements upstream.Turn. Results come in the next request.
func (t *turn) Deliver(context.Context, []upstream.Result) error {
	return &upstream.Error{Status: http.StatusUnprocessableEntity, Type: "invalid_request_error", Code: "not_waiting", Message: "this model waits for no result; send the results in the next request", NothingHappened: true}
}

// Cancel implements upstream.Turn: it closes the connection, which most endpoints take for the end.
func (t *turn) Cancel(context.Context) error {
	t.cancel(io.EOF)
	return nil
}

// Next implements upstream.Turn.
func (t *turn) Next(ctx context.Context) (upstream.Event, error) {
	stop := context.AfterFunc(ctx, func() { t.cancel(ctx.Err()) })
	defer stop()
	for len(t.queue) == 0 {
		if t.over {
			return upstream.Event{}, io.EOF
		}
		if err := t.read(); err != nil {
			t.close()
			return upstream.Event{}, err
		}
	}
	e := t.queue[0]
	t.queue = t.queue[1:]
	if e.Kind == upstream.Ended {
		t.close()
	}
	return e, nil
}

func (t *turn) close() {
	t.over = true
	t.silence.Stop()
	t.cancel(nil)
	_ = t.resp.Body.Close() // nothing more is wanted of it
}

// read takes one piece of the answer and queues what it says.
func (t *turn) read() error {
	if !t.stream {
		return t.whole()
	}
	data, err := t.event()
	t.silence.Reset(t.p.o.Silence)
	switch {
	case errors.Is(err, errLine):
		return t.p.broken("upstream_garbage", fmt.Sprintf("the endpoint sent an event of more than %d bytes; the answer was cut off", maxLine))
	case err != nil && t.finish != "":
		return t.end() // all was said
	case err != nil:
		return t.cut()
	case string(data) == "[DONE]":
		return t.end()
	}
	return t.chunk(data)
}

// cut words the end of a stream that did not say that it is complete.
func (t *turn) cut() error {
	if errors.Is(context.Cause(t.ctx), errSilent) {
		return t.p.silent()
	}
	return t.p.broken("upstream_cut", "the endpoint's answer broke off, so what came before is not all; send the request again as a new one")
}

var errLine = errors.New("line too long")

// event returns the data of the next server-sent event. Comments and other fields are skipped.
func (t *turn) event() ([]byte, error) {
	var data []byte
	for {
		line, err := t.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if data != nil {
				return data, nil
			}
			continue
		}
		rest, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			if bytes.HasPrefix(line, []byte(":")) {
				t.silence.Reset(t.p.o.Silence)
			}
			continue
		}
		if data != nil {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		if len(data) > maxLine {
			return nil, errLine
		}
		if string(data) == "[DONE]" {
			return data, nil // some close without the empty line
		}
	}
}

func (t *turn) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := t.lines.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > maxLine {
			return nil, errLine
		}
		if err == nil {
			return bytes.TrimRight(line, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// whole reads an answer of an endpoint that does not stream.
func (t *turn) whole() error {
	body, err := io.ReadAll(io.LimitReader(t.resp.Body, maxWhole+1))
	if err != nil {
		return t.cut()
	}
	if len(body) > maxWhole {
		return t.p.broken("upstream_garbage", fmt.Sprintf("the endpoint's answer has more than %d bytes", maxWhole))
	}
	var c completion
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 && !said(c.Error) {
		return t.p.broken("upstream_garbage", "the endpoint's answer is not a chat completion; look at the url of upstream "+t.p.o.Name)
	}
	for i := range c.Choices {
		if c.Choices[i].Delta == nil {
			c.Choices[i].Delta = c.Choices[i].Message
		}
	}
	if err := t.take(c); err != nil {
		return err
	}
	return t.end()
}

// completion is what is read of a chunk, and of a whole answer.
type completion struct {
	Choices []struct {
		Index   int                        `json:"index"`
		Delta   map[string]json.RawMessage `json:"delta"`
		Message map[string]json.RawMessage `json:"message"`
		Finish  *string                    `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Total      *int64 `json:"total_tokens"`
	In         *struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Out *struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u usage) counts() *upstream.Usage {
	out := &upstream.Usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total}
	if u.In != nil {
		out.Cached = u.In.Cached
	}
	if u.Out != nil {
		out.Reasoning = u.Out.Reasoning
	}
	return out
}

func said(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (t *turn) chunk(data []byte) error {
	var c completion
	if json.Unmarshal(data, &c) != nil {
		return t.p.broken("upstream_garbage", "the endpoint sent an event that is not JSON of a chat completion; what came before is not all")
	}
	return t.take(c)
}

// take queues what a chunk says. Only the first choice is read: the door asks for one.
func (t *turn) take(c completion) error {
	if said(c.Error) {
		body, _ := json.Marshal(map[string]json.RawMessage{"error": c.Error})
		message, _, code := readError(body)
		if tooLong.MatchString(code + " " + message) {
			e := t.p.broken("context_length_exceeded", "the endpoint says: "+t.p.shown(message))
			e.Status, e.Type = http.StatusBadRequest, "invalid_request_error"
			return e
		}
		return t.p.broken("upstream_failed", "the endpoint failed in its answer: "+first(t.p.shown(message), "it does not say why"))
	}
	if c.Usage != nil {
		t.usage = c.Usage.counts()
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := t.delta(choice.Delta); err != nil {
			return err
		}
		if choice.Finish != nil && *choice.Finish != "" {
			t.finish = finish(*choice.Finish)
		}
	}
	return nil
}

// finish is one of the API's four words for what an endpoint says.
func finish(said string) string {
	switch said {
	case "stop", "length", "tool_calls", "content_filter":
		return said
	case "function_call", "tool_use":
		return "tool_calls"
	case "max_tokens", "model_length":
		return "length"
	}
	return "stop"
}

// known are the fields of a delta that the door writes itself.
var known = map[string]bool{"role": true, "content": true, "tool_calls": true, "reasoning_content": true, "reasoning": true, "function_call": true}

func (t *turn) delta(d map[string]json.RawMessage) error {
	thought := text(d["reasoning_content"])
	if thought == "" {
		thought = text(d["reasoning"])
	}
	content, inner := parts(d["content"])
	if thought += inner; thought != "" {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Reasoning, Text: thought})
	}
	var extra map[string]json.RawMessage
	for key, v := range d {
		if !known[key] && said(v) {
			if extra == nil {
				extra = map[string]json.RawMessage{}
			}
			extra[key] = v
		}
	}
	if content != "" || extra != nil {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Text, Text: content, Extra: extra})
	}
	var calls []map[string]json.RawMessage
	if said(d["tool_calls"]) && json.Unmarshal(d["tool_calls"], &calls) != nil {
		return t.p.broken("upstream_garbage", "the endpoint sent calls of tools that cannot be read; what came before is not all")
	}
	for _, c := range calls {
		t.piece(c)
	}
	return nil
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // absent, null and other types read as nothing
	return s
}

// parts reads content: a string, or parts of text and thoughts.
func parts(raw json.RawMessage) (content, thought string) {
	if content = text(raw); content != "" {
		return content, ""
	}
	var list []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return "", ""
	}
	for _, p := range list {
		content += p.Text
		if p.Type == "thinking" {
			inner, _ := parts(p.Thinking)
			thought += inner
		}
	}
	return content, thought
}

// piece queues a piece of a call. Endpoints leave the index out, begin it at 1, or use one index for all calls; a new id with a name is a new call.
func (t *turn) piece(m map[string]json.RawMessage) {
	var f struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(m["function"], &f) // what is not there is empty
	index, id := -1, text(m["id"])
	if json.Unmarshal(m["index"], &index) != nil || !said(m["index"]) {
		index = -1
	}
	at := t.find(index, id, f.Name)
	if at < 0 {
		t.calls = append(t.calls, call{index: index, id: id})
		at = len(t.calls) - 1
	}
	c := &t.calls[at]
	arguments := text(f.Arguments)
	if arguments == "" && len(f.Arguments) > 0 && f.Arguments[0] == '{' {
		arguments = string(f.Arguments)
	}
	for key, v := range m {
		if key != "index" && key != "id" && key != "type" && key != "function" && said(v) {
			if c.extra == nil {
				c.extra = map[string]json.RawMessage{}
			}
			c.extra[key] = v
		}
	}
	if c.name != "" {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.CallPiece, Index: at, Arguments: arguments})
		return
	}
	c.early += arguments
	if c.id == "" {
		c.id = id
	}
	if c.name = f.Name; c.name != "" {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.CallPiece, Index: at, ID: c.id, Name: c.name, Arguments: c.early, Extra: c.extra})
	}
}

// find returns the call that a piece belongs to, -1 for a new one.
func (t *turn) find(index int, id, name string) int {
	for i := len(t.calls) - 1; i >= 0; i-- {
		c := t.calls[i]
		fresh := name != "" && c.name != "" && (id == "" || id != c.id)
		switch {
		case index >= 0 && c.index == index && !fresh, index < 0 && id != "" && c.id == id && !fresh:
			return i
		case index < 0 && id == "" && name == "":
			return i // more of the newest one
		}
	}
	return -1
}

// end queues the end of the answer.
func (t *turn) end() error {
	for _, c := range t.calls {
		if c.name == "" {
			return t.p.broken("upstream_garbage", "the endpoint called a tool without a name; nothing was called; send the request again as a new one")
		}
	}
	if t.finish == "" {
		t.finish = "stop"
	}
	if len(t.calls) > 0 && t.finish == "stop" {
		t.finish = "tool_calls"
	}
	if len(t.calls) == 0 && t.finish == "tool_calls" {
		t.finish = "stop"
	}
	t.queue = append(t.queue, upstream.Event{Kind: upstream.Ended, Finish: t.finish, Usage: t.usage})
	return nil
}
