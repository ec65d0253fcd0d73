package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/openai/upstream"
)

// chat takes a request of /v1/chat/completions.
func (d *Door) chat(w http.ResponseWriter, r *http.Request, t Token) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	a, err := readChat(body)
	if err != nil {
		return err
	}
	sum := sumOf(a.body)
	l, release, err := d.take(r, t, a, sum)
	if err != nil {
		d.refuse(t.Name, sum, err)
		return err
	}
	d.answer(w, r, reader{leg: l, release: release, stream: a.stream, voice: &chatVoice{leg: l, usage: a.usage}})
	return nil
}

// take finds the turn that a request repeats or goes on with, or begins a new one. The caller reads it, and calls release when it has.
func (d *Door) take(r *http.Request, t Token, a *asked, sum string) (l *leg, release func(), err error) {
	if a.model != SideName && !t.Allows(a.model) {
		return nil, nil, notAllowed(t, a.model)
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return nil, nil, invalid("", "invalid_idempotency_key", "the Idempotency-Key has more than 255 bytes")
	}
	for range 10 {
		release := func() {}
		if key == "" { // a key in the record does the same
			release = d.pass(r.Context(), t.Name, sum)
		}
		l, err := d.takeOnce(r, t, a, claim{key: key, body: sum})
		if err == nil {
			return l, release, nil
		}
		release()
		if !isConflict(err) {
			return nil, nil, err
		}
	}
	return nil, nil, &upstream.Error{Status: http.StatusServiceUnavailable, Type: typeServer, NothingHappened: true, Message: "too many requests changed the same turn at once; try again"}
}

func (d *Door) takeOnce(r *http.Request, t Token, a *asked, c claim) (*leg, error) {
	ctx := r.Context()
	now := d.now()
	sums := histories(t.Name, a.messages)
	q := Query{Token: t.Name, Key: c.key, Body: c.body, Since: now.Add(-repeatSince), SessionKey: sessionKey(r), Calls: callIDs(a.messages), Histories: latest(sums, 64)}
	found, err := d.o.Records.Look(ctx, q)
	if err != nil {
		return nil, err
	}
	c.marked, c.now = markedRepeat(r) && !d.wasRefused(t.Name, c.body), now
	if l, err := d.repeated(ctx, t.Name, found.Turns, c); l != nil || err != nil {
		return l, err
	}
	backend, model, side, err := d.lead(ctx, a)
	if err != nil {
		return nil, err
	}
	p := locate(q.SessionKey, a.messages, sums, found)
	if side { // it comes with the session's name, and says nothing in that conversation
		p, q.SessionKey, found = place{}, "", Found{}
	}
	p.session.Model, p.session.Used = model.ID, now
	if p.session.ID == "" {
		p.session = Session{ID: bridge.NewID("ses_"), Token: t.Name, Key: q.SessionKey, Model: model.ID, CreatedAt: now, Used: now}
	}
	row := Turn{ID: newTurnID(), Session: p.session.ID, Token: t.Name, Model: model.ID, State: TurnStarting, Key: c.key, Body: c.body,
		Holder: d.holder, Held: now.Add(holdFor), StartedAt: now}
	if len(sums) > 0 {
		row.Before = sums[len(sums)-1]
	}
	o := order{token: t, backend: backend, place: p, row: row, asked: a, found: found}
	if !backend.Stateless {
		if parked := openCalls(a.messages, found); len(parked) > 0 {
			return d.deliver(ctx, o, resultsOf(a.messages, waiting(found.Calls, parked[0].Turn)))
		}
	}
	if l, err := d.followed(ctx, o); l != nil || err != nil {
		return l, err
	}
	return d.beginWithin(ctx, o)
}

// beginWithin begins a turn that the token may still spend. Requests of one token with a rate pass one after the other, so that no two take the
// last place.
func (d *Door) beginWithin(ctx context.Context, o order) (*leg, error) {
	if o.token.PerMinute > 0 {
		gate, _ := d.gates.LoadOrStore(o.token.ID, &sync.Mutex{})
		mu, _ := gate.(*sync.Mutex)
		mu.Lock()
		defer mu.Unlock()
	}
	if err := d.refuseOverBudget(ctx, o.token, d.now()); err != nil {
		return nil, err
	}
	return d.begin(ctx, o)
}

// sessionKey is what a client calls its session in a header.
func sessionKey(r *http.Request) string {
	for _, name := range []string{"X-Session-Id", "X-Session-Affinity", "Thread-Id", "Session-Id"} { // the last two are Codex's
		if v := strings.TrimSpace(r.Header.Get(name)); v != "" && len(v) <= 255 {
			return v
		}
	}
	return ""
}

