package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// unanswered is the result of a call for which a request that answers others brings none.
const unanswered = "the caller sent no result for this call"

// addition stands before text of the user that came beside results.
const addition = "\n\nThe caller adds:\n"

// resultsOf reads the results that the newest messages bring for calls that wait. Text of the user beside them goes with the last one.
func resultsOf(messages []upstream.Message, open []CallRow) map[string]upstream.Result {
	out := map[string]upstream.Result{}
	for _, c := range open {
		out[c.ID] = upstream.Result{CallID: c.Upstream, Text: unanswered, Failed: true}
	}
	begin := len(messages)
	for begin > 0 && messages[begin-1].Role != "assistant" {
		begin--
	}
	var beside []string
	for _, m := range messages[begin:] {
		switch r, waits := out[m.CallID]; {
		case m.Role == "tool" && waits:
			r.Text, r.Images, r.Failed = m.Text, m.Images, false
			out[m.CallID] = r
		case m.Role == "user" && m.Text != "":
			beside = append(beside, m.Text)
		}
	}
	if len(beside) > 0 && len(open) > 0 {
		last := open[len(open)-1].ID
		r := out[last]
		r.Text += addition + strings.Join(beside, "\n")
		out[last] = r
	}
	return out
}

// waiting are the calls of a turn that wait for results.
func waiting(calls []CallRow, turn string) (open []CallRow) {
	for _, c := range calls {
		if c.Turn == turn && c.State == CallWaiting {
			open = append(open, c)
		}
	}
	return open
}

// deliver brings the results of a request to the turn that waits for them, and returns the leg that follows. It records them first.
func (d *Door) deliver(ctx context.Context, o order, results map[string]upstream.Result) (*leg, error) {
	row, f := o.row, o.found
	var calls []CallRow
	for _, c := range f.Calls {
		if r, ok := results[c.ID]; ok {
			c.State, c.Result = CallAnswered, mustJSON(r)
			calls = append(calls, c)
		}
	}
	old := f.Turns[slices.IndexFunc(f.Turns, func(t Turn) bool { return t.ID == calls[0].Turn })]
	r, resumed, err := d.parkedRun(old)
	if err != nil {
		return nil, err
	}
	row.Ref, row.State = withNext(old, "").Ref, TurnRunning
	old = withNext(old, row.ID)
	old.State, old.EndedAt = TurnEnded, d.now()
	if err := d.o.Records.Save(ctx, Change{Session: &o.place.session, Turns: []Turn{old, row}, Calls: calls}); err != nil {
		d.parkAgain(r, old.ID, resumed)
		return nil, err
	}
	row.Version = 1
	l := newLeg(row)
	l.begun, l.readers = true, 1
	r.mu.Lock()
	r.leg, r.until = l, time.Time{}
	r.mu.Unlock()
	d.keep(l)
	d.forget(d.held(old.ID))
	var list []upstream.Result
	for _, c := range calls {
		if c.Result != nil {
			list = append(list, delivered(c))
		}
	}
	if err := r.turn.Deliver(context.WithoutCancel(ctx), list); err != nil {
		close(r.delivered)
		d.cancel(r)
		d.fail(l, err)
		return l, nil
	}
	if resumed {
		if !d.aside(func() { d.running(r, l, r.turn) }) {
			d.cancel(r)
			d.fail(l, errStopping)
		}
		return l, nil
	}
	r.delivered <- struct{}{}
	return l, nil
}

// delivered is the result of a call as the backend gets it.
func delivered(c CallRow) (r upstream.Result) {
	_ = json.Unmarshal(c.Result, &r) // we wrote it
	return r
}

