// Package tracing tells an OpenTelemetry collector of runs, the tools and actions that
// they call, and requests out and in, in the words of OpenTelemetry's conventions
// for GenAI and MCP. It is off, at no cost, until the standard
// variables name a collector, and it never holds up or fails what it tells of.
// Rule of thumb: ids, names and verdicts go into a span; arguments, texts and
// secrets never do.
package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracing makes spans. Safe for concurrent use; the zero value makes none.
type Tracing struct {
	provider *sdktrace.TracerProvider
}

// New returns a Tracing that sends spans by OTLP over HTTP to where the standard
// variables say (OTEL_EXPORTER_OTLP_ENDPOINT and its like), and none where they
// say nothing or OTEL_SDK_DISABLED is true. Close sends what is left.
func New(ctx context.Context, version string, getenv func(string) (string, bool)) (*Tracing, error) {
	set := func(name string) bool { v, _ := getenv(name); return v != "" }
	disabled, _ := getenv("OTEL_SDK_DISABLED")
	if strings.EqualFold(disabled, "true") || (!set("OTEL_EXPORTER_OTLP_ENDPOINT") && !set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")) {
		return &Tracing{}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open OTLP exporter: %w", err)
	}
	return To(exporter, version), nil
}

// To returns a Tracing that sends spans to an exporter.
func To(exporter sdktrace.SpanExporter, version string) *Tracing {
	// What the environment says of the service beats what is said here.
	about := resource.NewSchemaless(attribute.String("service.name", "drawbridge"), attribute.String("service.version", version))
	if merged, err := resource.Merge(about, resource.Environment()); err == nil {
		about = merged
	}
	return &Tracing{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(ids{}), sdktrace.WithResource(about))}
}

// lastPatience bounds the sending of what is left.
const lastPatience = 5 * time.Second

// Close sends what is left.
func (t *Tracing) Close() error {
	if t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

func (t *Tracing) tracer() trace.Tracer {
	if t == nil || t.provider == nil {
		return noop.Tracer{}
	}
	return t.provider.Tracer("drawbridge")
}

// Run tells of one run that is over. Provider is who ran it. After names the turns that
// it came of: the one that launched the agent, and those whose results it was given.
type Run struct {
	Turn, Agent, Name, Status, Provider string
	Begun, Ended                        time.Time
	Failed                              bool
	After                               []string
	// Spent is nil when the API does not tell.
	Spent *Tokens
}

// Tokens counts what one run consumed. Input leaves out the tokens of caches.
type Tokens struct{ Input, Output, CacheWrite, CacheRead int64 }

// attributes follow the conventions, where input tokens include those of caches.
func (n *Tokens) attributes() []attribute.KeyValue {
	if n == nil {
		return nil
	}
	return []attribute.KeyValue{attribute.Int64("gen_ai.usage.input_tokens", n.Input+n.CacheWrite+n.CacheRead), attribute.Int64("gen_ai.usage.output_tokens", n.Output),
		attribute.Int64("gen_ai.usage.cache_creation.input_tokens", n.CacheWrite), attribute.Int64("gen_ai.usage.cache_read.input_tokens", n.CacheRead)}
}

// Run sends the span of a run. Its ids are made from the turn's, so that the
// spans of its tools, which were sent while it lasted and perhaps by another
// replica, are its children.
func (t *Tracing) Run(r Run) {
	ctx := context.WithValue(context.Background(), fixed{}, ofTurn(r.Turn))
	attributes := append(aboutAgent("invoke_agent", r.Agent, r.Turn), attribute.String("gen_ai.agent.name", r.Name),
		attribute.String("gen_ai.provider.name", r.Provider), attribute.String("drawbridge.status", r.Status))
	attributes = append(attributes, r.Spent.attributes()...)
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(r.Begun), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...)}
	for _, turn := range r.After {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: ofTurn(turn)}))
	}
	_, span := t.tracer().Start(ctx, strings.TrimSpace("invoke_agent "+r.Name), options...)
	if r.Failed {
		fail(span, r.Status)
	}
	span.End(trace.WithTimestamp(r.Ended))
}

// aboutAgent are the attributes that spans of an agent share. An agent is one conversation.
func aboutAgent(operation, agent, turn string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.agent.id", agent),
		attribute.String("gen_ai.conversation.id", agent), attribute.String("drawbridge.turn", turn), attribute.String("drawbridge.agent", agent)}
}

func fail(span trace.Span, kind string) {
	span.SetStatus(codes.Error, kind)
	span.SetAttributes(attribute.String("error.type", kind))
}

// Action is one action that a relay ran for a turn. Kind is the error's word, or "".
type Action struct {
	Turn, Agent, Name, Kind string
	Begun, Ended            time.Time
}

// Action sends the span of an action that is over, below the run that asked for it.
func (t *Tracing) Action(a Action) {
	ctx := context.Background()
	if a.Turn != "" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, ofTurn(a.Turn))
	}
	attributes := append(aboutAgent("execute_tool", a.Agent, a.Turn), attribute.String("gen_ai.tool.name", a.Name), attribute.String("gen_ai.tool.type", "extension"))
	_, span := t.tracer().Start(ctx, "execute_tool "+a.Name, trace.WithTimestamp(a.Begun), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	if a.Kind != "" {
		fail(span, a.Kind)
	}
	span.End(trace.WithTimestamp(a.Ended))
}

// ToolCall is one tool call of a turn. Caller is the client's traceparent, or "". Step names the call of a model in this process
// that asked for the tool, "" for a client of the door.
type ToolCall struct {
	Turn, Agent, Tool, Caller, Step string
	Begun                           time.Time
}

