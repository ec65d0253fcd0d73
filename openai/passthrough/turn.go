package passthrough

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"drawbridge/internal/completions"
	"drawbridge/internal/loosejson"
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
	// closing is set at the end of the answer.
	closing bool
	// offered are the names of the tools that the request offers.
	offered map[string]bool
	// content and thought put the two texts together.
	content, thought loosejson.Joiner
	// finish is the API's word for the end that the endpoint vouched for, "" until it does. ended is the endpoint's own word.
	finish, ended string
	// kind is the answer's media type; heard is set once the stream had an event.
	kind  string
	heard bool
	// loose is set when something came behind the word for the end: then the connection's end is none.
	loose bool
	usage *upstream.Usage
	over  bool
}

// open reads from an answer that the endpoint began.
func (t *turn) open(resp *http.Response) *turn {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	t.resp, t.lines, t.stream, t.kind = resp, bufio.NewReaderSize(resp.Body, 32<<10), err != nil || kind != "application/json", kind
	return t
}

// alien says that what answers is no endpoint of this API, such as the page of a login.
func (t *turn) alien() error {
	e := upstream.MayHaveBegun("upstream_garbage", "the endpoint's answer is not a chat completion ("+cmp.Or(t.p.shown(t.kind), "no Content-Type")+"); look at the url of upstream "+t.p.o.Name)
	e.Said = t.p.base + "/chat/completions"
	return e
}

// Ref implements upstream.Turn: an answer does not outlive the process.
func (t *turn) Ref() string { return "" }

// Deliver implements upstream.Turn. Results come in the next request.
func (t *turn) Deliver(context.Context, []upstream.Result) error {
	return &upstream.Error{Status: http.StatusUnprocessableEntity, Type: "invalid_request_error", Code: "not_waiting", Message: "this model does not wait for results; send them in the next request", NothingHappened: true}
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
	t.heard = t.heard || err == nil
	t.silence.Reset(t.p.o.Silence)
	switch {
	case errors.Is(err, errLine):
		return upstream.MayHaveBegun("upstream_garbage", fmt.Sprintf("the endpoint sent an event of more than %d bytes; the answer was cut off", maxLine))
	case err != nil && t.finish != "" && !t.loose:
		return t.end() // all was said
	case err != nil:
		return t.cut(err)
	case string(data) == "[DONE]":
		return t.end()
	}
	return t.chunk(data)
}

