// Package timeline tells what happened to readers that stay: as server-sent
// events, resumed where a reader was cut off, to an agent what its tools may show it. It
// keeps nothing and lets nobody in; who may read is decided by the API in front.
// Rule of thumb: a reader that was away misses nothing, and one that stands
// still holds nothing.
package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Source is where the timeline is read. Its methods are safe for concurrent use.
type Source interface {
	View(ctx context.Context, fn func(*bridge.Scene) error) error
	// Watch returns a channel that gets a value after changes, and what ends it.
	Watch() (<-chan struct{}, func())
}

// Event is one line of the timeline.
type Event struct {
	// Seq orders events; a reader resumes after the last one it saw.
	Seq   int64     `json:"seq"`
	At    time.Time `json:"time"`
	Kind  string    `json:"event"`
	Agent string    `json:"agent,omitempty"`
	Name  string    `json:"agent_name,omitempty"`
	// Root is the top of the agent's tree. An agent that reads is not told.
	Root    string            `json:"root,omitempty"`
	Turn    string            `json:"turn,omitempty"`
	Command string            `json:"command,omitempty"`
	Text    string            `json:"text,omitempty"`
	Fields  map[string]string `json:"fields,omitempty"`
}

// View makes what is shown of an event.
func View(e bridge.Event) Event {
	return Event{Seq: e.Seq, At: e.At, Kind: e.Kind, Agent: string(e.Agent), Name: e.Name, Root: string(e.Root), Turn: string(e.Turn), Command: string(e.Command), Text: e.Text, Fields: e.Fields}
}

// The bounds of a stream. A reader that takes nothing for patience is cut off
// and resumes where it was.
const (
	heartbeat = 30 * time.Second
	patience  = 15 * time.Second
	batch     = 200
)

// Read returns events after a number, oldest first.
func Read(ctx context.Context, src Source, after int64, limit int) (found []bridge.Event, err error) {
	err = src.View(ctx, func(tx *bridge.Scene) error {
		found, err = tx.Events(after, limit)
		return err
	})
	return found, err
}

// Wanted reports whether a request asks for a stream.
func Wanted(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(part, ";")
		if strings.TrimSpace(kind) == "text/event-stream" {
			return r.Method == http.MethodGet
		}
	}
	return false
}

// The events that the seed names and that stand in the timeline under another
// name; the rest of its names are those of mail's own events.
const (
	eventTyping = "agent_typing"
	eventDone   = "agent_done"
)

// seedNames are the seed's words beside the bridge's own.
var seedNames = map[string]string{
	bridge.EventTurn: eventTyping, bridge.EventReply: eventDone, bridge.EventTurnFailed: eventDone,
}

// Reader is one reader of the timeline. It is for one stream.
type Reader struct {
	Source Source
	// After is the last event that the reader has.
	After int64
	// Only is what the reader wants to be told.
	Only bridge.EventFilter
	// Seed adds the seed's names.
	Seed bool
	// Token is the hash of an agent's door token; "" for the operator.
	Token string
	// Valid says that the reader's token is good; nil for the operator.
	Valid func(context.Context) bool
	// eyes are an agent's; the operator sees everything.
	eyes *eyes
}

// named returns an event under all its names.
func (f *Reader) named(e Event) []Event {
	if name := seedNames[e.Kind]; f.Seed && name != "" {
		second := e
		second.Kind = name
		return []Event{e, second}
	}
	return []Event{e}
}

var errGone = bridge.Errorf(bridge.Unauthenticated, "the token was revoked during this stream; ask the operator for another token")

// gone reports whether the reader's token ended meanwhile.
func (f *Reader) gone(ctx context.Context) bool { return f.Valid != nil && !f.Valid(ctx) }

// sees returns what the reader may know of an event; false for nothing.
func (f *Reader) sees(ctx context.Context, e bridge.Event) (bridge.Event, bool, error) {
	if f.eyes == nil || !f.Only.Selects(e) {
		return e, f.Only.Selects(e), nil
	}
	e.Root = ""
	return f.eyes.see(ctx, f.Source, e)
}