// parkedRun returns the run that waits behind a turn of the record. One that an earlier process left is resumed.
func (d *Door) parkedRun(old Turn) (r *run, resumed bool, err error) {
	if r := d.unpark(old.ID); r != nil {
		return r, false, nil
	}
	if old.Holder != d.holder && !d.o.Alone && old.Held.After(d.now()) {
		return nil, false, &upstream.Error{Status: http.StatusServiceUnavailable, Type: typeServer, Code: "held_elsewhere", RetryAfter: time.Second, NothingHappened: true,
			Message: "another replica of the bridge holds this turn; send the results to that replica, or send them again later"}
	}
	if old.Holder == d.holder {
		return nil, false, ErrConflict // somebody else delivers
	}
	r, q, err := d.resumable(old)
	if err != nil {
		return nil, false, err
	}
	if r.turn, err = r.backend.Upstream.Resume(d.base, q, refOf(old).Ref); err != nil {
		e := shown(err)
		if r.backend.Anew { // the next look finds no turn that waits, so that the whole conversation begins a new one
			d.drop(newLeg(old), e)
			return nil, false, ErrConflict
		}
		return nil, false, unprocessable("", "turn_gone", "the turn that waited for these results cannot go on: "+e.Message)
	}
	return r, true, nil
}

// parkAgain puts a run back whose results were not recorded.
func (d *Door) parkAgain(r *run, id string, resumed bool) {
	if resumed {
		d.cancel(r)
		return
	}
	d.mu.Lock()
	d.parked[id] = r
	d.mu.Unlock()
	r.mu.Lock()
	gone := r.gone
	r.mu.Unlock()
	if gone != nil && d.unpark(id) != nil {
		d.drop(r.current(), gone)
		close(r.delivered)
		return
	}
	d.await(r, r.current())
}

