// Package feed keeps the events of one run as server-sent events and decides what an agent's turn looks like in them.
//
// It sends nothing: who watches, and from where on, is the simulator's business.
//
// Rule of thumb: the bytes of a frame are decided here and nowhere else.
package feed

import (
	"fmt"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/request"
)

// Step is one thing that happens in a run: a simple event, and the interaction_update that doubles it under the same id.
// Either may be absent.
type Step struct {
	Event  string
	Data   any
	Update any
	NoID   bool // status events carry no id
}

// Heartbeat shows that a run is alive.
func Heartbeat() Step { return Step{Event: "heartbeat", Data: struct{}{}} }

// Prompt shows what a run was sent. The API shows it nowhere else at v1.
func Prompt(text string) Step {
	return Step{Update: map[string]any{"type": "user-message-appended", "userMessage": map[string]any{"text": text}}}
}

// Done is the last event of every stream.
func Done() Step { return Step{Event: "done", Data: struct{}{}} }

// Status tells a run's status.
func Status(runID, status string) Step {
	return Step{Event: "status", NoID: true, Data: struct {
		RunID  string `json:"runId"`
		Status string `json:"status"`
	}{runID, status}}
}

// Failure ends a stream early; its code is one of the API's error codes.
func Failure(code, message string) Step {
	return Step{Event: "error", Data: map[string]string{"code": code, "message": message}}
}

// Event is one frame as it is sent; ID is empty for a status.
type Event struct{ ID, Name, Data string }

// Frame is the exact framing that the vendor's client reads: a space after each colon, LF only, an empty line at the end.
func (e Event) Frame() string {
	id := ""
	if e.ID != "" {
		id = "id: " + e.ID + "\n"
	}
	return id + "event: " + e.Name + "\ndata: " + e.Data + "\n\n"
}

// Log is a run's frames in order, so that a finished run replays in full. It is not safe for concurrent use; the channel of
// Changed may be waited on by anyone. The zero Log is empty.
type Log struct {
	events  []Event
	millis  int64
	seq     int
	closed  bool
	changed chan struct{}
}

// Add appends a step at now.
func (l *Log) Add(now time.Time, st Step) {
	id := ""
	if !st.NoID {
		id = l.nextID(now)
	}
	l.events = append(l.events, st.events(id)...)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Close appends the last step.
func (l *Log) Close(now time.Time, last Step) {
	l.closed = true
	l.Add(now, last)
}

func (st Step) events(id string) []Event {
	var out []Event
	if st.Event != "" {
		out = append(out, Event{id, st.Event, request.Compact(st.Data)})
	}
	if st.Update != nil {
		out = append(out, Event{id, "interaction_update", request.Compact(st.Update)})
	}
	return out
}

// nextID is <millis>-<seq>, strictly increasing even when the clock stands still or goes back.
func (l *Log) nextID(now time.Time) string {
	if ms := now.UnixMilli(); ms > l.millis {
		l.millis, l.seq = ms, 0
	} else {
		l.seq++
	}
	return fmt.Sprintf("%d-%d", l.millis, l.seq)
}

// Changed is closed at the next addition.
func (l *Log) Changed() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// Closed is whether Close was called.
func (l *Log) Closed() bool { return l.closed }

// Len is the number of frames so far.
func (l *Log) Len() int { return len(l.events) }

// From is the frames from index i on. They never change.
func (l *Log) From(i int) []Event { return l.events[i:len(l.events):len(l.events)] }

// After is the index of the first frame behind id, false for an id that is not this run's; "" is the beginning.
func (l *Log) After(id string) (int, bool) {
	if id == "" {
		return 0, true
	}
	for i := len(l.events) - 1; i >= 0; i-- {
		if l.events[i].ID == id {
			return i + 1, true
		}
	}
	return 0, false
}

// Backlog is what a new viewer has missed from index i on. Status changes are left out: the status at the top of its stream
// stands for all of them.
func (l *Log) Backlog(i int) []Event {
	var out []Event
	for _, e := range l.events[i:] {
		if e.ID != "" {
			out = append(out, e)
		}
	}
	return out
}

// Once frames steps that belong to one connection only.
func Once(now time.Time, steps ...Step) []Event {
	var l Log
	for _, st := range steps {
		l.Add(now, st)
	}
	return l.events
}
