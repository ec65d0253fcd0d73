package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// writeWithin is how long a caller may take to read one piece.
const writeWithin = time.Minute

// readBody reads a request's body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := httpx.ReadBody(w, r, maxBody)
	if errors.Is(err, httpx.ErrTooLarge) {
		return nil, &upstream.Error{Status: http.StatusRequestEntityTooLarge, Type: typeInvalid, Code: "request_too_large", NothingHappened: true,
			Message: fmt.Sprintf("the body has more than %d bytes; shorten the history, or send images by address", maxBody)}
	}
	if err != nil {
		return nil, invalid("", "unreadable_body", "the body did not arrive whole; send it again")
	}
	return body, nil
}

// reader is how a request reads a leg.
type reader struct {
	leg *leg
	// release lets the next request of the same body in.
	release func()
	// stream asks for events, and usage for an event with the usage.
	stream, usage bool
}

// answer gives a caller what its turn says, as a stream or at once.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, by reader) {
	l := by.leg
	httpx.RecordOf(r.Context()).Add("turn", l.id)
	conn := keptConn(r)
	var next <-chan struct{}
	if conn != nil {
		next = conn.Next()
	}
	had := false
	defer func() {
		leave := func() {
			d.parted(l, had) // first, so that a repeat sees why the reader left
			if had && conn != nil && d.endsAtOnce(conn, next) {
				d.mayBeLost(l)
			}
			l.leave()
			by.release()
		}
		if !d.aside(leave) { // beside the handler, so that the client's next request need not wait
			leave()
		}
	}()
	failed, there := d.firstSecond(r, l, by.stream)
	switch {
	case there && failed != nil:
		writeShown(w, r, failed, failed)
		had = sent(w)
	case by.stream:
		had = (&stream{w: w, r: r, leg: l, usage: by.usage}).run()
	default:
		had = d.whole(w, r, l)
	}
}

// parted notes how a reader of a turn left: with the whole answer, or because its connection broke.
func (d *Door) parted(l *leg, had bool) {
	row, _ := l.reading()
	if had && (row.Key != "" || !row.HadAt.IsZero() || row.State == TurnFailed && row.Body == "") {
		return // no repeat asks for it
	}
	ctx, done := d.lasting()
	defer done()
	err := d.save(ctx, l, nil, func(t *Turn) {
		switch {
		case had:
			t.HadAt, t.BrokenAt = d.now(), time.Time{}
		case t.HadAt.IsZero():
			t.BrokenAt = d.now()
		}
	})
	if err != nil && d.base.Err() == nil {
		d.o.Log.Warn().Err(err).Str("turn", l.id).Msg("how a caller left is not recorded; a repeat may begin a new turn, or get this answer again")
	}
}

// firstSecond waits until the backend took the turn or refused it, a second at most for a stream, whose caller then sees that somebody is there.
func (d *Door) firstSecond(r *http.Request, l *leg, stream bool) (failed *upstream.Error, there bool) {
	if !stream {
		return nil, false
	}
	timer := time.NewTimer(statusWait)
	defer timer.Stop()
	for {
		v := l.from(0)
		switch {
		case v.over && v.failed != nil && len(v.events) == 0:
			return v.failed, true
		case v.begun || v.over:
			return nil, true
		}
		select {
		case <-v.changed:
		case <-timer.C:
			return nil, false
		case <-r.Context().Done():
			return nil, false
		}
	}
}

// whole answers when all is said. It reports whether the caller got it.
func (d *Door) whole(w http.ResponseWriter, r *http.Request, l *leg) bool {
	httpx.Linger(w, 24*time.Hour)
	for {
		v := l.from(0)
		if !v.over {
			select {
			case <-v.changed:
			case <-r.Context().Done():
				return false
			case <-httpx.Draining(r.Context()):
				writeError(w, r, errStopping)
				return false
			}
			continue
		}
		if r.Context().Err() != nil {
			return false
		}
		httpx.Linger(w, writeWithin)
		if v.failed != nil {
			writeShown(w, r, v.failed, v.failed)
		} else {
			httpx.WriteJSON(w, http.StatusOK, completion(l, answerOf(v.events, nil)))
		}
		return sent(w)
	}
}

// sent sends what was written, and reports whether the caller was still there. A caller that has all may be gone by then.
func sent(w http.ResponseWriter) bool { return http.NewResponseController(w).Flush() == nil }

// completion is an answer that is not a stream.
func completion(l *leg, a answer) map[string]any {
	out := map[string]any{"id": l.id, "object": "chat.completion", "created": l.created, "model": l.model,
		"choices": []any{map[string]any{"index": 0, "message": messageOf(a), "logprobs": nil, "finish_reason": a.Finish}}}
	if a.Usage != nil {
		out["usage"] = usageView(a.Usage)
	}
	return out
}

