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

	"drawbridge/internal/tracing"
)

func TestRunStepTool(t *testing.T) {
	t.Parallel()
	out := tracetest.NewInMemoryExporter()
	tr := tracing.To(keep{out}, "test")
	// The tools come first, while the run lasts; another turn is another trace.
	_, end := tr.Tool(t.Context(), tracing.ToolCall{Turn: "trn_1", Agent: "agt_1", Tool: "list_agents", Begun: time.Now()})
	end("")
	_, end = tr.Tool(t.Context(), tracing.ToolCall{Turn: "trn_2", Agent: "agt_1", Tool: "remind", Begun: time.Now()})
	end("denied")
	tr.Run(tracing.Run{Turn: "trn_1", Agent: "agt_1", Status: "FINISHED", Begun: time.Unix(1, 0), Ended: time.Unix(3, 0)})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	spans := map[string]tracetest.SpanStub{}
	for _, s := range out.GetSpans() {
		if s.Name != "step" || spans["step"].Name == "" {
			spans[s.Name] = s
		}
	}
	run, step, tool := spans["run"], spans["step"], spans["tool list_agents"]
	if step.Parent.SpanID() != run.SpanContext.SpanID() || tool.Parent.SpanID() != step.SpanContext.SpanID() || run.Parent.IsValid() {
		t.Errorf("run %v, step below %v, tool below %v", run.SpanContext.SpanID(), step.Parent.SpanID(), tool.Parent.SpanID())
	}
	if run.SpanContext.TraceID() != tool.SpanContext.TraceID() || run.SpanContext.TraceID() == spans["tool remind"].SpanContext.TraceID() {
		t.Error("a trace is not one turn")
	}
	if run.EndTime.Sub(run.StartTime) != 2*time.Second || spans["tool remind"].Status.Description != "denied" {
		t.Errorf("run took %s, refused tool says %q", run.EndTime.Sub(run.StartTime), spans["tool remind"].Status.Description)
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
