package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
)

// turnOf returns the turn that an agent's tool calls belong to: the one that it
// is in, or else its last one. The zero turn for an agent that never had one.
func turnOf(tx bridge.Tx, agent bridge.AgentID) (bridge.Turn, error) {
	turns, err := tx.Turns(bridge.TurnFilter{Agent: agent, Limit: 3})
	if err != nil {
		return bridge.Turn{}, err
	}
	for _, t := range turns { // newest first; a queued one has not begun
		if t.State != bridge.TurnQueued {
			return t, nil
		}
	}
	return bridge.Turn{}, nil
}

// begun is a tool call whose record has begun.
type begun struct {
	turn bridge.TurnID
	id   string
	tool string
}

// recordCall writes a call into the record of its turn before it has any effect,
// so that one which a crash cuts off is seen. A loss in a power failure harms
// nothing: the effects have a ledger of their own.
func (d *Door) recordCall(ctx context.Context, c *caller, name string, args json.RawMessage) (b begun, err error) {
	err = d.o.Engine.Change(bridge.Forgettable(ctx), func(tx bridge.Change) error {
		t, err := turnOf(tx, c.agent.ID)
		if err != nil || t.ID == "" {
			return err
		}
		b = begun{turn: t.ID, id: tx.NewID("call_"), tool: name}
		_, err = tx.AppendRunMessage(bridge.RunMessage{Turn: t.ID, Kind: bridge.ToolCallMessage, Name: name, CallID: b.id, Payload: bridge.RunPayload(args), At: tx.Now()})
		return err
	})
	return b, err
}

// recordReturn writes what came back.
func (d *Door) recordReturn(ctx context.Context, b begun, r *mcp.CallToolResult) error {
	if b.turn == "" {
		return nil
	}
	payload, _ := r.StructuredContent.(json.RawMessage)
	return d.o.Engine.Change(bridge.Forgettable(ctx), func(tx bridge.Change) error {
		_, err := tx.AppendRunMessage(bridge.RunMessage{Turn: b.turn, Kind: bridge.ToolReturnMessage, Name: b.tool, CallID: b.id, Payload: bridge.RunPayload(payload), At: tx.Now()})
		return err
	})
}
