package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/tracing"
)

// Offered returns what the door tells an agent that lives in this process: who it is, and its tools in the order of their
// names. The offer is that of the same agent at /mcp. NotFound for an unknown agent. Safe for concurrent use.
func (d *Door) Offered(ctx context.Context, agent bridge.AgentID) (about string, tools []bridge.ToolOffer, err error) {
	c, err := d.insider(ctx, agent)
	if err != nil {
		return "", nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.offer.tools)) {
		t := c.offer.tools[name]
		schema, err := t.unkeyed()
		if err != nil {
			return "", nil, fmt.Errorf("schema of tool %s: %w", name, err)
		}
		tools = append(tools, bridge.ToolOffer{Name: name, About: t.about, Schema: schema})
	}
	if d.o.Callers != nil {
		offered, err := d.offeredBy(ctx, c)
		if err != nil {
			return "", nil, err
		}
		for _, t := range offered {
			tools = append(tools, bridge.ToolOffer{Name: t.Name, About: t.Description, Schema: t.Parameters})
		}
	}
	return instructions(c.agent, d.o.Toolsets(c.root, c.agent)), tools, nil
}

// unkeyed is the schema of the arguments without the idempotency key, which the bridge itself gives for agents in this process.
func (t tool) unkeyed() (json.RawMessage, error) {
	s := *t.schema
	s.Properties = maps.Clone(s.Properties)
	delete(s.Properties, keyArgument)
	s.PropertyOrder = slices.DeleteFunc(slices.Clone(s.PropertyOrder), func(name string) bool { return name == keyArgument })
	return json.Marshal(&s)
}

// insider is an agent of this process as a caller. It needs no token: nothing comes from outside.
func (d *Door) insider(ctx context.Context, agent bridge.AgentID) (*caller, error) {
	c := &caller{}
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) (err error) {
		if c.agent, err = tx.Agent(agent); err == nil {
			c.root, err = tx.Agent(c.agent.Root)
		}
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return nil, bridge.Errorf(bridge.NotFound, "the agent %+.60q is gone", string(agent))
	}
	if err != nil {
		return nil, fmt.Errorf("load agent %q: %w", agent, err)
	}
	c.offer, err = d.pick(c, prefix)
	return c, err
}

// Call runs a tool for an agent that lives in this process: through the same checks, limits, gate and record as a call at /mcp.
// What the agent can act on is in the return; an error means that nobody can say yet what came of the call, and that the same
// call may be made again. A call that was begun before is made again only if twice is once; else the return says that it may
// have happened. Safe for concurrent use.
func (d *Door) Call(ctx context.Context, agent bridge.AgentID, k bridge.ToolCall) (bridge.ToolReturn, error) {
	c, err := d.insider(ctx, agent)
	if err != nil {
		return bridge.ToolReturn{}, err
	}
	t, known := c.offer.tools[k.Name]
	in := insideCall{ToolCall: k, begun: begun{turn: k.Turn, id: k.ID, tool: shownName(k.Name)}, at: time.Now()}
	if err := d.record.do(ctx, in.begin); err != nil {
		return bridge.ToolReturn{}, fmt.Errorf("record the call: %w", err)
	}
	switch {
	case in.refused != nil:
		return bridge.ToolReturn{}, in.refused
	case in.earlier != nil:
		return *in.earlier, nil
	}
	c.key = string(k.Turn) + " " + k.ID
	in.tool = t
	result, err := d.inside(ctx, c, in, known)
	if err != nil {
		return bridge.ToolReturn{}, err
	}
	if err := d.record.returned(ctx, in.begun, result); err != nil {
		return bridge.ToolReturn{}, fmt.Errorf("record what %s returned: %w", in.begun.tool, err)
	}
	return payloadOf(result), nil
}

// inside makes the result of a call. A call that was cut off is an error and not a result, so that the caller makes it again.
func (d *Door) inside(ctx context.Context, c *caller, in insideCall, known bool) (*mcp.CallToolResult, error) {
	if d.isCallers(in.Name) {
		return d.insideCaller(ctx, c, in.ToolCall)
	}
	t := in.tool
	switch {
	case !known:
		return failed(bridge.Errorf(bridge.NotFound, "the tool %s does not exist; call one of %s", words.Name(in.begun.tool), strings.Join(slices.Sorted(maps.Keys(c.offer.tools)), ", "))), nil
	case in.again && !t.repeatable():
		return failed(bridge.Errorf(bridge.Conflict, "the bridge stopped while this call ran, so the call may have happened; check that before you call again")), nil
	}
	if err := d.pace.take(c.agent.ID); err != nil {
		return failed(err), nil
	}
	ctx, end := d.o.Tracing.Tool(ctx, tracing.ToolCall{Turn: string(in.Turn), Agent: string(c.agent.ID), Tool: in.begun.tool, Step: in.Step, Begun: in.at})
	args := in.Args
	if len(strings.TrimSpace(string(args))) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	result, fault := t.answered(ctx, d, c, args)
	end(fault)
	d.o.OnCall(t.name, cmp.Or(fault, "ok"))
	if fault != "" && ctx.Err() != nil {
		return nil, fmt.Errorf("tool %s: %w", in.begun.tool, context.Cause(ctx))
	}
	return result, nil
}

// repeatable reports whether a call that may have happened can be made again: twice is once, and gives the first answer. That a tool is
// idempotent does not suffice: another agent may have undone the first call meanwhile.
func (t tool) repeatable() bool {
	return t.nature.readOnly || t.isKeyed() || t.kept
}

// shownName keeps what a model wrote for a tool's name short and on one line.
func shownName(name string) string { return words.SafeLine(strings.ToValidUTF8(name, "?"), 80) }

// insideCall is a call of an agent in this process, and what its record says.
type insideCall struct {
	bridge.ToolCall
	begun
	tool tool
	at   time.Time
	// again says that the call was begun before, earlier is what it returned then.
	again   bool
	earlier *bridge.ToolReturn
	refused error
}

// begin records the call, unless it is on record.
func (in *insideCall) begin(tx bridge.Change) error {
	in.again, in.earlier, in.refused = false, nil, nil
	if in.Guard != nil {
		if in.refused = in.Guard(tx.Scene); in.refused != nil {
			return nil // others record theirs in the same step
		}
	}
	there, err := tx.RunCall(in.Turn, in.ID)
	if err != nil {
		return err
	}
	for _, m := range there {
		in.again = true
		if m.Kind == bridge.ToolReturnMessage {
			in.earlier = bridge.RecordedReturn(m)
		}
	}
	if in.again {
		return nil
	}
	_, err = tx.AppendRunMessage(bridge.RunMessage{Turn: in.Turn, Kind: bridge.ToolCallMessage, Name: in.begun.tool, CallID: in.ID, Payload: bridge.RunPayload(in.Args), At: tx.Now()})
	return err
}