// cut words the end of a stream that did not say that it is complete.
func (t *turn) cut(err error) error {
	switch {
	case errors.Is(context.Cause(t.ctx), errSilent):
		return t.p.silent()
	case errors.Is(err, io.EOF) && !t.heard && t.kind != "text/event-stream":
		return t.alien()
	}
	return upstream.MayHaveBegun("upstream_cut", "the endpoint's answer broke off, so it is not complete; send the request again as a new one")
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
		return t.cut(err)
	}
	if len(body) > maxWhole {
		return upstream.MayHaveBegun("upstream_garbage", fmt.Sprintf("the endpoint's answer has more than %d bytes", maxWhole))
	}
	var c completion
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 && !loosejson.Said(c.Error) {
		return t.alien()
	}
	for i := range c.Choices {
		if !loosejson.Said(c.Choices[i].Delta) {
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
		Index   json.RawMessage `json:"index"`
		Delta   json.RawMessage `json:"delta"`
		Message json.RawMessage `json:"message"`
		Finish  json.RawMessage `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (t *turn) chunk(data []byte) error {
	var c completion
	if json.Unmarshal(data, &c) != nil {
		return upstream.MayHaveBegun("upstream_garbage", "the endpoint sent an event that is not JSON of a chat completion; the answer is not complete")
	}
	return t.take(c)
}

// take queues what a chunk says. Only the first choice is read: the door asks for one.
func (t *turn) take(c completion) error {
	if loosejson.Said(c.Error) {
		body, _ := json.Marshal(map[string]json.RawMessage{"error": c.Error})
		message, _, code := readError(body)
		if tooLong.MatchString(code + " " + message) {
			e := upstream.MayHaveBegun("context_length_exceeded", "the conversation is too long for the endpoint")
			e.Type, e.Said = "invalid_request_error", t.p.shown(message)
			return e
		}
		e := upstream.MayHaveBegun("upstream_failed", "the endpoint failed in its answer")
		e.Said = cmp.Or(t.p.shown(message), "it does not say why")
		return e
	}
	if u := completions.ReadUsage(c.Usage); u != nil {
		t.usage = u
	}
	for _, choice := range c.Choices {
		if n := loosejson.Number(choice.Index); n != nil && *n != 0 {
			continue
		}
		delta, ok := loosejson.Object(choice.Delta)
		if !ok {
			return upstream.MayHaveBegun("upstream_garbage", "the endpoint sent an unreadable piece of its answer; the answer is not complete")
		}
		if err := t.delta(delta); err != nil {
			return err
		}
		t.word(loosejson.Text(choice.Finish))
	}
	return nil
}

// word takes the endpoint's word for the end. Some endpoints send one with each piece; the last one counts.
func (t *turn) word(said string) {
	if said == "" || said == "null" {
		return
	}
	t.ended, t.finish = said, completions.Finish(said)
}

// known are the fields of a delta that the door writes itself.
var known = map[string]bool{"role": true, "content": true, "tool_calls": true, "reasoning_content": true, "reasoning": true, "function_call": true}

func (t *turn) delta(d map[string]json.RawMessage) error {
	thought := t.thought.Add(d["reasoning_content"])
	if thought == "" {
		thought = t.thought.Add(d["reasoning"])
	}
	content, inner := t.parts(d["content"])
	if thought += inner; thought != "" {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Reasoning, Text: thought})
	}
	var extra map[string]json.RawMessage
	for key, v := range d {
		if !known[key] && loosejson.Said(v) {
			if extra == nil {
				extra = map[string]json.RawMessage{}
			}
			extra[key] = v
		}
	}
	t.loose = t.loose || t.finish != "" && (content != "" || loosejson.Said(d["tool_calls"]))
	if content != "" || extra != nil {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Text, Text: content, Extra: extra})
	}
	var calls []map[string]json.RawMessage
	if loosejson.Said(d["tool_calls"]) && json.Unmarshal(d["tool_calls"], &calls) != nil {
		return upstream.MayHaveBegun("upstream_garbage", "the endpoint sent unreadable tool calls; the answer is not complete")
	}
	for _, c := range calls {
		t.piece(c)
	}
	if old, ok := loosejson.Object(d["function_call"]); ok && len(old) > 0 { // the API's earlier form, which has one call
		t.loose = t.loose || t.finish != ""
		t.piece(map[string]json.RawMessage{"index": json.RawMessage("0"), "function": d["function_call"]})
	}
	return nil
}

// parts reads content: a string, or parts of text and thoughts.
func (t *turn) parts(raw json.RawMessage) (content, thought string) {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return t.content.Add(raw), ""
	}
	for _, p := range list {
		content += t.content.Add(p["text"])
		var inner []map[string]json.RawMessage
		if loosejson.Text(p["type"]) == "thinking" && json.Unmarshal(p["thinking"], &inner) == nil {
			for _, q := range inner {
				thought += t.thought.Add(q["text"])
			}
		} else {
			thought += t.thought.Add(p["thinking"])
		}
	}
	return content, thought
}

// end queues the end of the answer. An end that the endpoint did not vouch for is an error: what came before may not be all.
func (t *turn) end() error {
	switch {
	case t.finish == "" && t.ended != "":
		return upstream.MayHaveBegun("upstream_cut", "the endpoint ended its answer with the unknown finish_reason "+strconv.Quote(t.p.shown(t.ended))+", so it may not be complete; send the request again as a new one")
	case t.finish == "":
		return upstream.MayHaveBegun("upstream_cut", "the endpoint's answer ended without a finish_reason, so it may not be complete; send the request again as a new one")
	}
	if left := t.content.Rest(); left != "" {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Text, Text: left})
	}
	if err := t.closeCalls(); err != nil {
		return err
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
