package agents

import (
	"context"
	"crypto/rand"
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

// exchange passes calls of an agent in one turn to the caller, and the results back. All methods but those of Tools take a nil exchange,
// which offers nothing.
type exchange struct {
	of      *Tools
	turn    bridge.TurnID
	state   upstream.State
	offered []upstream.Tool
	shown   []upstream.Tool

	saving sync.Mutex // one save at a time

	mu      sync.Mutex // guards what follows
	all     []*call
	leg     int       // how many calls the caller was shown since the last park
	newest  time.Time // when the last of them was shown
	parked  bool
	over    bool
	changed chan struct{} // closed at each change, and replaced
}

// call is one call of a caller's tool.
type call struct {
	keptCall
	// index is its place among those shown together.
	index int
	// shown is set when the caller has seen it, held while the agent waits, dropped when the agent does not wait any more.
	shown, held, dropped bool
	// coming is the result while it is being recorded.
	coming *upstream.Result
}

// keptCall is what outlives a restart. A call whose result the agent has got is not kept.
type keptCall struct {
	ID        string           `json:"id"`
	Name      string           `json:"name"`
	Arguments json.RawMessage  `json:"arguments"`
	Key       string           `json:"key,omitempty"`
	Result    *upstream.Result `json:"result,omitempty"`
	// Taken is set when the agent has got the result.
	Taken bool `json:"-"`
}

type kept struct {
	Tools []upstream.Tool `json:"tools"`
	Calls []keptCall      `json:"calls,omitempty"`
}

// maxWaiting bounds how many calls of a turn wait for results at a time.
const maxWaiting = 100

// gather is how long after a call others may join it.
const gather = 250 * time.Millisecond

func keptKey(turn bridge.TurnID) string { return upstream.TurnKeys + "of an agent " + string(turn) }

// exchange makes the exchange of a turn.
func (s *Tools) exchange(turn bridge.TurnID, state upstream.State, tools []upstream.Tool) *exchange {
	return &exchange{of: s, turn: turn, state: state, offered: tools, shown: shownAs(tools), changed: make(chan struct{})}
}

// begin records what a request offers, and lets the agent see it.
func (s *Tools) begin(ctx context.Context, turn bridge.TurnID, r upstream.Request) (*exchange, error) {
	var tools []upstream.Tool
	if r.Choice != "none" {
		tools = r.Tools
	}
	ex := s.exchange(turn, r.State, tools)
	if err := ex.save(ctx); err != nil {
		return nil, fmt.Errorf("record the caller's tools: %w", err)
	}
	return s.start(ex), nil
}

// reopen takes up the exchange of a turn as it is recorded, or the one that is there.
func (s *Tools) reopen(ctx context.Context, turn bridge.TurnID, state upstream.State) (*exchange, error) {
	var was kept
	if state != nil {
		raw, err := state.Get(ctx, keptKey(turn))
		if err != nil {
			return nil, fmt.Errorf("load the caller's tools: %w", err)
		}
		if raw != nil && json.Unmarshal(raw, &was) != nil {
			return nil, fmt.Errorf("the tools of turn %q cannot be read", turn)
		}
	}
	ex := s.exchange(turn, state, was.Tools)
	for _, k := range was.Calls {
		ex.all = append(ex.all, &call{keptCall: k})
	}
	return s.start(ex), nil
}

// save records the calls that are not done.
func (ex *exchange) save(ctx context.Context) error {
	if ex.state == nil || len(ex.offered) == 0 {
		return nil
	}
	ex.saving.Lock()
	defer ex.saving.Unlock()
	now := kept{Tools: ex.offered}
	ex.mu.Lock()
	for _, c := range ex.all {
		if c.Taken || c.dropped {
			continue
		}
		k := c.keptCall
		if c.coming != nil {
			k.Result = c.coming
		}
		now.Calls = append(now.Calls, k)
	}
	raw, err := json.Marshal(now)
	ex.mu.Unlock()
	if err != nil {
		return fmt.Errorf("encode calls: %w", err)
	}
	return ex.state.Put(context.WithoutCancel(ctx), keptKey(ex.turn), raw)
}

// tell wakes those who wait. The caller holds ex.mu.
func (ex *exchange) tell() {
	close(ex.changed)
	ex.changed = make(chan struct{})
}

// names are those by which the agent calls the tools.
func (ex *exchange) names() (names []string) {
	if ex == nil {
		return nil
	}
	for _, t := range ex.shown {
		names = append(names, t.Name)
	}
	return names
}

// changes returns a channel that is closed at the next change.
func (ex *exchange) changes() <-chan struct{} {
	if ex == nil {
		return nil
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.changed
}

// close ends the exchange: calls that wait fail.
func (ex *exchange) close() {
	if ex == nil {
		return
	}
	ex.mu.Lock()
	if !ex.over {
		ex.over = true
		ex.tell()
	}
	ex.mu.Unlock()
	ex.of.end(ex)
}

// isParked reports whether the caller has calls for which it brought no results.
func (ex *exchange) isParked() bool {
	if ex == nil {
		return false
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.parked
}

// take returns calls that the caller has not seen. parks is set when those that it has seen are all that come together; wait is how long
// others may join them.
func (ex *exchange) take(now time.Time) (calls []call, parks bool, wait time.Duration) {
	if ex == nil {
		return nil, false, 0
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	for _, c := range ex.all {
		if c.shown || c.dropped || c.Result != nil {
			continue
		}
		c.shown, c.index = true, ex.leg
		ex.leg++
		ex.newest = now
		calls = append(calls, *c)
	}
	switch {
	case len(calls) > 0 || ex.leg == 0:
		return calls, false, 0
	case now.Sub(ex.newest) >= gather:
		return nil, true, 0
	}
	return nil, false, gather - now.Sub(ex.newest)
}

// park waits with everything until the calls that were shown have results.
func (ex *exchange) park(ctx context.Context) error {
	if err := ex.save(ctx); err != nil {
		return err
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.parked = true
	return nil
}

// unwaited is the error for a result that no call waits for.
func unwaited(id string) error {
	return &upstream.Error{Status: http.StatusUnprocessableEntity, Type: "invalid_request_error", Code: "unknown_tool_call", Param: "tool_call_id", NothingHappened: true,
		Message: fmt.Sprintf("the agent does not wait for a result of call %q; the call has its result already, or the agent never made it", id)}
}

// deliver takes results of calls, all or none. Those that came too late for the agent are taken, too.
func (ex *exchange) deliver(ctx context.Context, results []upstream.Result) error {
	if len(results) == 0 {
		return nil
	}
	if ex == nil {
		return unwaited(results[0].CallID)
	}
	got, err := ex.expect(results)
	if err != nil {
		return err
	}
	err = ex.save(ctx)
	ex.mu.Lock()
	defer ex.mu.Unlock()
	for _, c := range got {
		if err == nil {
			c.Result = c.coming
		}
		c.coming = nil
	}
	if err != nil {
		return fmt.Errorf("record the results: %w", err)
	}
	if !slices.ContainsFunc(ex.all, func(c *call) bool { return c.shown && !c.dropped && c.Result == nil }) {
		ex.parked, ex.leg = false, 0
	}
	ex.tell()
	return nil
}

// expect finds the calls of results, and holds the results for them.
func (ex *exchange) expect(results []upstream.Result) (got []*call, err error) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	for _, r := range results {
		at := slices.IndexFunc(ex.all, func(c *call) bool { return c.ID == r.CallID })
		if at < 0 || ex.all[at].Result != nil || ex.all[at].coming != nil || slices.Contains(got, ex.all[at]) {
			return nil, unwaited(r.CallID)
		}
		got = append(got, ex.all[at])
	}
	for i, c := range got {
		c.coming = &results[i]
	}
	return got, nil
}

// call passes one call to the caller and waits for its result.
func (ex *exchange) call(ctx context.Context, agent bridge.AgentID, k bridge.ToolCall, late <-chan time.Time) (upstream.Result, error) {
	c, err := ex.admit(k)
	if err != nil {
		return upstream.Result{}, err
	}
	defer ex.let(c)
	if err := ex.save(ctx); err != nil {
		return upstream.Result{}, fmt.Errorf("record the call: %w", err)
	}
	changes, stop := ex.of.o.Watch()
	defer stop()
	for {
		ex.mu.Lock()
		changed, over, result := ex.changed, ex.over, c.Result
		if result != nil && !over {
			c.Taken = true
		}
		ex.mu.Unlock()
		switch {
		case result != nil:
			return *result, nil
		case over:
			return upstream.Result{}, errNoCaller
		}
		select {
		case <-changed:
		case <-changes:
			if now, _, _, err := ex.of.active(ctx, agent); err == nil && now != ex {
				return upstream.Result{}, errNoCaller
			}
		case <-late:
			return upstream.Result{}, ex.drop(ctx, c)
		case <-ctx.Done():
			return upstream.Result{}, ctx.Err()
		}
	}
}

// let notes that the agent does not wait for a call now.
func (ex *exchange) let(c *call) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	c.held = false
}

// drop gives a call up for which no result came in time.
func (ex *exchange) drop(ctx context.Context, c *call) error {
	ex.mu.Lock()
	c.dropped = true
	ex.mu.Unlock()
	if err := ex.save(ctx); err != nil {
		return err
	}
	return ex.of.tooLate()
}

// admit returns the call that a request of the agent means: one of before, or a new one.
func (ex *exchange) admit(k bridge.ToolCall) (*call, error) {
	name, err := ex.tool(k.Name)
	if err != nil {
		return nil, err
	}
	args, err := object(k.Args)
	if err != nil {
		return nil, err
	}
	key := ""
	if k.ID != "" {
		key = string(k.Turn) + " " + k.ID
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	waiting := 0
	for _, c := range ex.all {
		switch {
		case key != "" && c.Key == key, key == "" && c.Key == "" && !c.held && !c.Taken && !c.dropped && c.Name == name && string(c.Arguments) == string(args):
			c.held = true
			return c, nil
		case c.Result == nil && !c.dropped:
			waiting++
		}
	}
	if ex.over {
		return nil, errNoCaller
	}
	if waiting >= maxWaiting {
		return nil, bridge.Errorf(bridge.RateLimited, "%d calls wait for the caller, and the limit is %d; wait for their results", waiting, maxWaiting)
	}
	c := &call{keptCall: keptCall{ID: "call_" + rand.Text(), Name: name, Arguments: args, Key: key}, held: true}
	ex.all = append(ex.all, c)
	ex.tell()
	return c, nil
}

// tool returns the caller's own name of a tool.
func (ex *exchange) tool(name string) (string, error) {
	for i, t := range ex.shown {
		if t.Name == name {
			return ex.offered[i].Name, nil
		}
	}
	for _, t := range ex.offered {
		if t.Name == name {
			return name, nil
		}
	}
	if len(ex.shown) == 0 {
		return "", bridge.Errorf(bridge.NotFound, "the caller of this turn offers no tools; go on without them")
	}
	return "", bridge.Errorf(bridge.NotFound, "the caller offers no tool %+.60q; it offers %s", name, strings.Join(ex.names(), ", "))
}

// object is arguments in one spelling.
func object(raw json.RawMessage) (json.RawMessage, error) {
	if text := strings.TrimSpace(string(raw)); text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, bridge.Errorf(bridge.Invalid, "the arguments must be a JSON object")
	}
	out, err := json.Marshal(args) // with its names in order, and compact
	if err != nil {
		return nil, bridge.Errorf(bridge.Invalid, "the arguments cannot be read")
	}
	return out, nil
}