// Step is one call of a chat model within a run. Kind is the error's word, or "".
type Step struct {
	Turn, Agent, Step, Model, Kind string
	Begun, Ended                   time.Time
	Spent                          *Tokens
}

// Step sends the span of a call of a model that is over, below its run. Its ids are made from the turn's and the step's, so
// that the spans of the tools that it asked for are its children.
func (t *Tracing) Step(s Step) {
	ctx := trace.ContextWithRemoteSpanContext(context.WithValue(context.Background(), fixed{}, ofStep(s.Turn, s.Step)), ofTurn(s.Turn))
	attributes := append(aboutAgent("chat", s.Agent, s.Turn), attribute.String("gen_ai.request.model", s.Model), attribute.String("drawbridge.step", s.Step))
	attributes = append(attributes, s.Spent.attributes()...)
	_, span := t.tracer().Start(ctx, "chat "+s.Model, trace.WithTimestamp(s.Begun), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	if s.Kind != "" {
		fail(span, s.Kind)
	}
	span.End(trace.WithTimestamp(s.Ended))
}

// stepTool begins the span of a tool below the step that asked for it.
func (t *Tracing) stepTool(ctx context.Context, call ToolCall) (context.Context, func(kind string)) {
	ctx = trace.ContextWithRemoteSpanContext(ctx, ofStep(call.Turn, call.Step))
	attributes := append(aboutAgent("execute_tool", call.Agent, call.Turn), attribute.String("gen_ai.tool.name", call.Tool), attribute.String("gen_ai.tool.type", "function"))
	ctx, span := t.tracer().Start(ctx, "execute_tool "+call.Tool, trace.WithAttributes(attributes...), trace.WithTimestamp(call.Begun), trace.WithSpanKind(trace.SpanKindInternal))
	return ctx, func(kind string) {
		if kind != "" {
			fail(span, kind)
		}
		span.End()
	}
}

// ofStep is the place of a step in the trace of its turn: the same wherever it is made.
func ofStep(turn, step string) trace.SpanContext {
	sum := sha256.Sum256([]byte("drawbridge step|" + turn + "|" + step))
	return ofTurn(turn).WithSpanID(trace.SpanID(sum[:8]))
}

// Tool begins the spans of a tool call: the request at the door (SERVER), and the tool
// within it, both from when the call began. The request's span links the caller's; the
// caller's sampling does not count here. The returned function ends both; kind is
// the error's word, or "".
func (t *Tracing) Tool(ctx context.Context, call ToolCall) (context.Context, func(kind string)) {
	if t == nil || t.provider == nil {
		return ctx, func(string) {}
	}
	if call.Step != "" {
		return t.stepTool(ctx, call)
	}
	if call.Turn != "" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, ofTurn(call.Turn))
	}
	about := trace.WithAttributes(append(aboutAgent("execute_tool", call.Agent, call.Turn), attribute.String("gen_ai.tool.name", call.Tool),
		attribute.String("gen_ai.tool.type", "function"), attribute.String("mcp.method.name", "tools/call"))...)
	begun := trace.WithTimestamp(call.Begun)
	options := []trace.SpanStartOption{about, begun, trace.WithSpanKind(trace.SpanKindServer)}
	if caller := remote(call.Caller); caller.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller}))
	}
	ctx, request := t.tracer().Start(ctx, "tools/call "+call.Tool, options...)
	ctx, span := t.tracer().Start(ctx, "execute_tool "+call.Tool, about, begun, trace.WithSpanKind(trace.SpanKindInternal))
	return ctx, func(kind string) {
		if kind != "" {
			fail(span, kind)
			fail(request, kind)
		}
		span.End()
		request.End()
	}
}

// Request is one request at the MCP door that calls no tool of ours. Method is one that
// the protocol knows. Caller is the client's traceparent, or "".
type Request struct{ Method, Agent, Caller string }

// Request begins the span of a request (SERVER), a trace of its own. The returned function
// ends it; kind is the error's code or word, or "".
func (t *Tracing) Request(ctx context.Context, r Request) (context.Context, func(kind string)) {
	if t == nil || t.provider == nil {
		return ctx, func(string) {}
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("mcp.method.name", r.Method), attribute.String("gen_ai.agent.id", r.Agent), attribute.String("drawbridge.agent", r.Agent))}
	if caller := remote(r.Caller); caller.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller}))
	}
	ctx, span := t.tracer().Start(ctx, r.Method, options...)
	return ctx, func(kind string) {
		if kind != "" {
			fail(span, kind)
		}
		span.End()
	}
}

// remote reads a traceparent (W3C), without its sampling flag.
func remote(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx).WithTraceFlags(0)
}

// ofTurn is the place of a turn's run: the same wherever it is made.
func ofTurn(turn string) trace.SpanContext {
	sum := sha256.Sum256([]byte("drawbridge run|" + turn))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled, Remote: true})
}

// fixed is where a context says which ids the next root span gets.
type fixed struct{}

// ids makes random ids, but for spans whose ids are fixed.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if place, ok := ctx.Value(fixed{}).(trace.SpanContext); ok {
		return place.TraceID(), place.SpanID()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // crypto/rand never fails on the systems that we run on
	return id, ids{}.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator. The id of a step is fixed, although its span has a parent.
func (ids) NewSpanID(ctx context.Context, in trace.TraceID) (id trace.SpanID) {
	if place, ok := ctx.Value(fixed{}).(trace.SpanContext); ok && place.TraceID() == in {
		return place.SpanID()
	}
	_, _ = rand.Read(id[:])
	return id
}
