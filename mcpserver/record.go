package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// turnOf returns the turn that an agent's tool calls belong to: the one that it
// is in, or else its last one, or else its first while that is queued, as at the
// gate. The zero turn for an agent that has none.
func turnOf(tx *bridge.Scene, agent bridge.AgentID) (bridge.TurnHead, error) {
	t, err := tx.CurrentTurn(agent)
	if errors.Is(err, bridge.ErrNoRow) {
		var first bridge.Turn
		first, err = tx.OpenTurn(agent)
		t = bridge.TurnHead{ID: first.ID, State: first.State, Depth: first.Depth}
	}
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.TurnHead{}, nil
	}
	return t, err
}

// begun is a tool call whose record has begun.
type begun struct {
	turn bridge.TurnID
	id   string
	tool string
}

// recorder writes the records of many calls in one transaction: whoever comes
// first writes what has gathered while the transaction before was under way. What
// is lost in a power failure harms nothing, because the effects of calls have a
// ledger of their own.
type recorder struct {
	steps bridge.Steps
	// writing is held by the one who writes.
	writing sync.Mutex

	mu      sync.Mutex // guards waiting
	waiting []*entry
}

// entry is one write into a record, and what came of it.
type entry struct {
	fn   func(bridge.Change) error
	err  error
	done bool
}

// do returns when fn has run in a transaction that is committed.
func (r *recorder) do(ctx context.Context, fn func(bridge.Change) error) error {
	e := &entry{fn: fn}
	r.mu.Lock()
	r.waiting = append(r.waiting, e)
	r.mu.Unlock()
	r.writing.Lock()
	defer r.writing.Unlock()
	if e.done { // another wrote it with its own
		return e.err
	}
	r.mu.Lock()
	batch := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	err := r.steps.Change(bridge.Unheard(bridge.Forgettable(ctx)), func(tx bridge.Change) error {
		for _, e := range batch {
			if err := e.fn(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, e := range batch {
		e.err, e.done = err, true
	}
	return err
}

// asked is a tool call as it came.
type asked struct {
	tool string
	args json.RawMessage
	at   time.Time
}

// call writes a call into the record of its turn before it has any effect, so
// that one which a crash cuts off is seen.
func (r *recorder) call(ctx context.Context, c *caller, a asked) (b begun, err error) {
	err = r.do(ctx, func(tx bridge.Change) error {
		b, err = a.record(tx, c)
		return err
	})
	return b, err
}

// returned writes what came back.
func (r *recorder) returned(ctx context.Context, b begun, result *mcp.CallToolResult) error {
	if b.turn == "" {
		return nil
	}
	return r.do(ctx, func(tx bridge.Change) error { return b.record(tx, result) })
}

// both writes a call that changes nothing, and what came back, at once. What a
// crash cuts off before that had no effect and was not answered: to the agent and
// to the bridge it is as if it had never come.
func (r *recorder) both(ctx context.Context, c *caller, a asked, result *mcp.CallToolResult) (b begun, err error) {
	err = r.do(ctx, func(tx bridge.Change) error {
		if b, err = a.record(tx, c); err != nil || b.turn == "" {
			return err
		}
		return b.record(tx, result)
	})
	return b, err
}

// record writes a call into the record of its turn, with the time at which it came.
func (a asked) record(tx bridge.Change, c *caller) (begun, error) {
	t, err := turnOf(tx.Scene, c.agent.ID)
	if err != nil || t.ID == "" {
		return begun{}, err
	}
	b := begun{turn: t.ID, id: tx.NewID("call_"), tool: a.tool}
	_, err = tx.AppendRunMessage(bridge.RunMessage{Turn: t.ID, Kind: bridge.ToolCallMessage, Name: a.tool, CallID: b.id,
		Payload: bridge.RunPayload(a.args), At: tx.Now().Add(-time.Since(a.at))})
	return b, err
}

// record writes what a call returned.
func (b begun) record(tx bridge.Change, result *mcp.CallToolResult) error {
	_, err := tx.AppendRunMessage(bridge.RunMessage{Turn: b.turn, Kind: bridge.ToolReturnMessage, Name: b.tool, CallID: b.id,
		Payload: payloadOf(result).Payload, At: tx.Now()})
	return err
}

// payloadOf is a result as the record has it.
func payloadOf(result *mcp.CallToolResult) bridge.ToolReturn {
	payload, _ := result.StructuredContent.(json.RawMessage)
	detail, failed := result.Meta[errorKey].(httpx.ErrorDetail)
	if failed {
		payload, _ = json.Marshal(httpx.ErrorBody{Error: detail}) // two strings always encode
	}
	return bridge.ToolReturn{Payload: bridge.RunPayload(payload), Failed: failed}
}
