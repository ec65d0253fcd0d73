package openai

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// claim is what may make a request a repeat.
type claim struct {
	key, body string
	// marked is set for a request that says that it repeats one which the door did not refuse.
	marked bool
	now    time.Time
}

// fits reports whether a turn of the same body whose answer nobody had may be met: by a request that says that it is a repeat, or once
// after a connection broke.
func (c claim) fits(t Turn) bool {
	switch {
	case c.key != "":
		return true
	case !t.HadAt.IsZero():
		return false
	case t.BrokenAt.IsZero():
		return c.marked
	case c.marked:
		return c.now.Sub(t.BrokenAt) <= markedWithin
	}
	return c.now.Sub(t.BrokenAt) <= repeatWithin
}

// errNotARepeat says that somebody else met the turn first, or reads it: the request is one of its own.
var errNotARepeat = errors.New("not a repeat")

// repeats finds the turn that a request repeats: the one of its key; or of the same body, when nobody had that turn's answer and the request says
// that it is a repeat, or the connection broke a short while ago. Requests that are open side by side are never one.
func (d *Door) repeats(ctx context.Context, turns []Turn, c claim) (*Turn, error) {
	if c.key != "" {
		at := slices.IndexFunc(turns, func(t Turn) bool { return t.Key == c.key })
		if at < 0 {
			return nil, nil
		}
		if turns[at].Body != c.body {
			return nil, unprocessable("", "idempotency_key_reused", "this Idempotency-Key was used for another request; send a new one with a new request")
		}
		return &turns[at], nil
	}
	wait, done := context.WithTimeout(ctx, fateWithin)
	defer done()
	for _, t := range turns {
		if t.Body != c.body || t.Key != "" {
			continue
		}
		t, read := d.settled(wait, t)
		if !read && !t.HadAt.IsZero() {
			t = d.doubt(wait, t, c)
		}
		if !read && t.Body == c.body && c.fits(t) {
			return &t, nil
		}
	}
	return nil, nil
}

// taking makes requests of one body wait for each other until they are recorded, so that a repeat sees the first one. Each waits at most
// fateWithin. release lets the next one in; twice is fine.
func (d *Door) taking(ctx context.Context, token, body string) (release func()) {
	ctx, done := context.WithTimeout(ctx, fateWithin)
	defer done()
	key := [2]string{token, body}
	for {
		d.mu.Lock()
		before := d.taken[key]
		if before == nil {
			mine := make(chan struct{})
			d.taken[key] = mine
			d.mu.Unlock()
			return sync.OnceFunc(func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.taken, key)
				close(mine)
			})
		}
		d.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return func() {}
		}
	}
}

