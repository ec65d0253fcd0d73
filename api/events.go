package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// The bounds of an event stream. A reader that takes nothing for streamPatience
// is cut off and resumes where it was.
const (
	heartbeat      = 30 * time.Second
	streamPatience = 15 * time.Second
	streamBatch    = 200
)

// events answers with a page of the timeline, or with the timeline as it goes on.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "after", "limit")
	if err != nil {
		return err
	}
	after, err := q.number("after", 0, 0)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	if wantsStream(r) {
		return h.stream(w, r, &feed{after: after})
	}
	found, err := h.readEvents(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	page, more := cut(found, limit)
	list := EventList{Events: viewAll(page, viewEvent)}
	if more {
		list.Next = strconv.FormatInt(page[len(page)-1].Seq, 10)
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) readEvents(ctx context.Context, after int64, limit int) (found []bridge.Event, err error) {
	err = h.o.Engine.View(ctx, func(tx bridge.Tx) error {
		found, err = tx.Events(after, limit)
		return err
	})
	return found, err
}

func wantsStream(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(part, ";")
		if strings.TrimSpace(kind) == "text/event-stream" {
			return r.Method == http.MethodGet
		}
	}
	return false
}

// stream writes events as they come until the reader goes away or the server
// stops. It resumes after Last-Event-ID, which a browser sends by itself and
// which therefore beats the query.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, f *feed) error {
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return bridge.Errorf(bridge.Invalid, "Last-Event-ID %+.40q is not a number of an event", last)
		}
		f.after = n
	}
	changes, stop := h.o.Engine.Watch()
	defer stop()
	s := newSSE(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		if err := h.catchUp(r.Context(), s, f); err != nil {
			httpx.RecordOf(r.Context()).Err = err
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

// catchUp writes all events after those that f has seen, but for those that are not for it.
func (h *Handler) catchUp(ctx context.Context, s sse, f *feed) error {
	for {
		found, err := h.readEvents(ctx, f.after, streamBatch)
		if err != nil {
			return err
		}
		for _, e := range found {
			mine, err := h.concerns(ctx, f, e)
			if err != nil {
				return err
			}
			if mine {
				if err := s.events(f.named(viewEvent(e))); err != nil {
					return err
				}
			}
			f.after = e.Seq
		}
		if len(found) < streamBatch {
			return s.flush()
		}
	}
}

// sse writes a stream of server-sent events.
type sse struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func newSSE(w http.ResponseWriter) sse {
	httpx.Linger(w, streamPatience)
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
// holds no handler for ever.
func (s sse) write(format string, args ...any) error {
	// Only a test's writer has no deadlines.
	_ = s.c.SetWriteDeadline(time.Now().Add(streamPatience))
	_, err := fmt.Fprintf(s.w, format, args...)
	return err
}

func (s sse) flush() error {
	_ = s.c.SetWriteDeadline(time.Now().Add(streamPatience))
	return s.c.Flush()
}
