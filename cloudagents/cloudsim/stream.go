package cloudsim

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/feed"
	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// closeLog adds what comes at the end of every stream.
func (r *run) closeLog(now time.Time) {
	u := r.usage()
	r.log.Add(now, feed.Status(r.id, r.status))
	r.log.Add(now, feed.Step{Update: map[string]any{"type": "turn-ended", "usage": map[string]int{
		"inputTokens": u.Input, "outputTokens": u.Output, "cacheReadTokens": u.CacheRead, "cacheWriteTokens": u.CacheWrite,
	}}})
	r.log.Add(now, feed.Step{Event: "result", Data: runResult{r.id, r.status, r.result, r.duration(), r.agent.git(""), r.failure}})
	r.log.Close(now, feed.Done())
}

// runResult is read by the vendor's SDK as a run is, its error included.
type runResult struct {
	RunID      string           `json:"runId"`
	Status     string           `json:"status"`
	Text       string           `json:"text,omitempty"`
	DurationMs *int64           `json:"durationMs,omitempty"`
	Git        *v1Git           `json:"git,omitempty"`
	Error      *script.RunError `json:"error,omitempty"`
}

// emit adds to the stream of a run that is still active; false when it is not.
func (s *Sim) emit(r *run, st feed.Step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.active() {
		return false
	}
	r.log.Add(s.now(), st)
	return true
}

// viewer is one connection to a run's stream.
type viewer struct {
	run       *run
	first     []feed.Event // the replayed status and what happened before the connection
	next      int          // index of the first event that is to come
	only      bool         // first is everything
	dropAfter int          // events until the connection is cut; 0 is never
	scheme    string       // put ahead of the repositories in the result; see Sim.scheme
}

func (s *Sim) v1Stream(c *call) (reply, error) {
	return s.withRun(c, func(r *run) (reply, error) {
		_, gone := s.faults.Take(script.Stream410, c.place())
		if gone || !r.active() && s.now().Sub(r.updatedAt) >= time.Duration(s.settings.StreamRetention) {
			return reply{}, request.Refuse(http.StatusGone, "stream_expired", "Stream retention window has elapsed")
		}
		next, known := r.log.After(c.req.Header.Get("Last-Event-ID"))
		if !known {
			return reply{}, request.Refuse(http.StatusBadRequest, "invalid_last_event_id", "Last-Event-ID does not belong to this run")
		}
		v := s.watch(c, r, next)
		return reply{stream: func(w http.ResponseWriter) { s.show(w, c.req, v) }}, nil
	})
}

// watch prepares a connection that has seen everything ahead of next. The caller holds the lock.
func (s *Sim) watch(c *call, r *run, next int) *viewer {
	v, status := &viewer{run: r, next: r.log.Len(), scheme: s.scheme(c)}, r.status
	if r.status == script.StatusCancelled {
		if _, ok := s.faults.Take(script.CancelledReplayFinished, c.place()); ok {
			status = script.StatusFinished
		}
	}
	lead := feed.Status(r.id, status)
	if f, ok := s.faults.Take(script.StreamDrop, c.place()); ok {
		v.dropAfter = f.Count
	}
	if _, v.only = s.faults.Take(script.StreamUnavailable, c.place()); v.only {
		v.first = feed.Once(s.now(), lead, feed.Failure("stream_unavailable", "Stream is unavailable"), feed.Done())
		return v
	}
	v.first = append(feed.Once(s.now(), lead), r.log.Backlog(next)...)
	return v
}

// show sends what there is, then what comes, until the run's stream is closed.
func (s *Sim) show(w http.ResponseWriter, req *http.Request, v *viewer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.Header().Set("X-Cursor-Stream-Retention-Seconds", strconv.Itoa(int(time.Duration(s.settings.StreamRetention).Seconds())))
	for batch := v.first; v.send(w, batch) && !v.only; {
		s.mu.Lock()
		log := &v.run.log
		batch, v.next = log.From(v.next), log.Len()
		closed, changed := log.Closed(), log.Changed()
		s.mu.Unlock()
		if len(batch) > 0 {
			continue
		}
		if closed {
			return
		}
		select {
		case <-changed:
		case <-req.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// send writes and flushes; false when the stream is over for this viewer.
func (v *viewer) send(w http.ResponseWriter, batch []feed.Event) bool {
	for _, e := range batch {
		if e.Name == "result" && v.scheme != "" {
			e.Data = strings.ReplaceAll(e.Data, `"repoUrl":"`, `"repoUrl":"`+v.scheme)
		}
		if _, err := io.WriteString(w, e.Frame()); err != nil {
			return false
		}
		if v.dropAfter--; v.dropAfter == 0 {
			_ = http.NewResponseController(w).Flush()
			cut(w)
			return false
		}
	}
	return http.NewResponseController(w).Flush() == nil
}
