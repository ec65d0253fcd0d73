package tracing_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"drawbridge/internal/tracing"
)

// attributesOf are a span's attributes as texts.
func attributesOf(s tracetest.SpanStub) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// played returns the spans of a play by name.
func played(t *testing.T, play func(*tracing.Tracing)) map[string]tracetest.SpanStub {
	t.Helper()
	out := tracetest.NewInMemoryExporter()
	tr := tracing.To(keep{out}, "test")
	play(tr)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	spans := map[string]tracetest.SpanStub{}
	for _, s := range out.GetSpans() {
		spans[s.Name] = s
	}
	return spans
}

// The spans follow OpenTelemetry's conventions: invoke_agent, tools/call at the door, execute_tool within it.
func TestSpansOfARun(t *testing.T) {
	t.Parallel()
	const caller = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	spans := played(t, func(tr *tracing.Tracing) {
		// The tools come first, while the run lasts; another turn is another trace.
		_, end := tr.Tool(t.Context(), tracing.ToolCall{Turn: "trn_1", Agent: "agt_1", Tool: "list_agents", Caller: caller, Begun: time.Now()})
		end("")
		_, end = tr.Tool(t.Context(), tracing.ToolCall{Turn: "trn_2", Agent: "agt_1", Tool: "remind", Caller: "nonsense", Begun: time.Now()})
		end("denied")
		tr.Action(tracing.Action{Turn: "trn_1", Agent: "agt_1", Name: "backup", Kind: "timed_out", Begun: time.Unix(1, 0), Ended: time.Unix(2, 0)})
		tr.Run(tracing.Run{Turn: "trn_1", Agent: "agt_1", Name: "main", Status: "FINISHED", Provider: "cursor", Begun: time.Unix(1, 0), Ended: time.Unix(3, 0), Spent: &tracing.Tokens{Input: 1, Output: 2, CacheWrite: 30, CacheRead: 400}})
		tr.Run(tracing.Run{Turn: "trn_3", Agent: "agt_2", Name: "child", Status: "ERROR", Failed: true, Begun: time.Unix(1, 0), Ended: time.Unix(3, 0), After: []string{"trn_1"}})
	})
	run, request, tool, action := spans["invoke_agent main"], spans["tools/call list_agents"], spans["execute_tool list_agents"], spans["execute_tool backup"]
	if request.Parent.SpanID() != run.SpanContext.SpanID() || tool.Parent.SpanID() != request.SpanContext.SpanID() || action.Parent.SpanID() != run.SpanContext.SpanID() || run.Parent.IsValid() {
		t.Errorf("run %v, request below %v, tool below %v, action below %v", run.SpanContext.SpanID(), request.Parent.SpanID(), tool.Parent.SpanID(), action.Parent.SpanID())
	}
	if run.SpanContext.TraceID() != tool.SpanContext.TraceID() || run.SpanContext.TraceID() == spans["execute_tool remind"].SpanContext.TraceID() {
		t.Error("a trace is not one turn")
	}
	for name, kind := range map[string]trace.SpanKind{"invoke_agent main": trace.SpanKindClient, "tools/call list_agents": trace.SpanKindServer, "execute_tool list_agents": trace.SpanKindInternal, "execute_tool backup": trace.SpanKindClient} {
		if spans[name].SpanKind != kind {
			t.Errorf("%s is of the kind %s", name, spans[name].SpanKind)
		}
	}
	for name, want := range map[string]map[string]string{
		"invoke_agent main": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "agt_1", "gen_ai.agent.name": "main", "gen_ai.conversation.id": "agt_1", "gen_ai.provider.name": "cursor", "error.type": "",
			"gen_ai.usage.input_tokens": "431", "gen_ai.usage.output_tokens": "2", "gen_ai.usage.cache_creation.input_tokens": "30", "gen_ai.usage.cache_read.input_tokens": "400"},
		"invoke_agent child":     {"error.type": "ERROR", "gen_ai.usage.input_tokens": ""},
		"tools/call list_agents": {"mcp.method.name": "tools/call", "gen_ai.tool.name": "list_agents", "error.type": ""},
		"execute_tool remind":    {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "remind", "gen_ai.tool.type": "function", "error.type": "denied"},
		"execute_tool backup":    {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "backup", "error.type": "timed_out"},
	} {
		got := attributesOf(spans[name])
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], value)
			}
		}
	}
	// The caller's trace is linked, without its word on sampling; what is not a trace is not.
	if links := request.Links; len(links) != 1 || links[0].SpanContext.TraceID().String() != "0123456789abcdef0123456789abcdef" || links[0].SpanContext.IsSampled() {
		t.Errorf("the request's links: %+v", links)
	}
	if links := spans["tools/call remind"].Links; len(links) != 0 {
		t.Errorf("links of nonsense: %+v", links)
	}
	if links := spans["invoke_agent child"].Links; len(links) != 1 || links[0].SpanContext.SpanID() != run.SpanContext.SpanID() || links[0].SpanContext.TraceID() != run.SpanContext.TraceID() {
		t.Errorf("a child's run does not link its launch: %+v", links)
	}
	if run.EndTime.Sub(run.StartTime) != 2*time.Second || spans["execute_tool remind"].Status.Description != "denied" {
		t.Errorf("run took %s, refused tool says %q", run.EndTime.Sub(run.StartTime), spans["execute_tool remind"].Status.Description)
	}
}