// latest returns at most n of the newest digests, each once and the newest first.
func latest(sums []string, n int) []string {
	out := slices.Compact(slices.Clone(sums))
	slices.Reverse(out)
	return out[:min(n, len(out))]
}

// callIDs are the ids of calls that the newest results answer, and those of the assistant's message before them.
func callIDs(messages []upstream.Message) (ids []string) {
	for i := len(messages) - 1; i >= 0 && len(ids) < 256; i-- {
		m := messages[i]
		if m.Role == "tool" {
			ids = append(ids, m.CallID)
		}
		if m.Role == "assistant" {
			for _, c := range m.Calls {
				ids = append(ids, c.ID)
			}
			break
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// place is where a request stands: its session, and which of its messages are new there.
type place struct {
	session Session
	fresh   int
	fork    bool
	// follows is the backend's turn whose answer ends what stands before the fresh messages.
	follows string
}

// locate finds the session of a request: the one that the client names; or of the calls that its messages answer; or of the longest recorded
// history that the messages go on with.
func locate(key string, messages []upstream.Message, sums []string, f Found) (p place) {
	byID := func(id string) (Session, bool) {
		at := slices.IndexFunc(f.Sessions, func(s Session) bool { return s.ID == id })
		if at < 0 {
			return Session{}, false
		}
		return f.Sessions[at], true
	}
	named := false
	if key != "" {
		if at := slices.IndexFunc(f.Sessions, func(s Session) bool { return s.Key == key }); at >= 0 {
			p.session, named = f.Sessions[at], true
		}
	} else if len(f.Calls) > 0 {
		for _, t := range f.Turns {
			if t.ID == f.Calls[0].Turn {
				p.session, named = byID(t.Session)
			}
		}
	}
	for i := len(sums) - 1; i >= 0; i-- {
		for _, t := range f.Turns {
			if t.After != sums[i] || named && t.Session != p.session.ID {
				continue
			}
			if s, ok := byID(t.Session); ok && (key == "" || s.Key == key) {
				p.session, p.fresh = s, i+1
				if by := refOf(t); by.Next == "" && t.State == TurnEnded {
					p.follows = by.Root
				}
				return p
			}
		}
	}
	p.fork = named && slices.ContainsFunc(messages, func(m upstream.Message) bool { return m.Role == "assistant" })
	return p
}

// openCalls are the calls that wait for results which the newest messages bring.
func openCalls(messages []upstream.Message, f Found) (open []CallRow) {
	ids := callIDs(messages)
	for _, c := range f.Calls {
		at := slices.IndexFunc(f.Turns, func(t Turn) bool { return t.ID == c.Turn })
		if c.State == CallWaiting && slices.Contains(ids, c.ID) && at >= 0 && f.Turns[at].State == TurnParked {
			open = append(open, c)
		}
	}
	return open
}

// refuseOverBudget refuses what a token may not spend, before anything is begun.
func (d *Door) refuseOverBudget(ctx context.Context, t Token, now time.Time) error {
	if t.PerMinute > 0 {
		_, turns, err := d.o.Records.Spent(ctx, t.Name, now.Add(-time.Minute))
		if err != nil {
			return err
		}
		if turns >= int64(t.PerMinute) {
			return limited("rate_limit_exceeded", fmt.Sprintf("the token %s may begin at most %d turns a minute; wait a moment", t.Name, t.PerMinute), 20*time.Second)
		}
	}
	if t.Budget > 0 {
		day := now.Truncate(24 * time.Hour)
		tokens, _, err := d.o.Records.Spent(ctx, t.Name, day)
		if err != nil {
			return err
		}
		if tokens >= t.Budget {
			return limited("insufficient_quota", fmt.Sprintf("the token %s used %d of its %d tokens today (UTC); wait for tomorrow, or make another token", t.Name, tokens, t.Budget), day.Add(24*time.Hour).Sub(now))
		}
	}
	return nil
}

// order is what becomes of a request that is not a repeat.
type order struct {
	token   Token
	backend Backend
	place   place
	// row is the leg that it begins.
	row   Turn
	asked *asked
	found Found
	// goesOn is the turn whose calls get their results by this one, at a backend that keeps nothing.
	goesOn *Turn
}

// begin records a new turn and asks the backend.
func (d *Door) begin(ctx context.Context, o order) (*leg, error) {
	t, b, a, p, row := o.token, o.backend, o.asked, o.place, o.row
	row.Ref = string(mustJSON(ref{Backend: b.Name, Root: row.ID}))
	calls := answeredHere(b, a, o.found)
	turns := []Turn{row}
	r := &run{backend: b, root: row.ID, delivered: make(chan struct{}, 1), died: make(chan *upstream.Error, 1), undo: Change{Calls: asFound(calls, o.found)}}
	if old := o.goesOn; old != nil {
		turns = append(turns, withNext(*old, row.ID))
		was := *old
		was.Version++
		r.undo.Turns = []Turn{was}
	}
	if err := d.o.Records.Save(ctx, Change{Session: &p.session, Turns: turns, Calls: calls}); err != nil {
		return nil, err
	}
	row.Version = 1
	d.mu.Lock()
	delete(d.refused, [2]string{row.Token, row.Body})
	d.mu.Unlock()
	l := newLeg(row)
	l.readers = 1
	if b.Stateless {
		l.offered = a.offered
	}
	d.keep(l)
	q := upstream.Request{Turn: row.ID, Session: p.session.ID, Token: t.Name, Model: strings.TrimPrefix(row.Model, b.Prefix), Body: a.body, Messages: a.messages, New: p.fresh, Fork: p.fork, Follows: p.follows,
		Tools: a.tools, Choice: a.choice, SpeaksForOperator: t.SpeaksFor == SpeaksForOperator, State: state{d.o.Records, p.session.ID},
		Lost: r.end}
	r.leg = l
	if b.Stateless {
		r.body = a.body
	}
	if !d.aside(func() { d.start(r, l, q) }) {
		d.failStart(r, l, errStopping)
	}
	return l, nil
}

// answeredHere are the calls of a backend that keeps nothing whose results stand in the messages: /v1/tool_results takes none for them any more.
func answeredHere(b Backend, a *asked, f Found) (rows []CallRow) {
	if !b.Stateless {
		return nil
	}
	for _, c := range f.Calls {
		at := slices.IndexFunc(a.messages, func(m upstream.Message) bool { return m.Role == "tool" && m.CallID == c.ID })
		if at >= 0 && c.State == CallWaiting {
			m := a.messages[at]
			c.State, c.Result = CallAnswered, mustJSON(upstream.Result{CallID: c.Upstream, Text: m.Text, Images: m.Images})
			rows = append(rows, c)
		}
	}
	return rows
}

// asFound are calls as they were before a change.
func asFound(changed []CallRow, f Found) (rows []CallRow) {
	for _, c := range f.Calls {
		if slices.ContainsFunc(changed, func(n CallRow) bool { return n.ID == c.ID }) {
			rows = append(rows, c)
		}
	}
	return rows
}

// withNext is a turn behind which another one follows.
func withNext(t Turn, next string) Turn {
	by := refOf(t)
	by.Next = next
	t.Ref = string(mustJSON(by))
	return t
}

// names are those of tools.
func names(tools []upstream.Tool) map[string]bool {
	out := map[string]bool{}
	for _, t := range tools {
		out[t.Name] = true
	}
	return out
}

// start asks the backend and reads the answer, also when the caller has left.
func (d *Door) start(r *run, l *leg, q upstream.Request) {
	turn, err := r.backend.Upstream.Start(d.base, q)
	if err != nil {
		if d.base.Err() == nil {
			d.failStart(r, l, err)
		}
		return
	}
	d.running(r, l, turn)
}

// running notes that the backend took a turn, and reads it to its end.
func (d *Door) running(r *run, l *leg, turn upstream.Turn) {
	r.turn = turn
	l.change(func() { l.begun = true })
	for _, c := range r.undo.Calls { // their requests are not needed any more
		if err := d.o.Records.SetState(d.base, l.session, BodyKey(c.Turn), nil); err != nil {
			d.o.Log.Warn().Err(err).Str("turn", c.Turn).Msg("the bridge could not delete the request of a turn, which is no longer needed")
		}
	}
	if by := turn.Ref(); by != "" {
		raw := string(mustJSON(ref{Backend: r.backend.Name, Root: r.root, Ref: by}))
		if err := d.save(d.base, l, nil, func(t *Turn) { t.Ref, t.State = raw, TurnRunning }); err != nil {
			d.o.Log.Warn().Err(err).Str("turn", l.id).Msg("the bridge could not record the reference by which it resumes a turn")
		}
	}
	d.pump(r)
}

// failStart ends a turn that the backend did not take. What is known not to have begun leaves its key and the results free: the same request
// may try again.
func (d *Door) failStart(r *run, l *leg, cause error) {
	e := d.told(l, cause)
	row, _ := l.reading()
	d.refuse(row.Token, row.Body, e)
	if e.NothingHappened && len(r.undo.Calls) > 0 {
		ctx, done := d.lasting()
		defer done()
		if err := d.takeBack(ctx, r.undo, l.id); err != nil {
			d.o.Log.Warn().Err(err).Str("turn", l.id).Msg("tool results are recorded as taken, but the backend refused them; send the whole conversation again")
		}
	}
	d.close(l, e, nil, func(t *Turn) {
		t.State = TurnFailed
		if e.NothingHappened {
			t.Key, t.Body = "", ""
		}
	})
}

// takeBack frees the results of a turn that the backend refused. The turn before it, which undo has, may have changed since: that its caller has the
// answer is recorded when the answer was sent.
func (d *Door) takeBack(ctx context.Context, undo Change, refused string) error {
	for range 10 {
		err := d.o.Records.Save(ctx, undo)
		if !isConflict(err) || len(undo.Turns) == 0 {
			return err
		}
		was := undo.Turns[0]
		f, err := d.o.Records.Look(ctx, Query{Token: was.Token, Turn: was.ID})
		if err != nil {
			return err
		}
		if len(f.Turns) == 0 || refOf(f.Turns[0]).Next != refused {
			return ErrConflict // it goes on with another turn
		}
		undo.Turns[0] = withNext(f.Turns[0], refOf(was).Next)
	}
	return ErrConflict
}

// state is what a backend keeps with a session.
type state struct {
	records Records
	session string
}

func (s state) Get(ctx context.Context, key string) ([]byte, error) {
	return s.records.State(ctx, s.session, key)
}

func (s state) Put(ctx context.Context, key string, value []byte) error {
	return s.records.SetState(ctx, s.session, key, value)
}

// takeOver takes up the turns that nobody holds at a time.
func (d *Door) takeOver(ctx context.Context, at time.Time) {
	left, err := d.o.Records.Left(ctx, at, 1000)
	if err != nil {
		if ctx.Err() == nil {
			d.o.Log.Warn().Err(err).Msg("the bridge could not look for the turns of ended processes")
		}
		return
	}
	mine := d.mine()
	for _, row := range left {
		// A turn of this process whose end was not recorded is in its memory no more, and its hold lapses.
		lapsed := row.Held.Before(d.now()) && !slices.Contains(mine, row.ID)
		if row.Holder != d.holder || lapsed {
			d.adopt(ctx, row)
		}
	}
}

// adopt takes up a turn that an earlier process left. Its connection broke with that process. One that waits for results stays so until they come.
func (d *Door) adopt(ctx context.Context, row Turn) {
	if row.State == TurnParked && row.StartedAt.Add(d.o.ParkTimeout).After(d.now()) {
		return
	}
	row.Holder, row.Held = d.holder, d.now().Add(holdFor)
	if row.BrokenAt.IsZero() {
		row.BrokenAt = d.now()
	}
	if d.o.Records.Save(ctx, Change{Turns: []Turn{row}}) != nil {
		return // somebody else was first
	}
	row.Version++
	l := newLeg(row)
	if row.State == TurnParked {
		d.drop(l, &upstream.Error{Type: typeUpstream, Code: "park_timeout", Message: "no results came in time, and the bridge was restarted meanwhile; ask again"})
		return
	}
	r, q, err := d.resumable(row)
	if err != nil {
		d.close(l, d.told(l, err), nil, func(t *Turn) { t.State = TurnLost })
		return
	}
	r.leg = l
	d.keep(l)
	d.aside(func() {
		turn, err := r.backend.Upstream.Resume(d.base, q, refOf(row).Ref)
		if err != nil {
			if d.base.Err() == nil {
				d.close(l, d.told(l, err), nil, func(t *Turn) { t.State = TurnLost })
			}
			return
		}
		d.running(r, l, turn)
	})
}

func refOf(row Turn) (by ref) {
	_ = json.Unmarshal([]byte(row.Ref), &by) // an unreadable one names no backend
	return by
}

// resumable finds the backend of a turn of the record.
func (d *Door) resumable(row Turn) (*run, upstream.Request, error) {
	by := refOf(row)
	at := slices.IndexFunc(d.o.Backends, func(b Backend) bool { return b.Name == by.Backend })
	if at < 0 {
		return nil, upstream.Request{}, &upstream.Error{Type: typeServer, Code: "backend_gone", Message: "bridge.yaml no longer has the backend of this turn; begin a new conversation with another model"}
	}
	b := d.o.Backends[at]
	q := upstream.Request{Turn: by.Root, Session: row.Session, Token: row.Token, Model: strings.TrimPrefix(row.Model, b.Prefix), State: state{d.o.Records, row.Session}}
	return &run{backend: b, root: by.Root, delivered: make(chan struct{}, 1)}, q, nil
}