// isRead reports whether a turn of a body has a reader here.
func (d *Door) isRead(turns []Turn, body string) bool {
	return slices.ContainsFunc(turns, func(t Turn) bool {
		l := d.held(t.ID)
		if t.Body != body || l == nil {
			return false
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.readers > 0 || l.reserved
	})
}

// settled returns a turn as it stands once nobody reads it, or once ctx ended while somebody does. A client that repeats has closed its
// connection, which may take a moment to be seen.
func (d *Door) settled(ctx context.Context, t Turn) (row Turn, read bool) {
	l := d.held(t.ID)
	if l == nil {
		if t.BrokenAt.IsZero() && t.Holder != d.holder && d.o.Alone {
			t.BrokenAt = d.began // by the end of the process before
		}
		return t, false
	}
	for {
		l.mu.Lock()
		row, read = l.row, l.readers > 0 || l.reserved
		changed := l.changed
		l.mu.Unlock()
		if !read || ctx.Err() != nil {
			return row, read
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// sending is how a whole answer was sent to a client that keeps its connections.
type sending struct {
	conn  *httpx.Conn
	asked int64 // the requests on the connection so far
	at    time.Time
}

// sendingOf returns nil for a client that may end its connection when it has read the answer. The openai libraries never do.
func sendingOf(r *http.Request) *sending {
	conn := httpx.ConnOf(r.Context())
	if conn == nil || r.ProtoMajor != 1 || r.Header.Get("X-Stainless-Retry-Count") == "" || !strings.EqualFold(r.Header.Get("Connection"), "keep-alive") {
		return nil
	}
	return &sending{conn: conn, asked: conn.Requests()}
}

// broke waits until it is known whether the connection ended right behind the answer, and returns when; zero if it did not.
func (s *sending) broke(ctx context.Context) time.Time {
	for {
		switch at := s.conn.Closed(); {
		case s.conn.Requests() > s.asked:
			return time.Time{}
		case !at.IsZero() && at.Sub(s.at) <= doubtFor:
			return at
		case !at.IsZero(), time.Since(s.at) > doubtFor, !pause(ctx, 10*time.Millisecond):
			return time.Time{}
		}
	}
}

// maxDoubts is how often one answer is given again, because its connection ended right behind it, to requests that do not say that they are repeats.
const maxDoubts = 1

// doubt returns a turn whose answer was sent whole. Where the connection ended right behind it, it broke on the way for all that the door knows: then
// a repeat that comes at once gets the answer again.
func (d *Door) doubt(ctx context.Context, t Turn, c claim) Turn {
	l := d.held(t.ID)
	if l == nil {
		return t
	}
	l.mu.Lock()
	out, within := l.sent, doubtWithin
	if c.marked {
		within = doubtMarked
	} else if l.doubts >= maxDoubts {
		out = nil
	}
	l.mu.Unlock()
	if out == nil {
		return t
	}
	at := out.broke(ctx)
	if at.IsZero() || time.Since(at) > within {
		return t
	}
	l.change(func() {
		l.sent = nil
		if !c.marked {
			l.doubts++
		}
	})
	if err := d.save(ctx, l, nil, func(t *Turn) { t.HadAt, t.BrokenAt = time.Time{}, d.now() }); err != nil {
		return t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row
}

func pause(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// meet returns the turn that a request repeats: as it goes on here, as it is recorded, or, where another process has it, when that one is done.
// Of several requests that come for one broken connection, it is the answer of one; errNotARepeat for the others.
func (d *Door) meet(ctx context.Context, row Turn, c claim) (*leg, error) {
	for {
		d.mu.Lock()
		l := d.legs[row.ID]
		d.mu.Unlock()
		if l != nil {
			return l, d.join(ctx, l, c)
		}
		if row.State.Over() || row.State == TurnParked {
			return d.rejoin(ctx, row, c)
		}
		if !row.Held.After(d.now()) {
			d.adopt(ctx, row)
		}
		if !pause(ctx, 250*time.Millisecond) {
			return nil, &upstream.Error{Type: typeServer, Message: "the caller left"}
		}
		f, err := d.o.Records.Look(ctx, Query{Token: row.Token, Turn: row.ID})
		if err != nil || len(f.Turns) == 0 {
			return nil, errors.Join(err, fmt.Errorf("look at turn %s", row.ID))
		}
		row = f.Turns[0]
	}
}

// join makes a request a reader of a turn under way. Without a key it must be the only one.
func (d *Door) join(ctx context.Context, l *leg, c claim) error {
	if !l.reserve(c.key != "") {
		return errNotARepeat
	}
	fits := true
	err := d.save(ctx, l, nil, func(t *Turn) {
		if fits = c.fits(*t); fits {
			t.BrokenAt = time.Time{}
		}
	})
	if err == nil && !fits {
		err = errNotARepeat
	}
	if err != nil {
		l.change(func() { l.reserved = false })
	}
	return err
}

// reserve keeps a leg for one request until that one reads it. shared is set for requests that may read side by side.
func (l *leg) reserve(shared bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !shared && (l.readers > 0 || l.reserved) {
		return false
	}
	l.reserved = l.reserved || !shared
	return true
}

// rejoin answers a repeat from the record. The version of the row lets one of several through.
func (d *Door) rejoin(ctx context.Context, row Turn, c claim) (*leg, error) {
	if !c.fits(row) {
		return nil, errNotARepeat
	}
	l, err := recorded(row)
	if err != nil {
		return nil, &upstream.Error{Type: typeServer, Code: "answer_lost", Message: "this request was taken before, and its answer is lost: " + err.Error()}
	}
	row.BrokenAt = time.Time{}
	if row.State.Over() { // a parked one belongs to whoever holds its run
		row.Holder = d.holder
	}
	if err := d.o.Records.Save(ctx, Change{Turns: []Turn{row}}); err != nil {
		return nil, err
	}
	row.Version++
	l.row, l.reserved = row, c.key == ""
	d.keep(l) // so that others see that it is read
	d.forget(l)
	return l, nil
}

// markedRepeat reports whether a request says that it is a repeat.
func markedRepeat(r *http.Request) bool {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// maxRefused bounds the bodies that were refused a while ago.
const maxRefused = 10_000

// refuse remembers that a body was refused before anything was begun: then the next try of it repeats nothing, though it may say so.
func (d *Door) refuse(token, body string, why error) {
	if e := shown(why); !e.NothingHappened || body == "" {
		return
	}
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refused) >= maxRefused {
		maps.DeleteFunc(d.refused, func(_ [2]string, at time.Time) bool { return now.Sub(at) > markedWithin })
	}
	if len(d.refused) < maxRefused {
		d.refused[[2]string{token, body}] = now
	}
}

// wasRefused reports whether the last try of a body was refused.
func (d *Door) wasRefused(token, body string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, there := d.refused[[2]string{token, body}]
	return there && d.now().Sub(at) <= markedWithin
}
