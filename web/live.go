package web

import (
	"context"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"slices"
	"time"

	"drawbridge/api"
	"drawbridge/internal/httpx"
	"drawbridge/internal/pause"
)

// The bounds of a stream of news.
const (
	// settle is how long changes are collected before the page is looked at again; it bounds what a busy bridge costs.
	settle = 250 * time.Millisecond
	// beat is how often a page is looked at without a change: for what begins or ends by the clock alone, such as a session.
	beat = 15 * time.Second
	// busyBeat is beat while an agent at a relay works: nobody is woken by what it does.
	busyBeat = time.Second
	// patience is how long a browser may take nothing before it is cut off. It comes back by itself.
	patience = 15 * time.Second
	// maxStreams bounds the streams of a session. A browser has six connections to a place; the newest window counts.
	maxStreams = 4
)

// kept is a value that a stream keeps for a while.
type kept[T any] struct {
	at    time.Time
	value T
}

// get returns what is kept, or what look finds if it was kept for so long. fresh says that it looked.
func (k *kept[T]) get(now time.Time, age time.Duration, look func() (T, error)) (value T, fresh bool, err error) {
	if now.Sub(k.at) < age {
		return k.value, false, nil
	}
	found, err := look()
	if err == nil {
		k.at, k.value = now, found
	}
	return found, true, err
}

// looks is what a page remembers from one look of its stream to the next.
type looks struct {
	// steps are what the agent of the conversation does now, and ended its turns that do not change any more.
	steps  steps
	ended  map[string]turn
	spaces kept[api.WorkspaceList]
	uses   kept[api.UseList]
	days   kept[api.UseOverTime]
	status kept[api.Status]
	wires  kept[wires]
	talks  kept[talks]
}

// stream is one open page.
type stream struct{ end context.CancelFunc }

// enter counts a stream of a session and ends the oldest one when there are too many. leave counts it no more.
func (p *Page) enter(ctx context.Context, s session) (_ context.Context, leave func()) {
	ctx, end := context.WithCancel(ctx)
	own := &stream{end: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append(p.streams[s.key], own)
	for len(all) > maxStreams {
		all[0].end()
		all = all[1:]
	}
	p.streams[s.key] = all
	return ctx, func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		left := slices.DeleteFunc(p.streams[s.key], func(o *stream) bool { return o == own })
		if p.streams[s.key] = left; len(left) == 0 {
			delete(p.streams, s.key)
		}
	}
}

// part is a piece of the page: HTML only where the browser has another one.
type part struct {
	Key  string        `json:"key,omitempty"`
	Hash string        `json:"hash,omitempty"`
	HTML template.HTML `json:"html,omitempty"`
}

// update is what changed on a page. Items are all parts in their order; Gone are those that do not wait any more, with what became of them.
type update struct {
	Count int    `json:"count"`
	Title string `json:"title"`
	Sub   string `json:"sub"`
	Quiet string `json:"quiet"`
	More  string `json:"more,omitempty"`
	Items []part `json:"items"`
	Gone  []part `json:"gone,omitempty"`
	Side  part   `json:"side"`
}

// live streams what changes on a page as server-sent events, until the browser leaves, the session ends or the server stops.
func (p *Page) live(w http.ResponseWriter, r *http.Request, s session) error {
	v, err := viewOf(r, s)
	if err != nil {
		return err
	}
	v.steady, v.done, v.looks = true, "", &looks{ended: map[string]turn{}}
	m, err := p.model(r.Context(), v)
	if err != nil {
		return err // such as an agent that nobody knows
	}
	ctx, leave := p.enter(r.Context(), s)
	defer leave()
	changes, stop := p.o.Watch()
	defer stop()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would keep news back
	out := sender{page: p, w: w, c: http.NewResponseController(w), has: map[string]string{}}
	if v.open != "" {
		out.order = []string{v.open} // if it waits no more, the browser hears what became of it
	}
	for {
		wait := beat
		if err == nil { // a database that is away for a moment is no news: the page says that it is not live
			if m.Busy {
				wait = busyBeat
			}
			if out.tell(r.Context(), m) != nil {
				return nil // the browser left, or takes nothing
			}
		}
		tick := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			if r.Context().Err() == nil { // a newer page took its place
				_ = out.write("event: enough\ndata:\n\n")
			}
			return nil
		case <-httpx.Draining(r.Context()):
			return nil
		case <-tick.C:
		case <-changes:
			_ = pause.For(ctx, settle) // the next look finds the end of ctx
		}
		tick.Stop()
		if _, good, err := p.stands(r.Context(), s.key); err != nil || !good {
			return nil // the browser comes back, and is asked to log in
		}
		m, err = p.model(r.Context(), v)
	}
}

// sender writes one stream, and knows what the browser has.
type sender struct {
	page *Page
	w    http.ResponseWriter
	c    *http.ResponseController
	// has are the hashes of what was sent, by key, order the keys of the items, and last what was sent last.
	has   map[string]string
	order []string
	last  string
}

// tell sends what changed, or a sign of life.
func (s *sender) tell(ctx context.Context, m page) error {
	n := update{Count: m.Count, Title: m.Title, Sub: m.Sub, Quiet: m.Quiet, More: m.More, Items: []part{}}
	var order []string
	for _, i := range m.Items {
		_, key := i.names()
		order = append(order, key)
		one, err := s.part(i)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, one)
	}
	for _, key := range s.order {
		if slices.Contains(order, key) {
			continue
		}
		delete(s.has, key)
		if m.Place != placeNeeds {
			continue // the browser drops what is not there any more
		}
		html, err := s.page.piece(s.page.decided(ctx, key))
		if err != nil {
			return err
		}
		n.Gone = append(n.Gone, part{Key: key, HTML: html})
	}
	if m.Side != nil {
		var err error
		if n.Side, err = s.part(m.Side); err != nil {
			return err
		}
	}
	s.order = order
	return s.send(n)
}

// part renders a part if the browser does not have it.
func (s *sender) part(k keyed) (part, error) {
	one := part{Hash: hashOf(k)}
	if _, one.Key = k.names(); s.has[one.Key] == one.Hash {
		return one, nil
	}
	var err error
	one.HTML, err = s.page.piece(k)
	s.has[one.Key] = one.Hash
	return one, err
}

// send writes an update, or a sign of life where nothing has changed.
func (s *sender) send(n update) error {
	bare, err := json.Marshal(n.bare())
	if err != nil {
		return err
	}
	if string(bare) == s.last {
		return s.write("event: beat\ndata:\n\n")
	}
	s.last = string(bare)
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return s.write("event: news\ndata: " + string(text) + "\n\n")
}

func (s *sender) write(text string) error {
	_ = s.c.SetWriteDeadline(time.Now().Add(patience)) // only a test's writer has no deadlines
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.c.Flush()
}

// bare is what tells one state of a page from another.
func (n update) bare() update {
	n.Gone, n.Items = nil, slices.Clone(n.Items)
	for i := range n.Items {
		n.Items[i].HTML = ""
	}
	n.Side.HTML = ""
	return n
}
