package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/openai/upstream"
)

// CallerTools are tools of people and programs who wait for an agent's answer at another door, and run them. Safe for concurrent use. Errors are
// *bridge.Error, or that of the context.
type CallerTools interface {
	// Fixed reports whether an agent reads its list of tools once and keeps it over turns: then two tools of one name each serve for all.
	Fixed(a bridge.Agent) bool
	// Offered lists what the caller of the agent's turn offers, each under a name that begins with caller_. It is empty outside of such a turn.
	Offered(ctx context.Context, agent bridge.AgentID) ([]upstream.Tool, error)
	// Call runs a tool of Offered and waits for the result, for minutes. When ctx ends, the same call again meets the first one.
	Call(ctx context.Context, agent bridge.AgentID, k bridge.ToolCall) (upstream.Result, error)
	// OnChange has fn called after the tools of any agent changed; fn does not block.
	OnChange(fn func())
}

// The names of callers' tools: what each begins with, and the two that serve where a list of tools does not change.
const (
	callerPrefix   = "caller_"
	listCallerTool = "list_caller_tools"
	callCallerTool = "call_caller_tool"
)

// changing is a tool that exists for a moment, so that the SDK announces a change of the list. No list shows it.
const changing = "drawbridge_changing"

// usualBeat is how often a call that is held says that it goes on. Clients give up a silent one after 60 s.
const usualBeat = 5 * time.Second

// isCallers reports whether a name is that of a caller's tool, or of one that serves for them.
func (d *Door) isCallers(name string) bool {
	return d.o.Callers != nil && (strings.HasPrefix(name, callerPrefix) || name == listCallerTool || name == callCallerTool)
}

// announce tells the clients of all agents that the list of tools changed. A list is private, so each reads its own.
func (d *Door) announce() {
	for _, s := range d.all() {
		s.AddTool(&mcp.Tool{Name: changing, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return failed(bridge.Errorf(bridge.NotFound, "this tool does not exist; call one that the list of tools shows")), nil
		})
		s.RemoveTools(changing)
	}
}

// callers adds callers' tools to the list, and runs them.
func (d *Door) callers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c := asking(req)
		if k, ok := req.(*mcp.CallToolRequest); ok && c != nil && k.Params != nil && d.isCallers(k.Params.Name) {
			return d.callCaller(ctx, c, k), nil
		}
		result, err := next(ctx, method, req)
		listed, ok := result.(*mcp.ListToolsResult)
		if err != nil || c == nil || !ok || listed.NextCursor != "" {
			return result, err
		}
		more, err := d.callersTools(ctx, c)
		if err != nil {
			return nil, err
		}
		own := *listed
		own.Tools = nil
		for _, t := range listed.Tools {
			if t.Name != changing {
				own.Tools = append(own.Tools, t)
			}
		}
		own.Tools = append(own.Tools, more...)
		return &own, nil
	}
}

// asking is the caller of a request, or nil.
func asking(req mcp.Request) *caller {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	c, _ := extra.TokenInfo.Extra[callerKey].(*caller)
	return c
}

// offeredBy lists the tools of an agent's caller. Their descriptions are outside text, which the agent reads with the list.
func (d *Door) offeredBy(ctx context.Context, c *caller) ([]upstream.Tool, error) {
	tools, err := d.o.Callers.Offered(ctx, c.agent.ID)
	if err != nil || len(tools) == 0 {
		return nil, err
	}
	var b strings.Builder
	for _, t := range tools {
		fmt.Fprintf(&b, "%s\n%s\n", t.Description, t.Parameters)
	}
	return tools, d.hear(ctx, c, []echo.Heard{{Text: b.String(), Mode: echo.Near, Source: bridge.EchoOutside, Place: "the list of its caller's tools"}})
}

// callersTools is what a list of tools shows of them.
func (d *Door) callersTools(ctx context.Context, c *caller) (list []*mcp.Tool, err error) {
	open, closed := true, false
	if d.o.Callers.Fixed(c.agent) {
		list = append(list,
			&mcp.Tool{Name: listCallerTool, Title: "List your caller's tools", Description: "List the tools that the caller of this turn runs for you, with their arguments. The list is empty in other turns.",
				InputSchema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed, DestructiveHint: &closed}},
			&mcp.Tool{Name: callCallerTool, Title: "Have your caller run a tool", Description: "Have the caller of this turn run one of the tools of list_caller_tools, and wait for the result.",
				InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","description":"The tool, as list_caller_tools names it."},"arguments":{"type":"object","description":"Its arguments."}},"required":["name"],"additionalProperties":false}`),
				Annotations: &mcp.ToolAnnotations{OpenWorldHint: &open, DestructiveHint: &open}})
	}
	tools, err := d.offeredBy(ctx, c)
	for _, t := range tools {
		list = append(list, &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Parameters, Annotations: &mcp.ToolAnnotations{OpenWorldHint: &open, DestructiveHint: &open}})
	}
	return list, err
}