// StreamNew is Stream from Last-Event-ID on, or from now on without one.
func StreamNew(w http.ResponseWriter, r *http.Request, f *Reader) error {
	if r.Header.Get("Last-Event-Id") == "" {
		err := f.Source.View(r.Context(), func(tx *bridge.Scene) (err error) {
			f.After, err = tx.LastEvent()
			return err
		})
		if err != nil {
			return err
		}
	}
	return Stream(w, r, f)
}

// Stream writes events as they come until the reader goes away or the server
// stops. It resumes after Last-Event-ID, which a browser sends by itself and
// which therefore beats the query.
func Stream(w http.ResponseWriter, r *http.Request, f *Reader) error {
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return bridge.Errorf(bridge.Invalid, "Last-Event-ID %+.40q is not the number of an event; send the id of the last event that you got", last)
		}
		f.After = n
	}
	changes, stop := f.Source.Watch()
	defer stop()
	s := newSSE(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		if err := f.catchUp(r.Context(), s); err != nil {
			note(r, err)
			return nil // the answer has begun; the reader resumes
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-httpx.Draining(r.Context()):
			return nil
		case <-changes:
		case <-beat.C:
			if f.gone(r.Context()) {
				return nil
			}
			if err := s.comment("heartbeat"); err != nil {
				return nil
			}
		}
	}
}

// note records why a stream ended. A reader that leaves and a token that ended are not faults of the bridge.
func note(r *http.Request, err error) {
	rec := httpx.RecordOf(r.Context())
	if rec.Err = err; !errors.Is(err, errGone) && !errors.As(err, new(unwritten)) {
		rec.Failed(err)
	}
}

// unwritten is what keeps a reader from getting its events.
type unwritten struct{ error }

// Unwrap returns the cause.
func (u unwritten) Unwrap() error { return u.error }

// catchUp writes all events after those that the reader has, but for those that are not for it.
func (f *Reader) catchUp(ctx context.Context, s sse) error {
	for {
		found, err := Read(ctx, f.Source, f.After, batch)
		if err != nil {
			return err
		}
		if len(found) > 0 && f.gone(ctx) {
			return errGone // before anything that came after the token's end is told
		}
		for _, e := range found {
			seen, ok, err := f.sees(ctx, e)
			if err != nil {
				return err
			}
			if ok {
				if err := s.events(f.named(View(seen))); err != nil {
					return err
				}
			}
			f.After = e.Seq
		}
		if len(found) < batch {
			return s.flush()
		}
		if err := s.comment("more"); err != nil { // a reader of few events hears that somebody is there
			return err
		}
	}
}

// sse writes a stream of server-sent events.
type sse struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func newSSE(w http.ResponseWriter) sse {
	httpx.Linger(w, patience)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	w.WriteHeader(http.StatusOK)
	return sse{w: w, c: http.NewResponseController(w)}
}

// events writes one event of the timeline under one or more names. Only the
// last carries the id, so that who is cut off in between gets all of them again.
// JSON has no raw line break, so data is one line.
func (s sse) events(all []Event) error {
	var text strings.Builder
	for i, e := range all {
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode event %d: %w", e.Seq, err)
		}
		if i == len(all)-1 {
			fmt.Fprintf(&text, "id: %d\n", e.Seq)
		}
		fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", e.Kind, data)
	}
	return s.write("%s", text.String())
}

func (s sse) comment(text string) error {
	if err := s.write(": %s\n\n", text); err != nil {
		return err
	}
	return s.flush()
}

// write gives each event its own deadline, so that a reader that stands still
// holds no handler without end.
func (s sse) write(format string, args ...any) error {
	// Only a test's writer has no deadlines.
	_ = s.c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return unwritten{err}
	}
	return nil
}

func (s sse) flush() error {
	_ = s.c.SetWriteDeadline(time.Now().Add(patience))
	if err := s.c.Flush(); err != nil {
		return unwritten{err}
	}
	return nil
}
