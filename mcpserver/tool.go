package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
	"drawbridge/internal/clip"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
	"drawbridge/internal/tracing"
)

// tool is one tool as its set defines it.
type tool struct {
	name string
	// about is for a model: what it does, when to use it, what comes back.
	about  string
	schema *jsonschema.Schema
	nature nature
	// shared tools stand in several sets and are offered once.
	shared bool
	// kept tools remember what they did under the key that the bridge itself gives; callers from outside have none.
	kept bool
	call func(ctx context.Context, c *caller, args json.RawMessage) (answer, error)

	resolved *jsonschema.Resolved
}

// answer is what a tool returns. Data becomes the structured content and must
// encode as a JSON object. Text is for clients that read text alone; empty
// means the JSON of Data.
type answer struct {
	data any
	text string
}

// define makes a tool whose arguments are checked against the schema and read
// into an In. In's fields and the schema's properties must be the same.
func define[In any](name, about string, schema *jsonschema.Schema, call func(context.Context, *caller, In) (answer, error)) tool {
	return tool{name: name, about: about, schema: schema, call: func(ctx context.Context, c *caller, args json.RawMessage) (answer, error) {
		var in In
		if err := strictjson.DecodeExact(args, &in); err != nil {
			return answer{}, bridge.Errorf(bridge.Invalid, "the arguments cannot be read: %s", clipped(err.Error()))
		}
		return call(ctx, c, in)
	}}
}

// asked is run for a call that the SDK read.
func (t tool) asked(ctx context.Context, d *Door, req *mcp.CallToolRequest) *mcp.CallToolResult {
	c, ok := req.Extra.TokenInfo.Extra[callerKey].(*caller)
	if !ok {
		return failed(errors.New("a call without a caller"))
	}
	if parent, ok := req.Params.Meta["traceparent"].(string); ok { // where MCP's own conventions have it
		one := *c // other calls of the same request may run beside it
		one.traceparent = parent
		c = &one
	}
	return t.run(ctx, d, c, asked{tool: req.Params.Name, args: req.Params.Arguments})
}

// run takes one call from its raw arguments to its result, and counts it. An error
// that the agent can act on is a result; only a fault of ours is hidden from it.
func (t tool) run(ctx context.Context, d *Door, c *caller, k asked) *mcp.CallToolResult {
	result := t.perform(ctx, d, c, k)
	outcome := "ok"
	if detail, failed := result.Meta[errorKey].(httpx.ErrorDetail); failed {
		outcome = detail.Kind
	}
	d.o.OnCall(t.name, outcome)
	return result
}

func (t tool) perform(ctx context.Context, d *Door, c *caller, call asked) *mcp.CallToolResult {
	if len(call.args) == 0 || string(call.args) == "null" {
		call.args = json.RawMessage("{}")
	}
	if err := d.pace.take(c.agent.ID); err != nil {
		return failed(err)
	}
	call.at = time.Now()
	if t.nature.readOnly {
		return t.look(ctx, d, c, call)
	}
	record, err := d.record.call(ctx, c, call)
	if err != nil {
		return t.told(d, c, fmt.Errorf("record the call: %w", err))
	}
	ctx, end := d.o.Tracing.Tool(ctx, record.span(c, call))
	result, failed := t.answered(ctx, d, c, call.args)
	end(failed)
	if err := d.record.returned(ctx, record, result); err != nil {
		// What the call did is done; saying that it failed would have it done again.
		d.o.Log.Error().Err(err).Str("tool", t.name).Str("agent", string(c.agent.ID)).Msg("a tool's return was not recorded")
	}
	return result
}

// look is run for a tool that changes nothing.
func (t tool) look(ctx context.Context, d *Door, c *caller, call asked) *mcp.CallToolResult {
	result, failed := t.answered(ctx, d, c, call.args)
	record, err := d.record.both(ctx, c, call, result)
	if err != nil { // nothing is told that is not on record
		return t.told(d, c, fmt.Errorf("record the call: %w", err))
	}
	_, end := d.o.Tracing.Tool(ctx, record.span(c, call))
	end(failed)
	return result
}

// span is how a call is traced.
func (b begun) span(c *caller, call asked) tracing.ToolCall {
	return tracing.ToolCall{Turn: string(b.turn), Agent: string(c.agent.ID), Tool: call.tool, Caller: c.traceparent, Begun: call.at}
}

// answered makes the result of a call, and says in a word why it failed, if it did.
func (t tool) answered(ctx context.Context, d *Door, c *caller, args json.RawMessage) (result *mcp.CallToolResult, failed string) {
	out, err := t.checked(ctx, c, args)
	if err != nil {
		return t.told(d, c, err), cmp.Or(string(bridge.KindOf(err)), "internal")
	}
	result = out.result()
	if err := t.heard(ctx, d, c, result); err != nil {
		return t.told(d, c, err), cmp.Or(string(bridge.KindOf(err)), "internal")
	}
	return result, ""
}