// callCaller takes one call at /mcp to its result.
func (d *Door) callCaller(ctx context.Context, c *caller, req *mcp.CallToolRequest) *mcp.CallToolResult {
	call := asked{tool: req.Params.Name, args: req.Params.Arguments, at: time.Now()}
	if err := d.pace.take(c.agent.ID); err != nil {
		return failed(err)
	}
	record, err := d.record.call(ctx, c, call)
	if err != nil {
		return d.callerFault(c, call.tool, fmt.Errorf("record the call: %w", err))
	}
	ctx, end := d.o.Tracing.Tool(ctx, record.span(c, call))
	stop := d.beats(ctx, req)
	result, recorded, fault := d.runCaller(ctx, c, bridge.ToolCall{Name: call.tool, Args: call.args})
	stop()
	end(fault)
	d.o.OnCall(callCallerTool, cmp.Or(fault, "ok")) // the names of callers' tools are without end
	if err := d.record.returned(context.WithoutCancel(ctx), record, recorded); err != nil {
		d.o.Log.Error().Err(err).Str("agent", string(c.agent.ID)).Msg("the return of a caller's tool was not recorded")
	}
	return result
}

// beats tells the client that its call goes on, if it asked for that. stop waits for the last of it.
func (d *Door) beats(ctx context.Context, req *mcp.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d.beat)
		defer tick.Stop()
		for n := 1.0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: "the caller runs the tool"}) != nil {
				return // the client is gone, and so will the call be
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// runCaller makes the result of a call, what the record says of it, and in a word why it failed, if it did.
func (d *Door) runCaller(ctx context.Context, c *caller, k bridge.ToolCall) (result, recorded *mcp.CallToolResult, fault string) {
	got, err := d.askCaller(ctx, c, k)
	if err == nil {
		err = d.hear(context.WithoutCancel(ctx), c, []echo.Heard{{Text: got.Text, Mode: echo.Named, Source: bridge.EchoOutside, Place: "the result of its caller's tool"}})
	}
	if err != nil {
		result = d.callerFault(c, k.Name, err)
		return result, result, cmp.Or(string(bridge.KindOf(err)), "internal")
	}
	result = &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: got.Text}}, IsError: got.Failed}
	for _, image := range got.Images {
		if len(image.Data) > 0 {
			result.Content = append(result.Content, &mcp.ImageContent{Data: image.Data, MIMEType: image.MIME})
		} else {
			result.Content = append(result.Content, &mcp.TextContent{Text: "image: " + image.URL})
		}
	}
	data, err := encode(map[string]any{"content": got.Text, "failed": got.Failed, "images": len(got.Images)})
	if err != nil {
		result = d.callerFault(c, k.Name, err)
		return result, result, "internal"
	}
	return result, &mcp.CallToolResult{Content: result.Content, StructuredContent: data}, ""
}

// callerFault logs an error that is ours, and returns what the agent may know of it.
func (d *Door) callerFault(c *caller, tool string, err error) *mcp.CallToolResult {
	if bridge.KindOf(err) == "" && !errors.Is(err, context.Canceled) {
		d.o.Log.Error().Err(err).Str("tool", shownName(tool)).Str("agent", string(c.agent.ID)).Msg("a call of a caller's tool failed")
	}
	return failed(err)
}

// askCaller runs a caller's tool, or lists them.
func (d *Door) askCaller(ctx context.Context, c *caller, k bridge.ToolCall) (upstream.Result, error) {
	switch k.Name {
	case listCallerTool:
		return d.listCaller(ctx, c)
	case callCallerTool:
		var in struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		read := json.NewDecoder(bytes.NewReader(k.Args))
		read.DisallowUnknownFields()
		if err := read.Decode(&in); err != nil || in.Name == "" {
			return upstream.Result{}, bridge.Errorf(bridge.Invalid, "%s takes name (string) and arguments (object)", callCallerTool)
		}
		var text string
		if json.Unmarshal(in.Arguments, &text) == nil { // models write the object into a string now and then
			in.Arguments = json.RawMessage(text)
		}
		k.Name, k.Args = in.Name, in.Arguments
	}
	return d.o.Callers.Call(ctx, c.agent.ID, k)
}

// listCaller lists the tools of the agent's caller as text.
func (d *Door) listCaller(ctx context.Context, c *caller) (upstream.Result, error) {
	type shown struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Arguments   json.RawMessage `json:"arguments"`
	}
	tools, err := d.offeredBy(ctx, c)
	if err != nil {
		return upstream.Result{}, err
	}
	list := struct {
		Tools []shown `json:"tools"`
	}{[]shown{}}
	for _, t := range tools {
		list.Tools = append(list.Tools, shown{t.Name, t.Description, t.Parameters})
	}
	data, err := encode(list)
	return upstream.Result{Text: string(data)}, err
}

// insideCaller runs a caller's tool for an agent of this process. A call that was cut off is an error, so that it is made again and meets the first one.
func (d *Door) insideCaller(ctx context.Context, c *caller, k bridge.ToolCall) (*mcp.CallToolResult, error) {
	if err := d.pace.take(c.agent.ID); err != nil {
		return failed(err), nil
	}
	_, recorded, fault := d.runCaller(ctx, c, k)
	d.o.OnCall(callCallerTool, cmp.Or(fault, "ok"))
	if fault != "" && ctx.Err() != nil {
		return nil, fmt.Errorf("tool %s: %w", shownName(k.Name), context.Cause(ctx))
	}
	return recorded, nil
}
