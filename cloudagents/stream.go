package cloudagents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"drawbridge/bridge"
)

const maxErrorBody = 64 << 10

var errIdle = errors.New("the stream fell silent")

// Stream reads a v1 run's stream until done, or from behind lastEventID when
// that is not "". It calls fn for every event, one after another, and stops with
// fn's error as it is. nil means that the stream ended whole: with done, or
// closed behind a result. The stream never decides an outcome: a replayed status
// was seen to lie; read the run (Observe) when it ends.
//
// Errors: Unavailable when the stream broke or said stream_unavailable
// (reconnect behind the last id), NotFound when it has expired (410), Invalid
// when lastEventID is not one of this run, TooLarge, and as for any request.
func (c *Client) Stream(ctx context.Context, r bridge.RunRef, lastEventID string, fn func(Event) error) error {
	k, err := c.streamCall(r, lastEventID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.opts.StreamIdle, func() { cancel(errIdle) })
	defer idle.Stop()
	resp, err := c.openStream(ctx, k, lastEventID)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body := &watched{r: resp.Body, touch: func() { idle.Reset(c.opts.StreamIdle) }}
	w := &watcher{fn: fn}
	err = readEvents(body, streamShare*int64(c.opts.MaxReply), w.event)
	switch {
	case w.stopped:
		return w.err
	case w.failure != nil:
		return c.streamFailure(k, *w.failure)
	case errors.Is(err, errStreamTooLong):
		return &bridge.Error{Kind: bridge.TooLarge, Message: k.what + ": the stream is too long", Cause: err}
	case w.ended:
		return nil
	}
	return c.brokenStream(ctx, k, err)
}

func (c *Client) streamCall(r bridge.RunRef, lastEventID string) (call, error) {
	const what = "read stream"
	api, err := c.checkRef(what, r)
	if err != nil {
		return call{}, err
	}
	if api != bridge.APIv1 {
		return call{}, bridge.Errorf(bridge.Invalid, "%s: only API v1 has streams", what)
	}
	bad := func(b rune) bool { return b <= ' ' || b > '~' }
	if len(lastEventID) > maxEventID || strings.ContainsFunc(lastEventID, bad) {
		return call{}, bridge.Errorf(bridge.Invalid, "%s: %q is not an event id", what, clip(lastEventID, 40))
	}
	return get(what, "/v1/agents/"+r.Agent+"/runs/"+r.Run+"/stream"), nil
}

// openStream goes through net/http: resty reads answers whole.
func (c *Client) openStream(ctx context.Context, k call, lastEventID string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, nil)
	if err != nil {
		return nil, &bridge.Error{Kind: bridge.Invalid, Message: k.what + ": the request cannot be written", Cause: err}
	}
	req.Header.Set("Authorization", "Bearer "+c.opts.Key)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Encoding", "identity") // compression would hold events back
	req.Header.Set("User-Agent", c.opts.UserAgent)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(k, withCause(ctx, err), true)
	}
	if resp.StatusCode == http.StatusOK && isEventStream(resp.Header) {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 300 {
		return nil, c.garbled(k, fmt.Errorf("HTTP %d with content type %q", resp.StatusCode, clip(resp.Header.Get("Content-Type"), 60)))
	}
	// What could not be read of an error's body is no error of its own.
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return nil, c.apiError(k, answer{status: resp.StatusCode, header: resp.Header, body: b})
}

func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

func (c *Client) brokenStream(ctx context.Context, k call, err error) error {
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &bridge.Error{
		Kind:    bridge.Unavailable,
		Message: k.what + ": the stream broke off before its end",
		Cause:   c.scrub(k, withCause(ctx, err)),
	}
}

// withCause prefers the reason why ctx ended to its mere "canceled".
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// streamFailure turns an error event into an error. Its fatal codes are those of
// the vendor's own client; any other is a reason to reconnect.
func (c *Client) streamFailure(k call, data []byte) error {
	p := parseErrorBody(data)
	kind := bridge.Unavailable
	switch p.code {
	case "unauthorized":
		kind = bridge.Unauthenticated
	case "forbidden":
		kind = bridge.Denied
	case "not_found":
		kind = bridge.NotFound
	}
	p.code, p.message, p.helpURL = c.redact(k, p.code), c.redact(k, p.message), ""
	return &bridge.Error{Kind: kind, Message: k.what + ": " + describe(kind, http.StatusOK, p)}
}

// watcher notes how a stream ends while it passes events on.
type watcher struct {
	fn      func(Event) error
	stopped bool
	err     error
	failure *[]byte
	ended   bool
}

var errEnd = errors.New("end of events")

func (w *watcher) event(e Event) error {
	if w.err = w.fn(e); w.err != nil {
		w.stopped = true
		return errEnd
	}
	switch e.Name {
	case "error":
		w.failure = &e.Data
		return errEnd
	case "result":
		w.ended = true
	case "done":
		w.ended = true
		return errEnd
	}
	return nil
}

// watched tells of every read that brought something.
type watched struct {
	r     io.Reader
	touch func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.touch()
	}
	return n, err
}

// owner says whose prompt a run answers.
type owner int

const (
	unreadable owner = iota
	ours
	foreign
)

// whoseRun looks for the marker in the prompt that a run's stream shows, which
// it may not. That the stream cannot be read is no error here.
func (c *Client) whoseRun(ctx context.Context, r bridge.RunRef, marker string) (owner, error) {
	if marker == "" {
		return unreadable, nil
	}
	short, cancel := context.WithTimeout(ctx, min(10*time.Second, c.opts.Timeout))
	defer cancel()
	who := unreadable
	err := c.Stream(short, r, "", func(e Event) error {
		if e.Name == "interaction_update" {
			who = whosePrompt(e.Data, marker)
		}
		if who != unreadable {
			return errEnd
		}
		return nil
	})
	if err != nil && (ctx.Err() != nil || bridge.KindOf(err) == bridge.RateLimited) {
		return unreadable, err
	}
	return who, nil
}

// whosePrompt reads a user-message-appended update. Its form is not documented,
// so that every string is tried for the marker, but only a field named text
// counts as proof of somebody else's prompt.
func whosePrompt(data []byte, marker string) owner {
	var update struct {
		Type string `json:"type"`
	}
	var all any
	if json.Unmarshal(data, &update) != nil || update.Type != "user-message-appended" || json.Unmarshal(data, &all) != nil {
		return unreadable
	}
	who := unreadable
	eachString(all, "", func(key, text string) {
		switch {
		case startsWithMarker(text, marker):
			who = ours
		case key == "text" && strings.TrimSpace(text) != "" && who == unreadable:
			who = foreign
		}
	})
	return who
}

func eachString(v any, key string, fn func(key, text string)) {
	switch v := v.(type) {
	case string:
		fn(key, v)
	case []any:
		for _, item := range v {
			eachString(item, key, fn)
		}
	case map[string]any:
		for name, item := range v {
			eachString(item, name, fn)
		}
	}
}