// heard records what an agent may repeat out of an answer that shows what others wrote,
// titles and names among it. Tools that show whole texts record more by themselves.
func (t tool) heard(ctx context.Context, d *Door, c *caller, result *mcp.CallToolResult) error {
	if !t.nature.readOnly && !showsTitle[t.name] || t.name == "list_allowed" || len(result.Content) == 0 {
		return nil
	}
	shown, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return nil
	}
	whole := echo.Heard{Text: shown.Text, Mode: echo.Near, Source: bridge.EchoTree, Place: "the answer of the tool " + t.name}
	titles := whole
	titles.Text, titles.Mode = titlesIn(result.StructuredContent), echo.Named
	return d.hear(ctx, c, []echo.Heard{whole, titles})
}

// showsTitle are tools that change something and show a title that another agent may have chosen.
var showsTitle = map[string]bool{"join_thread": true, "add_participant_to_thread": true, "remove_participant_from_thread": true}

// titlesIn returns the titles in a tool's answer, one in each line. They are words to an
// agent and may name an action, unlike the names of agents and repositories.
func titlesIn(data any) string {
	raw, ok := data.(json.RawMessage)
	if !ok || !bytes.Contains(raw, []byte(`"title"`)) {
		return ""
	}
	var all any
	if json.Unmarshal(raw, &all) != nil { // encode made it
		return ""
	}
	var titles []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			if title, ok := v["title"].(string); ok {
				titles = append(titles, title)
			}
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(all)
	slices.Sort(titles)
	return strings.Join(slices.Compact(titles), "\n")
}

// told logs an error that is ours, and returns what the agent may know of it.
func (t tool) told(d *Door, c *caller, err error) *mcp.CallToolResult {
	if bridge.KindOf(err) == "" && !errors.Is(err, context.Canceled) {
		d.o.Log.Error().Err(err).Str("tool", t.name).Str("agent", string(c.agent.ID)).Msg("tool call failed")
	}
	return failed(err)
}

func (t tool) checked(ctx context.Context, c *caller, args json.RawMessage) (answer, error) {
	var plain map[string]any
	if err := strictjson.Decode(args, &plain); err != nil {
		if strings.Contains(err.Error(), "cannot unmarshal") {
			err = errors.New("the arguments must be a JSON object")
		}
		return answer{}, t.wrong(err)
	}
	changed := t.leaveOut(plain)
	if c.key != "" && t.isKeyed() && plain[keyArgument] == nil {
		if plain == nil {
			plain = map[string]any{}
		}
		plain[keyArgument] = c.key
	}
	if err := t.resolved.Validate(plain); err != nil {
		return answer{}, t.wrong(err)
	}
	one := *c // other calls of the same request may run beside it
	var err error
	if one.once, err = t.once(plain, c.key); err != nil {
		return answer{}, err
	}
	if changed || one.once.Key != "" {
		if args, err = json.Marshal(plain); err != nil {
			return answer{}, fmt.Errorf("encode arguments: %w", err)
		}
	}
	return t.call(ctx, &one, args)
}

// leaveOut takes away optional arguments that are null, as models write what
// they do not mean to give, and reports whether there were any.
func (t tool) leaveOut(plain map[string]any) (found bool) {
	for name, value := range plain {
		p := t.schema.Properties[name]
		if value == nil && p != nil && !slices.Contains(t.schema.Required, name) {
			delete(plain, name)
			found = true
		}
	}
	return found
}

// wrong says what is the matter with arguments, and what they should be.
func (t tool) wrong(err error) error {
	why := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "validating root: "), "validating ")
	why = strings.ReplaceAll(why, "<invalid reflect.Value>", "null") // what the library calls it
	return bridge.Errorf(bridge.Invalid, "%s: %s; it takes %s", t.name, clipped(why), signature(t.schema))
}

// result renders an answer in both forms that clients read.
func (a answer) result() *mcp.CallToolResult {
	data, err := encode(a.data)
	if err != nil {
		return failed(err)
	}
	if a.text == "" {
		a.text = string(data)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.text}}, StructuredContent: data}
}

// encode writes JSON that a model reads: without escapes for HTML, which would
// make code unreadable, and with escapes for what does not show.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return words.JSON(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// errorKey is where the metadata of a result has the error in parts. It is not the
// structured content: clients check that against the tool's output schema, and
// show their own complaint in place of the error.
const errorKey = "drawbridge/error"

// failed renders an error: its kind as a stable word, and the message that may be shown.
func failed(err error) *mcp.CallToolResult {
	kind := string(bridge.KindOf(err))
	if kind == "" {
		kind = "internal"
	}
	message := string(words.ForAgent(words.Own(bridge.SafeMessage(err))))
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: kind + ": " + message}},
		Meta: mcp.Meta{errorKey: httpx.ErrorDetail{Kind: kind, Message: message}}}
}

// clipped keeps what a caller sent from coming back at length.
func clipped(said string) string { return clip.Text(strings.ToValidUTF8(said, "?"), 300) }
