package openai

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/internal/pause"
	"drawbridge/openai/upstream"
)

// claim is what may make a request a repeat.
type claim struct {
	key, body string
	// marked is set for a request that says that it repeats one which the door did not refuse.
	marked bool
	// lost is set for a request that comes for an answer which may have been lost on its way.
	lost bool
	now  time.Time
}

// fits reports whether a request may have the answer of a turn. Without a key, nobody may have had it: the request says that it is a repeat,
// or it comes once after a connection broke.
func (c claim) fits(t Turn) bool {
	switch {
	case c.key != "", c.lost:
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

// pass lets the requests of one body through one at a time: the next one when release was called, or after passWithin. Who repeats a
// request waits that way for its record, and until it is seen that its connection is closed. release may be called twice.
func (d *Door) pass(ctx context.Context, token, body string) (release func()) {
	ctx, done := context.WithTimeout(ctx, passWithin)
	defer done()
	key := [2]string{token, body}
	for {
		d.mu.Lock()
		before := d.passing[key]
		if before == nil {
			mine := make(chan struct{})
			d.passing[key] = mine
			d.mu.Unlock()
			return sync.OnceFunc(func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.passing, key)
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

// repeated returns the turn that a request repeats; nil for a request that begins a turn of its own.
func (d *Door) repeated(ctx context.Context, token string, turns []Turn, c claim) (*leg, error) {
	if l := d.takeLost(token, c); l != nil {
		c.lost = true
		return l, d.join(ctx, l, c)
	}
	for _, t := range turns {
		if c.key != "" && t.Key == c.key && t.Body != c.body {
			return nil, unprocessable("", "idempotency_key_reused", "this Idempotency-Key was used for another request; send a new key with a new request")
		}
		if t.Body != c.body || t.Key != c.key {
			continue
		}
		if l := d.held(t.ID); l != nil {
			row, read := l.reading()
			if read && c.key == "" {
				continue
			}
			t = row
		} else if t.Holder != d.holder && c.key == "" && (d.o.Alone || !c.marked) {
			var err error
			if t, err = d.fate(ctx, t); err != nil {
				return nil, err
			}
		}
		if c.fits(t) {
			return d.meet(ctx, t, c)
		}
	}
	return nil, nil
}

// fate waits until it is known whether the connection of a turn that another process holds broke with that process: until the answer was had,
// the process gives a sign, or its hold lapses.
func (d *Door) fate(ctx context.Context, row Turn) (_ Turn, err error) {
	for sign := row.Held; row.HadAt.IsZero() && row.BrokenAt.IsZero() && !row.Held.After(sign); {
		switch {
		case d.o.Alone:
			row.BrokenAt = d.began // by the end of the process before
		case sign.IsZero():
			row.BrokenAt = row.StartedAt
		case !sign.After(d.now()):
			row.BrokenAt = sign
		default:
			if row, err = d.lookAgain(ctx, row); err != nil {
				return row, err
			}
		}
	}
	return row, nil
}

// lookAgain returns a turn as its record has it a moment later.
func (d *Door) lookAgain(ctx context.Context, row Turn) (Turn, error) {
	if err := pause.For(ctx, 250*time.Millisecond); err != nil {
		return row, err
	}
	f, err := d.o.Records.Look(ctx, Query{Token: row.Token, Turn: row.ID})
	if err != nil || len(f.Turns) == 0 {
		return row, errors.Join(err, fmt.Errorf("look at turn %s", row.ID))
	}
	return f.Turns[0], nil
}

// meet returns the turn that a request repeats: as it goes on here, as it is recorded, or, where another process has it, when that one is done.
// Of several requests that come for one broken connection, it is the answer of one; the others get ErrConflict.
func (d *Door) meet(ctx context.Context, row Turn, c claim) (*leg, error) {
	for {
		l := d.held(row.ID)
		if l == nil && (row.State.Over() || row.State == TurnParked) {
			made, err := recorded(row)
			if err != nil {
				return nil, &upstream.Error{Type: typeServer, Code: "answer_lost", Message: "the bridge took this request before, but its answer is lost: " + err.Error()}
			}
			l = d.keep(made)
			d.forget(l)
		}
		if l != nil {
			err := d.join(ctx, l, c)
			if isConflict(err) {
				d.lose(l) // the record has it otherwise
			}
			return l, err
		}
		if !row.Held.After(d.now()) {
			d.adopt(ctx, row)
		}
		var err error
		if row, err = d.lookAgain(ctx, row); err != nil {
			return nil, err
		}
	}
}

// join makes a request a reader of a turn. Without a key it must be the only one, and the turn must fit it, or the error is ErrConflict.
func (d *Door) join(ctx context.Context, l *leg, c claim) error {
	if !l.enter(c.key != "") {
		return ErrConflict
	}
	fits := true
	err := d.save(ctx, l, nil, func(t *Turn) {
		if fits = c.fits(*t); !fits {
			return
		}
		t.BrokenAt = time.Time{}
		if c.lost {
			t.HadAt = time.Time{}
		}
		if t.State.Over() { // a parked one belongs to whoever holds its run
			t.Holder, t.Held = d.holder, d.now().Add(holdFor)
		}
	})
	if err == nil && !fits {
		err = ErrConflict
	}
	if err != nil {
		l.leave()
	}
	return err
}

// enter makes a request a reader. shared is set for requests that may read side by side.
func (l *leg) enter(shared bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !shared && l.readers > 0 {
		return false
	}
	l.readers++
	return true
}

// leave ends what enter began.
func (l *leg) leave() { l.change(func() { l.readers-- }) }

// reading returns a leg's turn as it stands, and whether a request reads it.
func (l *leg) reading() (row Turn, read bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row, l.readers > 0
}

// keptConn returns the connection of a client that keeps it behind an answer, as the openai libraries do; nil for others.
func keptConn(r *http.Request) *httpx.Conn {
	if r.ProtoMajor != 1 || r.Header.Get("X-Stainless-Retry-Count") == "" || !strings.EqualFold(r.Header.Get("Connection"), "keep-alive") {
		return nil
	}
	return httpx.ConnOf(r.Context())
}

// endsAtOnce waits until it is known whether a connection ends right behind an answer, without another request.
func (d *Door) endsAtOnce(c *httpx.Conn, next <-chan struct{}) bool {
	timer := time.NewTimer(doubtFor)
	defer timer.Stop()
	select {
	case <-c.Done():
		return true
	case <-next:
	case <-timer.C:
	case <-d.base.Done():
	}
	return false
}

// lostAnswer is an answer that was sent whole, on a connection that ended right behind it.
type lostAnswer struct {
	leg *leg
	at  time.Time
}

// mayBeLost lets the next request of the same body have an answer once more.
func (d *Door) mayBeLost(l *leg) {
	row, _ := l.reading()
	if row.Key != "" || row.Body == "" || l.again.Swap(true) {
		return
	}
	key := [2]string{row.Token, row.Body}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost[key] = lostAnswer{l, d.now()}
	time.AfterFunc(lostMarked, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.lost[key].leg == l {
			delete(d.lost, key)
		}
	})
}

// takeLost returns the answer of a body that may be lost, to one request.
func (d *Door) takeLost(token string, c claim) *leg {
	key, within := [2]string{token, c.body}, lostWithin
	if c.marked {
		within = lostMarked
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a, there := d.lost[key]
	if !there || c.key != "" || c.now.Sub(a.at) > within {
		return nil
	}
	delete(d.lost, key)
	return a.leg
}

// markedRepeat reports whether a request says that it is a repeat.
func markedRepeat(r *http.Request) bool {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// maxRefused bounds the bodies that were refused a while ago.
const maxRefused = 10_000

// refuse remembers that a body was refused for a while, before anything was begun: then the next try of it repeats nothing, though it may
// say so.
func (d *Door) refuse(token, body string, why error) {
	if e := shown(why); !e.NothingHappened || !repeated(e.Status) || body == "" {
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