// toolResult is the seed's request of /v1/tool_results.
type toolResult struct {
	ToolCallID string          `json:"tool_call_id"`
	Content    json.RawMessage `json:"content"`
	Error      string          `json:"error"`
	IsError    bool            `json:"is_error"`
	// Stream asks for the rest of the answer, as events or not. Without it the rest is the answer to the next chat request.
	Stream        *bool         `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
}

// taken says what became of a result whose sender does not ask for the rest.
type taken struct {
	ToolCallID string `json:"tool_call_id"`
	// Status is waiting while other calls lack their results, and delivered.
	Status string `json:"status"`
	// Missing are the calls that wait.
	Missing []string `json:"missing,omitempty"`
}

// toolResults takes the result of one call. The turn goes on when all calls that it made together have theirs.
func (d *Door) toolResults(w http.ResponseWriter, r *http.Request, t Token) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	var in toolResult
	if err := json.Unmarshal(body, &in); err != nil {
		return unreadable(err)
	}
	if in.ToolCallID == "" {
		return invalid("tool_call_id", "missing_required_parameter", "tool_call_id is missing; send the id that the tool call came with")
	}
	text, images, err := readContent("", in.Content)
	if err != nil {
		return err
	}
	if in.Error != "" {
		text, in.IsError = strings.TrimSpace(text+"\n"+in.Error), true
	}
	for range 10 {
		l, left, err := d.resultOnce(r.Context(), t, in, upstream.Result{Text: text, Images: images, Failed: in.IsError})
		switch {
		case isConflict(err):
			continue
		case err != nil:
			return err
		case l == nil:
			httpx.WriteJSON(w, http.StatusOK, taken{ToolCallID: in.ToolCallID, Status: "waiting", Missing: left})
			return nil
		case in.Stream == nil:
			l.leave()
			httpx.WriteJSON(w, http.StatusOK, taken{ToolCallID: in.ToolCallID, Status: "delivered"})
			return nil
		}
		d.answer(w, r, reader{leg: l, release: func() {}, stream: *in.Stream, voice: &chatVoice{leg: l, usage: in.StreamOptions.Is.IncludeUsage}})
		return nil
	}
	return &upstream.Error{Status: http.StatusServiceUnavailable, Type: typeServer, NothingHappened: true, Message: "too many results came for the same turn at once; send this one again"}
}

// resultOnce records a result, and goes on with the turn when it was the last one that lacked. left are the calls that still wait.
func (d *Door) resultOnce(ctx context.Context, t Token, in toolResult, result upstream.Result) (l *leg, left []string, err error) {
	f, err := d.o.Records.Look(ctx, Query{Token: t.Name, Calls: []string{in.ToolCallID}})
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(f.Calls, func(c CallRow) bool { return c.ID == in.ToolCallID })
	if at < 0 {
		return nil, nil, unprocessable("tool_call_id", "unknown_tool_call", "this token has no tool call with the id "+quoted(in.ToolCallID)+"; send the id from tool_calls")
	}
	call, turn := f.Calls[at], f.Turns[0]
	result.CallID = call.Upstream
	gone := turn.State == TurnLost || turn.State == TurnFailed // its waiting calls may lack a record of that
	switch {
	case call.State == CallAnswered, call.State == CallWaiting && call.Result != nil && !gone:
		return nil, nil, unprocessable("tool_call_id", "already_answered", "this call already has its result, and the first result counts")
	case gone, call.State == CallDropped, turn.State == TurnEnded && d.now().Sub(turn.EndedAt) > d.o.ParkTimeout:
		return nil, nil, unprocessable("tool_call_id", "too_late", "the turn of this call is over and takes no results; send a new request")
	}
	results := map[string]upstream.Result{call.ID: result}
	for _, c := range f.Calls {
		if c.ID != call.ID && c.State == CallWaiting && c.Result == nil {
			left = append(left, c.ID)
		}
		if c.State == CallWaiting && c.Result != nil {
			results[c.ID] = delivered(c)
		}
	}
	if len(left) > 0 { // the result waits in the record; a new version of the turn keeps two results from passing each other
		call.Result = mustJSON(result)
		return nil, left, d.o.Records.Save(ctx, Change{Turns: []Turn{turn}, Calls: []CallRow{call}})
	}
	now := d.now()
	s := Session{ID: turn.Session, Token: t.Name, Model: turn.Model, CreatedAt: now, Used: now}
	if len(f.Sessions) > 0 {
		s = f.Sessions[0]
		s.Used = now
	}
	row := Turn{ID: newTurnID(), Session: turn.Session, Token: t.Name, Model: turn.Model, State: TurnStarting, Holder: d.holder, Held: now.Add(holdFor), StartedAt: now, Before: turn.After}
	for _, c := range f.Calls {
		if res, ok := results[c.ID]; ok {
			row.Before = extend(t.Name, row.Before, upstream.Message{Role: "tool", Text: res.Text, Images: res.Images})
		}
	}
	backend, _, err := d.models.find(ctx, turn.Model)
	if err != nil {
		return nil, nil, err
	}
	o := order{token: t, backend: backend, place: place{session: s}, row: row, found: f}
	if backend.Stateless {
		l, err = d.askAgain(ctx, o, turn, results)
		return l, nil, err
	}
	l, err = d.deliver(ctx, o, results)
	return l, nil, err
}

// askAgain goes on with a conversation at a backend that keeps nothing: the request of before, with the answer and the results behind it.
func (d *Door) askAgain(ctx context.Context, o order, old Turn, results map[string]upstream.Result) (*leg, error) {
	raw, err := d.o.Records.State(ctx, old.Session, BodyKey(old.ID))
	if err != nil {
		return nil, err
	}
	var before map[string]json.RawMessage
	var messages []json.RawMessage
	if raw == nil || json.Unmarshal(raw, &before) != nil || json.Unmarshal(before["messages"], &messages) != nil {
		return nil, unprocessable("tool_call_id", "turn_gone", "the bridge no longer has the request of this call; send the whole conversation to /v1/chat/completions")
	}
	var said answer
	if err := json.Unmarshal(old.Answer, &said); err != nil {
		return nil, err
	}
	messages = append(messages, mustJSON(messageOf(said)))
	for _, c := range o.found.Calls {
		if res, ok := results[c.ID]; ok {
			messages = append(messages, mustJSON(map[string]any{"role": "tool", "tool_call_id": c.ID, "content": contentOf(res)}))
		}
	}
	before["messages"] = mustJSON(messages)
	if o.asked, err = readChat(mustJSON(before)); err != nil {
		return nil, err
	}
	o.place.fresh = len(messages)
	o.goesOn = &old
	return d.begin(ctx, o)
}

// contentOf is a result as the content of a message.
func contentOf(r upstream.Result) any {
	if len(r.Images) == 0 {
		return r.Text
	}
	parts := []any{map[string]string{"type": "text", "text": r.Text}}
	for _, i := range r.Images {
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": i.Address()}})
	}
	return parts
}

// followed is the leg behind calls that have their results already: when nobody has read it yet, or when the request brings the same
// results again to a backend that waited for them and says nothing new. It is an error when the turn of the calls still runs for
// somebody else, or when the request brings other results.
func (d *Door) followed(ctx context.Context, o order) (*leg, error) {
	messages, f, t := o.asked.messages, o.found, o.token
	ids := callIDs(messages)
	if len(messages) == 0 || messages[len(messages)-1].Role == "assistant" {
		return nil, nil
	}
	again, same, other := sameResults(messages, f.Calls)
	again = again && !o.backend.Stateless
	for _, c := range f.Calls {
		at := slices.IndexFunc(f.Turns, func(o Turn) bool { return o.ID == c.Turn })
		if c.State != CallAnswered || !slices.Contains(ids, c.ID) || at < 0 || refOf(f.Turns[at]).Next == "" {
			continue
		}
		g, err := d.o.Records.Look(ctx, Query{Token: t.Name, Turn: refOf(f.Turns[at]).Next})
		if err != nil || len(g.Turns) == 0 {
			return nil, err
		}
		switch next := g.Turns[0]; {
		case o.backend.Anew && (next.State == TurnFailed || next.State == TurnLost):
			return nil, nil
		case again && same, next.Body == "" && next.HadAt.IsZero() && next.Before == lastSum(t.Name, messages):
			return d.meet(ctx, next, claim{key: next.ID})
		case !next.State.Over() && next.State != TurnParked:
			return nil, unprocessable("messages", "turn_runs", "call "+c.ID+" already has its result, and its turn is running; repeat the same request for the answer, or wait until the turn is over")
		case again && other != "":
			return nil, unprocessable("messages", "already_answered", "call "+other+" already has another result, and the first one counts; send new text as a message of the user")
		}
		return nil, nil
	}
	return nil, nil
}

// sameResults compares the results that end the messages with the recorded ones. again is true when nothing but results stands there, and same when
// each call has the one that is recorded; other is a call with another one, not counting calls to which the caller sent none before.
func sameResults(messages []upstream.Message, calls []CallRow) (again, same bool, other string) {
	same = true
	for i := len(messages) - 1; i >= 0 && messages[i].Role != "assistant"; i-- {
		m := messages[i]
		if m.Role == "user" {
			return false, false, ""
		}
		at := slices.IndexFunc(calls, func(c CallRow) bool { return m.Role == "tool" && c.ID == m.CallID && c.State == CallAnswered })
		if at < 0 {
			continue
		}
		again = true
		was := delivered(calls[at])
		if was.Text == m.Text || strings.HasPrefix(was.Text, m.Text+addition) {
			continue
		}
		same = false
		if was.Text != unanswered {
			other = m.CallID
		}
	}
	return again, same, other
}

func lastSum(token string, messages []upstream.Message) string {
	sums := histories(token, messages)
	return sums[len(sums)-1]
}

// messageOf is an answer as the API's message.
func messageOf(a answer) map[string]any {
	m := map[string]any{"role": "assistant", "content": a.Text}
	if a.Text == "" && len(a.Calls) > 0 {
		m["content"] = nil
	}
	if a.Reasoning != "" {
		m["reasoning_content"] = a.Reasoning
	}
	var calls []any
	for _, c := range a.Calls {
		call := map[string]any{}
		for key, raw := range c.Extra {
			call[key] = raw
		}
		call["id"], call["type"], call["function"] = c.ID, "function", map[string]string{"name": c.Name, "arguments": c.Arguments}
		calls = append(calls, call)
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}
