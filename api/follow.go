package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// The bounds of following. A stream that is silent for longer than two
// heartbeats and a half is dead, whatever the connection says.
const (
	maxSilence   = 75 * time.Second
	maxEventLine = 1 << 20
	maxRedial    = 15 * time.Second
)

// Events lists events after a number, oldest first; limit 0 means 100.
func (c *Client) Events(ctx context.Context, after int64, limit int) (EventList, error) {
	q := ListOptions{Limit: limit}.query()
	q.Set("after", strconv.FormatInt(after, 10))
	return get[EventList](ctx, c, "/v1/events", q)
}

// EventOptions select events. The zero value selects all.
type EventOptions struct {
	// Agent and Tree are an agent's name or id. Tree selects all agents of its tree.
	Agent, Tree string
	Kinds       []string
	// Before is the Next of an earlier list.
	Before string
	// Limit is at most 1,000; 0 means 100.
	Limit int
}

// History lists events, newest first. The list goes on while it has a Next, even where it is shorter than the limit.
func (c *Client) History(ctx context.Context, o EventOptions) (EventList, error) {
	q := ListOptions{Agent: o.Agent, Tree: o.Tree, Before: o.Before, Limit: o.Limit}.query()
	q.Set("order", newest)
	if len(o.Kinds) > 0 {
		q.Set("kind", strings.Join(o.Kinds, ","))
	}
	return get[EventList](ctx, c, "/v1/events", q)
}

// errStop wraps what ends the following: the caller's own error, or a stream
// that would be just as wrong when read again.
type errStop struct{ error }

func (e errStop) Unwrap() error { return e.error }

// Follow calls fn for each event after a number, in order and each once, and
// goes on with those to come until ctx ends or fn returns an error, which
// Follow returns. A stream that breaks is taken up again where it was; only a
// first connection that fails, and a refusal, end it.
func (c *Client) Follow(ctx context.Context, after int64, fn func(Event) error) error {
	for attempt, begun := 0, false; ; attempt++ {
		last := after
		opened, err := c.followOnce(ctx, &after, fn)
		begun = begun || opened
		var stop errStop
		switch {
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (!begun || final(err)):
			return err
		case after > last:
			attempt = 0
		}
		if redialWait(ctx, attempt) != nil {
			return ctx.Err()
		}
	}
}

// final reports a refusal that asking again does not change.
func final(err error) bool {
	switch bridge.KindOf(err) {
	case bridge.Invalid, bridge.Unauthenticated, bridge.Denied, bridge.NotFound:
		return true
	}
	return false
}

// redialWait waits before the next connection: longer each time, spread, and capped.
func redialWait(ctx context.Context, attempt int) error {
	wait := min(maxRedial, 250*time.Millisecond<<min(attempt, 10))
	return pause.For(ctx, wait/2+rand.N(wait/2))
}

// followOnce reads one stream to its end and moves after on.
func (c *Client) followOnce(ctx context.Context, after *int64, fn func(Event) error) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(maxSilence, cancel)
	defer silence.Stop()
	k := call{method: http.MethodGet, path: "/v1/events", query: url.Values{"after": {strconv.FormatInt(*after, 10)}}}
	resp, err := c.send(ctx, k, "text/event-stream")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	return true, readStream(resp.Body, func(e Event) error {
		silence.Reset(maxSilence)
		if e.Seq <= *after {
			return nil // a heartbeat, or an event that was seen
		}
		if err := fn(e); err != nil {
			return errStop{err}
		}
		*after = e.Seq
		return nil
	})
}

// readStream calls fn for each event of a stream, and with a zero Event for each comment.
func readStream(r io.Reader, fn func(Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEventLine)
	var data strings.Builder
	for lines.Scan() {
		line := lines.Text()
		var e Event
		switch {
		case strings.HasPrefix(line, "data:"):
			if data.Len()+len(line) > maxEventLine {
				return errStop{fmt.Errorf("read event: more than %d bytes", maxEventLine)}
			}
			data.WriteString(strings.TrimPrefix(line[len("data:"):], " "))
			continue
		case line == "" && data.Len() > 0:
			if err := json.Unmarshal([]byte(data.String()), &e); err != nil {
				return errStop{fmt.Errorf("read event: %w", err)}
			}
			data.Reset()
		case !strings.HasPrefix(line, ":"):
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return errStop{fmt.Errorf("read event: %w", err)}
	}
	return err
}