// Requests out are CLIENT spans under a path without ids, and carry no trace of ours; requests in are SERVER spans.
func TestSpansOfRequests(t *testing.T) {
	t.Parallel()
	spans := played(t, func(tr *tracing.Tracing) {
		server := httptest.NewServer(tr.Server("/hooks/{key}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Traceparent") != "" {
				t.Error("a trace of ours was sent")
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})))
		defer server.Close()
		c := &http.Client{Transport: tr.Client(http.DefaultTransport, func(context.Context) (string, func(func())) { return "", nil })}
		resp, err := c.Get(server.URL + "/v1/agents/bc-1234/runs/run-5") //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		c.CloseIdleConnections()
	})
	out, in := spans["GET /v1/agents/{id}/runs/{id}"], spans["GET /hooks/{key}"]
	if out.SpanKind != trace.SpanKindClient || attributesOf(out)["http.response.status_code"] != "503" || attributesOf(out)["error.type"] != "503" {
		t.Errorf("the request out: %v %v", out.SpanKind, attributesOf(out))
	}
	if in.SpanKind != trace.SpanKindServer || attributesOf(in)["http.route"] != "/hooks/{key}" || attributesOf(in)["error.type"] != "503" {
		t.Errorf("the request in: %v %v", in.SpanKind, attributesOf(in))
	}
}

// Requests for a turn are below its run, or below the tool that makes them. A GET can be held back; an effect cannot.
func TestRequestsBelowTheirRun(t *testing.T) {
	t.Parallel()
	var held []func()
	spans := played(t, func(tr *tracing.Tracing) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		c := &http.Client{Transport: tr.Client(http.DefaultTransport, func(context.Context) (string, func(func())) {
			return "trn_1", func(tell func()) { held = append(held, tell) }
		})}
		defer c.CloseIdleConnections()
		ask := func(ctx context.Context, method, path string) {
			r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		ask(t.Context(), http.MethodPost, "/v1/agents")
		ask(t.Context(), http.MethodGet, "/told")
		ask(t.Context(), http.MethodGet, "/dropped")
		ctx, end := tr.Tool(t.Context(), tracing.ToolCall{Turn: "trn_2", Agent: "agt_1", Tool: "inspect_agent", Begun: time.Now()})
		ask(ctx, http.MethodPost, "/v1/asked")
		end("")
		if len(held) != 2 {
			t.Fatalf("%d requests are held back, want the two that only read", len(held))
		}
		held[0]()
		tr.Run(tracing.Run{Turn: "trn_1", Name: "main", Begun: time.Now(), Ended: time.Now()})
	})
	run := spans["invoke_agent main"].SpanContext
	for _, name := range []string{"POST /v1/agents", "GET /told"} {
		if s := spans[name]; s.Parent.SpanID() != run.SpanID() || s.SpanContext.TraceID() != run.TraceID() || attributesOf(s)["error.type"] != "404" {
			t.Errorf("%s is below %v, want the run %v; %v", name, s.Parent.SpanID(), run.SpanID(), attributesOf(s))
		}
	}
	if s := spans["POST /v1/asked"]; s.Parent.SpanID() != spans["execute_tool inspect_agent"].SpanContext.SpanID() {
		t.Errorf("a tool's request is below %v", s.Parent.SpanID())
	}
	if _, there := spans["GET /dropped"]; there {
		t.Error("a request that was held back has a span")
	}
}

