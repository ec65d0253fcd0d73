// Package tracing tells an OpenTelemetry collector of runs and of the tools that
// they call: run, step, tool. It is off, at no cost, until the standard
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

// Run tells of one run that is over. failed says why it did not end well, or "".
type Run struct {
	Turn, Agent, Status string
	Begun, Ended        time.Time
	Failed              bool
}

// Run sends the span of a run. Its ids are made from the turn's, so that the
// spans of its tools, which were sent while it lasted and perhaps by another
// replica, are its children.
func (t *Tracing) Run(r Run) {
	ctx := context.WithValue(context.Background(), fixed{}, ofTurn(r.Turn))
	_, span := t.tracer().Start(ctx, "run", trace.WithNewRoot(), trace.WithTimestamp(r.Begun), trace.WithAttributes(
		attribute.String("drawbridge.turn", r.Turn), attribute.String("drawbridge.agent", r.Agent), attribute.String("drawbridge.status", r.Status)))
	if r.Failed {
		span.SetStatus(codes.Error, r.Status)
	}
	span.End(trace.WithTimestamp(r.Ended))
}

// ToolCall is one tool call of a turn.
type ToolCall struct {
	Turn, Agent, Tool string
	Begun             time.Time
}

// Tool begins the spans of a tool call: the step, and the tool within it, both
// from when the call began. The returned function ends both; kind is the
// error's word, or "".
func (t *Tracing) Tool(ctx context.Context, call ToolCall) (context.Context, func(kind string)) {
	if t == nil || t.provider == nil {
		return ctx, func(string) {}
	}
	if call.Turn != "" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, ofTurn(call.Turn))
	}
	about := trace.WithAttributes(attribute.String("drawbridge.turn", call.Turn), attribute.String("drawbridge.agent", call.Agent))
	begun := trace.WithTimestamp(call.Begun)
	ctx, step := t.tracer().Start(ctx, "step", about, begun)
	ctx, span := t.tracer().Start(ctx, "tool "+call.Tool, about, begun)
	return ctx, func(kind string) {
		if kind != "" {
			span.SetStatus(codes.Error, kind)
		}
		span.End()
		step.End()
	}
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

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}
