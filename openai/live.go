package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drawbridge/openai/upstream"
)

// maxAnswer bounds what one answer may say, in bytes.
const maxAnswer = 16 << 20

// leg is one request and its answer while they are in memory. A turn of a backend has several when it waits for the caller's tools in between.
type leg struct {
	id, session, model string
	created            int64
	offered            map[string]bool // names of the caller's tools; nil when the backend checks them itself

	mu      sync.Mutex // guards what follows
	row     Turn
	events  []upstream.Event
	size    int
	calls   []upstream.Call
	begun   bool // the backend took it
	over    bool
	failed  *upstream.Error
	changed chan struct{} // closed at each change, and replaced
	// readers counts the requests that read it, or are about to.
	readers int

	again  atomic.Bool // its answer may be lost, and is given once more
	saving sync.Mutex  // one save of the row at a time
}

func newLeg(row Turn) *leg {
	return &leg{id: row.ID, session: row.Session, model: row.Model, row: row, created: row.StartedAt.Unix(), changed: make(chan struct{})}
}

// change runs fn under the lock and wakes those who follow.
func (l *leg) change(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *leg) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// view is a leg as its reader sees it from an event on.
type view struct {
	events  []upstream.Event
	begun   bool
	over    bool
	failed  *upstream.Error
	changed <-chan struct{}
}

func (l *leg) from(n int) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return view{events: l.events[n:len(l.events):len(l.events)], begun: l.begun, over: l.over, failed: l.failed, changed: l.changed}
}

// add appends what the backend said. It fails for what must not reach the caller.
func (l *leg) add(e upstream.Event) (err error) {
	l.change(func() {
		l.size += len(e.Text) + len(e.Arguments) + len(e.Name)
		if l.size > maxAnswer {
			err = &upstream.Error{Type: typeUpstream, Code: "answer_too_long", Message: fmt.Sprintf("the answer has more than %d bytes; it was cut off", maxAnswer)}
			return
		}
		if e.Kind == upstream.CallPiece {
			if err = l.piece(&e); err != nil {
				return
			}
		}
		l.events = append(l.events, e)
	})
	return err
}

// piece takes a piece of a call: the first one of an index opens it and gets the door's id, later ones are more of its arguments.
func (l *leg) piece(e *upstream.Event) error {
	if e.Index < 0 || e.Index > len(l.calls) || e.Index >= maxTools {
		return &upstream.Error{Type: typeUpstream, Code: "broken_answer", Message: "the backend sent its tool calls out of order; send the request again as a new one"}
	}
	if e.Index == len(l.calls) {
		if l.offered != nil && !l.offered[e.Name] {
			return &upstream.Error{Type: typeUpstream, Code: "unknown_tool", Message: "the model called the tool " + quoted(e.Name) + ", which the request does not offer"}
		}
		l.calls = append(l.calls, upstream.Call{ID: e.ID, Name: e.Name})
		e.ID = callID(l.id, e.Index+1)
	} else {
		e.ID, e.Name = "", ""
	}
	c := &l.calls[e.Index]
	c.Arguments = append(c.Arguments, e.Arguments...)
	if len(c.Arguments) > maxArguments {
		return &upstream.Error{Type: typeUpstream, Code: "arguments_too_long", Message: fmt.Sprintf("the model called a tool with more than %d bytes of arguments", maxArguments)}
	}
	return nil
}

// fillArguments makes {} of the arguments of a call that has none: clients read the pieces of a stream as JSON.
func (l *leg) fillArguments() {
	l.change(func() {
		for i := range l.calls {
			if len(l.calls[i].Arguments) == 0 {
				l.calls[i].Arguments = []byte("{}")
				l.events = append(l.events, upstream.Event{Kind: upstream.CallPiece, Index: i, Arguments: "{}"})
			}
		}
	})
}