// usageView shows what is known of usage, and nothing of what is not.
func usageView(u *upstream.Usage) map[string]any {
	out := map[string]any{}
	put := func(m map[string]any, key string, n *int64) {
		if n != nil {
			m[key] = *n
		}
	}
	put(out, "prompt_tokens", u.Prompt)
	put(out, "completion_tokens", u.Completion)
	if total := u.Sum(); total > 0 || u.Total != nil {
		out["total_tokens"] = total
	}
	for key, part := range map[string]struct {
		name string
		n    *int64
	}{"prompt_tokens_details": {"cached_tokens", u.Cached}, "completion_tokens_details": {"reasoning_tokens", u.Reasoning}} {
		if part.n != nil {
			out[key] = map[string]any{part.name: *part.n}
		}
	}
	return out
}

// stream writes one answer as events.
type stream struct {
	w     http.ResponseWriter
	r     *http.Request
	leg   *leg
	usage bool
	role  bool // the first delta is out
}

// run writes until the answer is over, and reports whether the caller got all of it.
func (s *stream) run() bool {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for n := 0; ; {
		v := s.leg.from(n)
		if n == 0 && len(v.events) == 0 && !v.over && !s.comment() {
			return false
		}
		for _, e := range v.events {
			if !s.event(e) {
				return false
			}
		}
		n += len(v.events)
		if v.over {
			return s.end(v)
		}
		if !s.wait(v.changed, tick.C) {
			return false
		}
	}
}

// wait waits for more to write, with a comment now and then. It reports whether the caller is still there.
func (s *stream) wait(changed <-chan struct{}, tick <-chan time.Time) bool {
	for {
		select {
		case <-changed:
			return true
		case <-tick:
			if !s.comment() {
				return false
			}
		case <-s.r.Context().Done():
			return false
		case <-httpx.Draining(s.r.Context()):
			s.send(bodyOf(shown(errStopping)))
			return false
		}
	}
}

// end writes what stands behind the last event of a turn that is over.
func (s *stream) end(v view) bool {
	if v.failed != nil {
		return s.send(bodyOf(v.failed))
	}
	return s.raw("data: [DONE]\n\n")
}

// event writes one event of the answer.
func (s *stream) event(e upstream.Event) bool {
	delta := map[string]any{}
	if e.Kind != upstream.CallPiece { // a call holds its own
		for key, raw := range e.Extra {
			delta[key] = raw
		}
	}
	switch e.Kind {
	case upstream.Text:
		delta["content"] = e.Text
	case upstream.Reasoning:
		delta["reasoning_content"] = e.Text
	case upstream.CallPiece:
		delta["tool_calls"] = []any{callDelta(e)}
	case upstream.Parked:
		return s.finish("tool_calls", e.Usage)
	case upstream.Ended:
		return s.finish(e.Finish, e.Usage)
	}
	return s.first() && s.chunk(delta, nil)
}

// callDelta is a piece of a call: the first one with id, type and name, later ones with arguments alone.
func callDelta(e upstream.Event) map[string]any {
	function := map[string]any{"arguments": e.Arguments}
	out := map[string]any{}
	for key, raw := range e.Extra {
		out[key] = raw
	}
	out["index"], out["function"] = e.Index, function
	if e.ID != "" {
		out["id"], out["type"], function["name"] = e.ID, "function", e.Name
	}
	return out
}

// first writes the delta that opens an answer.
func (s *stream) first() bool {
	if s.role {
		return true
	}
	s.role = true
	return s.chunk(map[string]any{"role": "assistant", "content": ""}, nil)
}

// finish writes the closing chunk, and the one with the usage where it was asked for and is known.
func (s *stream) finish(reason string, u *upstream.Usage) bool {
	if !s.first() || !s.chunk(map[string]any{}, reason) {
		return false
	}
	if !s.usage || u == nil {
		return true
	}
	c := s.head()
	c["choices"], c["usage"] = []any{}, usageView(u)
	return s.send(c)
}

func (s *stream) head() map[string]any {
	return map[string]any{"id": s.leg.id, "object": "chat.completion.chunk", "created": s.leg.created, "model": s.leg.model}
}

// chunk writes one choice; finish is nil until the end.
func (s *stream) chunk(delta map[string]any, finish any) bool {
	c := s.head()
	maps.Copy(c, map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	return s.send(c)
}

func (s *stream) send(v any) bool {
	raw, err := json.Marshal(v)
	if err != nil {
		return false
	}
	return s.raw("data: " + string(raw) + "\n\n")
}

// comment shows a client that somebody is there.
func (s *stream) comment() bool { return s.raw(": keepalive\n\n") }

// raw writes and flushes. It reports whether the caller is still there.
func (s *stream) raw(text string) bool {
	if s.r.Context().Err() != nil {
		return false
	}
	httpx.Linger(s.w, writeWithin)
	_, err := s.w.Write([]byte(text))
	return err == nil && sent(s.w)
}
