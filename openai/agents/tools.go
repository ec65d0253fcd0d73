package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/openai/upstream"
)

// ToolsOptions configure Tools. Steps and Watch are required.
type ToolsOptions struct {
	// Steps and Watch are the engine's.
	Steps bridge.Steps
	Watch func() (<-chan struct{}, func())
	// Fixed reports whether an agent reads its list of tools once and keeps it over turns. Nil is none.
	Fixed func(bridge.Agent) bool
	// Hold is how long a call waits for its result; default 15 minutes.
	Hold time.Duration
}

// Tools are the tools of callers who wait for an answer of an agent, as the MCP door shows them to that agent. Safe for concurrent use.
type Tools struct {
	o ToolsOptions

	mu   sync.Mutex // guards what follows
	open map[bridge.TurnID]*exchange
	// ended are turns for which nobody waits any more.
	ended    map[bridge.TurnID]bool
	changed  chan struct{} // closed when an exchange opens or ends, and replaced
	onChange []func()
}

// NewTools returns the tools of nobody.
func NewTools(o ToolsOptions) *Tools {
	if o.Fixed == nil {
		o.Fixed = func(bridge.Agent) bool { return false }
	}
	if o.Hold <= 0 {
		o.Hold = 15 * time.Minute
	}
	return &Tools{o: o, open: map[bridge.TurnID]*exchange{}, ended: map[bridge.TurnID]bool{}, changed: make(chan struct{})}
}

// Fixed reports whether an agent reads its list of tools once and keeps it over turns.
func (s *Tools) Fixed(a bridge.Agent) bool { return s.o.Fixed(a) }

// OnChange has fn called after the tools of any agent changed. fn must not block. Call it before the first turn begins.
func (s *Tools) OnChange(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = append(s.onChange, fn)
}

// start begins an exchange for a turn, or returns the one that is there.
func (s *Tools) start(ex *exchange) *exchange {
	s.mu.Lock()
	if there := s.open[ex.turn]; there != nil {
		s.mu.Unlock()
		return there
	}
	s.open[ex.turn] = ex
	s.tell(ex)
	return ex
}

// tell wakes those who wait for an exchange, and tells of its tools. It unlocks.
func (s *Tools) tell(ex *exchange) {
	close(s.changed)
	s.changed = make(chan struct{})
	hear := slices.Clone(s.onChange)
	s.mu.Unlock()
	if len(ex.offered) == 0 {
		return
	}
	for _, fn := range hear {
		fn()
	}
}

// maxEnded bounds how many turns are remembered for which nobody waits any more.
const maxEnded = 10_000

// end takes an exchange away.
func (s *Tools) end(ex *exchange) {
	s.mu.Lock()
	if s.open[ex.turn] != ex {
		s.mu.Unlock()
		return
	}
	delete(s.open, ex.turn)
	if len(s.ended) >= maxEnded {
		clear(s.ended)
	}
	s.ended[ex.turn] = true
	s.tell(ex)
}

// active returns the exchange of the turn that an agent is in. expected is set when that turn came through this door and its exchange
// is not there yet: the bridge was restarted.
func (s *Tools) active(ctx context.Context, agent bridge.AgentID) (ex *exchange, expected bool, changed <-chan struct{}, err error) {
	s.mu.Lock()
	changed = s.changed
	s.mu.Unlock()
	var turns []bridge.TurnID
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		turns = nil
		head, err := tx.CurrentTurn(agent)
		if errors.Is(err, bridge.ErrNoRow) || err == nil && head.State.Over() {
			return nil
		}
		if err != nil {
			return err
		}
		t, err := tx.Turn(head.ID)
		turns = append(turns, t.ID)
		for _, said := range t.Said {
			turns = append(turns, said.Turn)
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range turns {
		if open := s.open[id]; open != nil {
			ex = open
		}
		expected = expected || strings.HasPrefix(string(id), turnMark) && !s.ended[id]
	}
	return ex, expected && ex == nil, changed, err
}

// none reports whether no turn of any agent has an exchange, which spares a look.
func (s *Tools) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) == 0
}

// Offered lists what the caller of an agent's turn offers, under the names by which the agent calls it. It has nothing outside of such a turn.
func (s *Tools) Offered(ctx context.Context, agent bridge.AgentID) ([]upstream.Tool, error) {
	if s.none() {
		return nil, nil
	}
	ex, _, _, err := s.active(ctx, agent)
	if err != nil || ex == nil {
		return nil, err
	}
	return ex.shown, nil
}

// Call asks the caller to run a tool and waits for the result, at most for the time of [ToolsOptions.Hold]. When ctx ends, the call stays
// open: the same call again in the same turn meets it. With an ID, the same call is the one of the same ID; without one, it is one of the same arguments
// for which nobody waits. NotFound for an unknown tool, Conflict when no caller waits, Unavailable when no result came in time.
func (s *Tools) Call(ctx context.Context, agent bridge.AgentID, k bridge.ToolCall) (upstream.Result, error) {
	late := time.NewTimer(s.o.Hold)
	defer late.Stop()
	for {
		ex, expected, opened, err := s.active(ctx, agent)
		switch {
		case err != nil:
			return upstream.Result{}, err
		case ex != nil:
			return ex.call(ctx, agent, k, late.C)
		case !expected:
			return upstream.Result{}, errNoCaller
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return upstream.Result{}, ctx.Err()
		case <-late.C:
			return upstream.Result{}, s.tooLate()
		}
	}
}

var errNoCaller = bridge.Errorf(bridge.Conflict, "no caller waits for your answer now, so the caller's tools cannot run: their turn is over, or the caller has left. Go on without them")

func (s *Tools) tooLate() error {
	return bridge.Errorf(bridge.Unavailable, "the caller sent no result within %s; go on without it", s.o.Hold)
}

// CallerPrefix begins the names of callers' tools.
const CallerPrefix = "caller_"

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// shownAs are tools under the names by which an agent calls them. Two tools never have one name.
func shownAs(tools []upstream.Tool) []upstream.Tool {
	taken := map[string]bool{}
	out := make([]upstream.Tool, len(tools))
	for i, t := range tools {
		base := CallerPrefix + notInName.ReplaceAllString(t.Name, "_")
		name := base
		for n := 2; taken[name]; n++ {
			name = base + "_" + strconv.Itoa(n)
		}
		taken[name] = true
		out[i] = upstream.Tool{Name: name, Description: t.Description, Parameters: objectSchema(t.Parameters)}
	}
	return out
}

// objectSchema is the caller's schema, or one that takes any object where the caller's is not one of an object.
func objectSchema(raw json.RawMessage) json.RawMessage {
	var schema map[string]json.RawMessage
	if json.Unmarshal(raw, &schema) != nil || schema == nil {
		schema = map[string]json.RawMessage{}
	}
	if kind, there := schema["type"]; there && string(kind) != `"object"` {
		return json.RawMessage(`{"type":"object"}`)
	}
	schema["type"] = json.RawMessage(`"object"`)
	out, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("encode a schema that was read: %v", err))
	}
	return out
}