// answer is how the record keeps what was said.
type answer struct {
	Text      string          `json:"text,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	Calls     []savedCall     `json:"calls,omitempty"`
	Finish    string          `json:"finish,omitempty"`
	Usage     *upstream.Usage `json:"usage,omitempty"`
	Error     *savedError     `json:"error,omitempty"`
}

type savedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	// Extra are fields that the backend wants back with the call.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// answerOf puts together what events say.
func answerOf(events []upstream.Event, failed *upstream.Error) (a answer) {
	var text, reasoning strings.Builder
	var arguments []*strings.Builder
	for _, e := range events {
		switch e.Kind {
		case upstream.Text:
			text.WriteString(e.Text)
		case upstream.Reasoning:
			reasoning.WriteString(e.Text)
		case upstream.CallPiece:
			if e.Index == len(a.Calls) {
				a.Calls = append(a.Calls, savedCall{ID: e.ID, Name: e.Name, Extra: e.Extra})
				arguments = append(arguments, &strings.Builder{})
			}
			arguments[e.Index].WriteString(e.Arguments)
		case upstream.Parked:
			a.Finish, a.Usage = "tool_calls", e.Usage
		case upstream.Ended:
			a.Finish, a.Usage = e.Finish, e.Usage
		}
	}
	a.Text, a.Reasoning = text.String(), reasoning.String()
	for i := range a.Calls {
		a.Calls[i].Arguments = cmp.Or(arguments[i].String(), "{}")
	}
	if failed != nil {
		a.Error = saved(failed)
	}
	return a
}

// eventsOf is an answer of the record as its events.
func (a answer) eventsOf() (events []upstream.Event) {
	if a.Reasoning != "" {
		events = append(events, upstream.Event{Kind: upstream.Reasoning, Text: a.Reasoning})
	}
	if a.Text != "" {
		events = append(events, upstream.Event{Kind: upstream.Text, Text: a.Text})
	}
	for i, c := range a.Calls {
		events = append(events, upstream.Event{Kind: upstream.CallPiece, Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments, Extra: c.Extra})
	}
	if a.Finish != "" {
		events = append(events, upstream.Event{Kind: upstream.Ended, Finish: a.Finish, Usage: a.Usage})
	}
	return events
}

// message is the answer as a message of the history that follows.
func (a answer) message() upstream.Message {
	m := upstream.Message{Role: "assistant", Text: a.Text}
	for _, c := range a.Calls {
		m.Calls = append(m.Calls, upstream.Call{ID: c.ID, Name: c.Name, Arguments: argumentsOf(c.Arguments)})
	}
	return m
}

// recorded returns a leg that is over, as the record has it.
func recorded(row Turn) (*leg, error) {
	l := newLeg(row)
	l.begun, l.over = true, true
	if len(row.Answer) == 0 {
		return l, fmt.Errorf("turn %s is %s and has no answer", row.ID, row.State)
	}
	var a answer
	if err := json.Unmarshal(row.Answer, &a); err != nil {
		return l, fmt.Errorf("read the answer of turn %s: %w", row.ID, err)
	}
	l.events = a.eventsOf()
	if a.Error != nil {
		asType(a.Error.error(), &l.failed)
	}
	return l, nil
}

// run is a turn of a backend under way, over all its legs.
type run struct {
	backend Backend
	// root is the id under which the backend began it.
	root string
	turn upstream.Turn
	// body is the request, where the backend keeps nothing, and undo gives the results back that it brought.
	body []byte
	undo Change

	mu  sync.Mutex // guards leg, timer, until and gone
	leg *leg
	// timer ends it when nobody brings the results until then.
	timer *time.Timer
	until time.Time
	// gone is why the backend lost the turn while results were on their way.
	gone *upstream.Error
	// delivered wakes the pump after results came; it is closed when none came in time.
	delivered chan struct{}
	// died has why the backend lost the turn while it waited. It is nil for one that was resumed.
	died chan *upstream.Error
}

// end notes that the backend lost the turn.
func (r *run) end(why *upstream.Error) {
	select {
	case r.died <- why:
	default:
	}
}

func (r *run) current() *leg {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leg
}

// ref is how the record keeps by what a run is resumed.
type ref struct {
	Backend string `json:"backend"`
	Root    string `json:"root"`
	Ref     string `json:"ref,omitempty"`
	// Next is the leg that followed when the results had come.
	Next string `json:"next,omitempty"`
}

// save changes the leg's row in the record; fn sees it as it stands there, and so does the leg afterwards.
func (d *Door) save(ctx context.Context, l *leg, calls []CallRow, fn func(*Turn)) error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	row := l.row
	l.mu.Unlock()
	for range 10 {
		fn(&row)
		if !row.State.Over() { // the record may have a later sign than the row
			row.Held = d.now().Add(holdFor)
		}
		err := d.o.Records.Save(ctx, Change{Turns: []Turn{row}, Calls: calls})
		if err == nil {
			row.Version++
			l.mu.Lock()
			l.row = row
			l.mu.Unlock()
			return nil
		}
		if !isConflict(err) {
			return err
		}
		f, err := d.o.Records.Look(ctx, Query{Token: row.Token, Turn: row.ID})
		if err != nil {
			return err
		}
		if len(f.Turns) == 0 || f.Turns[0].Holder != d.holder {
			return fmt.Errorf("turn %s belongs to another process by now: %w", row.ID, ErrConflict)
		}
		row = f.Turns[0]
	}
	return ErrConflict
}

func isConflict(err error) bool { return errors.Is(err, ErrConflict) }

// keep puts a leg into memory, where repeats find it, and returns the one that is there.
func (d *Door) keep(l *leg) *leg {
	d.mu.Lock()
	defer d.mu.Unlock()
	if there := d.legs[l.id]; there != nil {
		return there
	}
	d.legs[l.id] = l
	return l
}

// lose takes a leg out of memory that the record knows better.
func (d *Door) lose(l *leg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.legs[l.id] == l && d.parked[l.id] == nil {
		delete(d.legs, l.id)
	}
}

// forget takes a leg out of memory after a while, unless another one stands there under its id by then.
func (d *Door) forget(l *leg) {
	if l == nil {
		return
	}
	time.AfterFunc(remember, func() { d.lose(l) })
}

// held returns the leg that is in memory under an id, or nil.
func (d *Door) held(id string) *leg {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.legs[id]
}

// pump reads a run to its end, also when nobody listens.
func (d *Door) pump(r *run) {
	for {
		e, err := r.turn.Next(d.base)
		l := r.current()
		switch {
		case d.base.Err() != nil:
			return // it goes on at the next start, or the record says that it was lost
		case err != nil:
			d.fail(l, err)
			return
		case e.Kind == upstream.Parked:
			d.park(r, l, e)
			if !d.waited(r, l) {
				return
			}
		case e.Kind == upstream.Ended:
			d.finish(r, l, e)
			return
		default:
			if err := l.add(e); err != nil {
				d.cancel(r)
				d.fail(l, err)
				return
			}
		}
	}
}

// waited waits for the results of a parked run. It returns false when none come any more.
func (d *Door) waited(r *run, l *leg) bool {
	for {
		select {
		case _, more := <-r.delivered:
			return more
		case why := <-r.died:
			r.mu.Lock()
			r.gone = why
			r.mu.Unlock()
			if d.unpark(l.id) == nil {
				continue // results are on their way, and fail
			}
			d.drop(l, d.told(l, why))
			return false
		case <-d.base.Done():
			return false
		}
	}
}

// cancel ends a run of which nothing more is wanted.
func (d *Door) cancel(r *run) {
	ctx, done := d.lasting()
	defer done()
	if err := r.turn.Cancel(ctx); err != nil {
		d.o.Log.Warn().Err(err).Str("turn", r.root).Msg("a turn of the OpenAI-compatible door was not cancelled")
	}
}

// told is the error of a turn as its caller reads it. The log gets all of it.
func (d *Door) told(l *leg, cause error) *upstream.Error {
	e := shown(cause)
	if !e.NothingHappened {
		d.o.Log.Warn().Err(cause).Str("turn", l.id).Msg("a turn of the OpenAI-compatible door failed")
	}
	return e
}

// fail ends a leg with an error.
func (d *Door) fail(l *leg, cause error) {
	d.close(l, d.told(l, cause), nil, func(t *Turn) { t.State = TurnFailed })
}

// finish ends a leg with its answer.
func (d *Door) finish(r *run, l *leg, e upstream.Event) {
	if r.backend.Stateless && e.Finish == "stop" && len(l.calls) > 0 {
		e.Finish = "tool_calls" // some endpoints say stop behind a call
	}
	l.fillArguments()
	l.change(func() { l.events = append(l.events, e) })
	calls := callRows(l)
	if r.backend.Stateless && len(calls) > 0 && r.body != nil {
		ctx, done := d.lasting()
		defer done()
		if err := d.o.Records.SetState(ctx, l.session, BodyKey(l.id), r.body); err != nil {
			d.o.Log.Warn().Err(err).Str("turn", l.id).Msg("/v1/tool_results cannot go on with this turn; its request is not recorded")
		}
	}
	d.close(l, nil, calls, func(t *Turn) { t.State = TurnEnded })
}

// park ends a leg with calls, for whose results the run waits.
func (d *Door) park(r *run, l *leg, e upstream.Event) {
	l.fillArguments()
	l.change(func() { l.events = append(l.events, e) })
	d.mu.Lock()
	d.parked[l.id] = r
	d.mu.Unlock()
	d.close(l, nil, callRows(l), func(t *Turn) { t.State = TurnParked })
	d.await(r, l)
}

// await ends a parked run when its time is over, unless somebody else has taken it by then. It is called after the record says that
// the turn is parked: the record of its end comes later than that, whatever the time is.
func (d *Door) await(r *run, l *leg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parked[l.id] != r {
		return // its results came already
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until.IsZero() {
		r.until = d.now().Add(d.o.ParkTimeout)
	}
	r.timer = time.AfterFunc(r.until.Sub(d.now()), func() { d.expire(r, l) })
}

// expire ends a run for whose results nobody came.
func (d *Door) expire(r *run, l *leg) {
	if d.unpark(l.id) == nil {
		return
	}
	d.cancel(r)
	why := &upstream.Error{Type: typeUpstream, Code: "park_timeout", Message: fmt.Sprintf("no results came within %s, so the turn was ended; ask again", d.o.ParkTimeout)}
	d.drop(l, why)
	close(r.delivered)
}

// drop records that the calls of a parked leg get no results any more.
func (d *Door) drop(l *leg, why *upstream.Error) {
	rows := callRows(l)
	for i := range rows {
		rows[i].State, rows[i].Result = CallDropped, mustJSON(saved(why))
	}
	ctx, done := d.lasting()
	defer done()
	if err := d.save(ctx, l, rows, func(t *Turn) { t.State, t.EndedAt = TurnLost, d.now() }); err != nil {
		d.o.Log.Error().Err(err).Str("turn", l.id).Msg("the end of a parked turn is not recorded")
	}
	d.forget(l)
}

// unpark takes a run out of those that wait; nil when somebody else did.
func (d *Door) unpark(id string) *run {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.parked[id]
	delete(d.parked, id)
	if r != nil {
		r.mu.Lock()
		if r.timer != nil {
			r.timer.Stop()
		}
		r.mu.Unlock()
	}
	return r
}

// callRows are the calls of a leg as the record keeps them.
func callRows(l *leg) (rows []CallRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.calls {
		rows = append(rows, CallRow{ID: callID(l.id, i+1), Turn: l.id, Upstream: c.ID, Name: c.Name, Arguments: argumentsOf(string(c.Arguments)), State: CallWaiting, Seq: i + 1})
	}
	return rows
}

// close records how a leg ended, and only then shows it to those who follow: what a caller has seen as ended is in the record.
func (d *Door) close(l *leg, failed *upstream.Error, calls []CallRow, end func(*Turn)) {
	l.mu.Lock()
	a := answerOf(l.events, failed)
	l.mu.Unlock()
	raw := mustJSON(a)
	ctx, done := d.lasting()
	defer done()
	err := d.save(ctx, l, calls, func(t *Turn) {
		t.Answer = raw
		if failed == nil {
			t.After = extend(t.Token, t.Before, a.message())
		}
		if a.Usage != nil {
			t.Tokens = a.Usage.Sum()
		}
		end(t)
		if t.State.Over() {
			t.EndedAt = d.now()
		}
	})
	if err != nil {
		d.o.Log.Error().Err(err).Str("turn", l.id).Msg("the end of a turn is not recorded")
		if failed == nil {
			failed = &upstream.Error{Type: typeAPI, Status: upstream.StatusUnclear, Code: "not_recorded", Message: "the answer came, but the bridge could not record it; its log says why"}
		}
	}
	l.change(func() { l.begun, l.over, l.failed = true, true, failed })
	d.forget(l)
}