// keep is an exporter whose spans outlive its end.
type keep struct{ *tracetest.InMemoryExporter }

func (keep) Shutdown(context.Context) error { return nil }

func TestOffUntilACollectorIsNamed(t *testing.T) {
	t.Parallel()
	var zero *tracing.Tracing
	_, end := zero.Tool(t.Context(), tracing.ToolCall{Turn: "trn_1", Agent: "agt_1", Tool: "x"})
	end("")
	for _, env := range []map[string]string{{}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}} {
		tr, err := tracing.New(t.Context(), "test", func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		tr.Run(tracing.Run{Turn: "trn_1"})
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The exporter itself reads the environment of the process, so this test is not parallel.
func TestACollectorGetsSpans(t *testing.T) {
	var got atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/traces" && strings.Contains(string(body), "drawbridge.turn") {
			got.Add(1)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tr, err := tracing.New(t.Context(), "test", func(name string) (string, bool) { return collector.URL, name == "OTEL_EXPORTER_OTLP_ENDPOINT" })
	if err != nil {
		t.Fatal(err)
	}
	tr.Run(tracing.Run{Turn: "trn_1", Begun: time.Now(), Ended: time.Now()})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if got.Load() != 1 {
		t.Errorf("%d requests with spans", got.Load())
	}
}

// TestSpansOfSteps: below a run are the calls of its model, and below each of them the tools that it asked for. A step that a
// record holds twice, as after a crash, has the same place.
func TestSpansOfSteps(t *testing.T) {
	t.Parallel()
	spans := played(t, func(tr *tracing.Tracing) {
		_, end := tr.Tool(t.Context(), tracing.ToolCall{Turn: "trn_1", Agent: "agt_1", Tool: "send_dm", Step: "2", Begun: time.Now()})
		end("denied")
		tr.Step(tracing.Step{Turn: "trn_1", Agent: "agt_1", Step: "2", Model: "qwen", Begun: time.Unix(1, 0), Ended: time.Unix(2, 0), Spent: &tracing.Tokens{Input: 7, Output: 2}})
		tr.Step(tracing.Step{Turn: "trn_1", Agent: "agt_1", Step: "3", Model: "other", Kind: "rate_limited", Begun: time.Unix(2, 0), Ended: time.Unix(2, 0)})
		tr.Run(tracing.Run{Turn: "trn_1", Agent: "agt_1", Name: "main", Status: "FINISHED", Begun: time.Unix(1, 0), Ended: time.Unix(3, 0)})
	})
	run, step, other, tool := spans["invoke_agent main"], spans["chat qwen"], spans["chat other"], spans["execute_tool send_dm"]
	if tool.Parent.SpanID() != step.SpanContext.SpanID() || step.Parent.SpanID() != run.SpanContext.SpanID() || other.Parent.SpanID() != run.SpanContext.SpanID() || !step.Parent.IsValid() {
		t.Errorf("run %v, step %v below %v, tool below %v", run.SpanContext.SpanID(), step.SpanContext.SpanID(), step.Parent.SpanID(), tool.Parent.SpanID())
	}
	if step.SpanContext.SpanID() == other.SpanContext.SpanID() || step.SpanContext.TraceID() != run.SpanContext.TraceID() || spans["tools/call send_dm"].Name != "" {
		t.Error("two steps share a place, or a tool without a request has one")
	}
	if got := attributesOf(step); got["gen_ai.request.model"] != "qwen" || got["gen_ai.usage.input_tokens"] != "7" || got["error.type"] != "" {
		t.Errorf("%v", got)
	}
	if got := attributesOf(other); got["error.type"] != "rate_limited" {
		t.Errorf("%v", got)
	}
}
