package openai

import (
	"errors"
	"fmt"
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
		return nil, invalid("", "unreadable_body", "the body arrived incomplete; send it again")
	}
	return body, nil
}

// reader is how a request reads a leg.
type reader struct {
	leg *leg
	// release lets the next request of the same body in.
	release func()
	// stream asks for events.
	stream bool
	voice  voice
}

// voice puts an answer into the form of one API. What a method returns is what stands in a stream; the order of the calls is that of the answer.
type voice interface {
	// quiet shows that somebody is there.
	quiet() string
	// event says one event of the answer.
	event(e upstream.Event) string
	// end says how a turn ended behind its last event; failed is nil for a whole answer.
	end(failed *upstream.Error) string
	// broken says that the stream ends, and that the turn does not.
	broken(e *upstream.Error) string
	// whole is an answer that is not a stream.
	whole(events []upstream.Event) any
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
		had = (&stream{w: w, r: r, leg: l, voice: by.voice}).run()
	default:
		had = d.whole(w, r, by)
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
		d.o.Log.Warn().Err(err).Str("turn", l.id).Msg("the bridge could not record how a caller left; a repeat may begin a new turn, or get this answer again")
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
func (d *Door) whole(w http.ResponseWriter, r *http.Request, by reader) bool {
	httpx.Linger(w, 24*time.Hour)
	for {
		v := by.leg.from(0)
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
			httpx.WriteJSON(w, http.StatusOK, by.voice.whole(v.events))
		}
		return sent(w)
	}
}

// sent sends what was written, and reports whether the caller was still there. A caller that has all may be gone by then.
func sent(w http.ResponseWriter) bool { return http.NewResponseController(w).Flush() == nil }

// stream writes one answer as events.
type stream struct {
	w     http.ResponseWriter
	r     *http.Request
	leg   *leg
	voice voice
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
		if n == 0 && len(v.events) == 0 && !v.over && !s.raw(s.voice.quiet()) {
			return false
		}
		for _, e := range v.events {
			if !s.raw(s.voice.event(e)) {
				return false
			}
		}
		n += len(v.events)
		if v.over {
			return s.raw(s.voice.end(v.failed))
		}
		if !s.wait(v.changed, tick.C) {
			return false
		}
	}
}

// wait waits for more to write, with a sign of life now and then. It reports whether the caller is still there.
func (s *stream) wait(changed <-chan struct{}, tick <-chan time.Time) bool {
	for {
		select {
		case <-changed:
			return true
		case <-tick:
			if !s.raw(s.voice.quiet()) {
				return false
			}
		case <-s.r.Context().Done():
			return false
		case <-httpx.Draining(s.r.Context()):
			s.raw(s.voice.broken(shown(errStopping)))
			return false
		}
	}
}

// raw writes and flushes. It reports whether the caller is still there.
func (s *stream) raw(text string) bool {
	if s.r.Context().Err() != nil {
		return false
	}
	if text == "" {
		return true
	}
	httpx.Linger(s.w, writeWithin)
	_, err := s.w.Write([]byte(text))
	return err == nil && sent(s.w)
}

// frame is one event of a stream; name is "" for one without.
func frame(name string, v any) string {
	head := ""
	if name != "" {
		head = "event: " + name + "\n"
	}
	return head + "data: " + string(mustJSON(v)) + "\n\n"
}
