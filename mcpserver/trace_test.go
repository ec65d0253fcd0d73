package mcpserver_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"drawbridge/bridge"
	"drawbridge/internal/tracing"
	"drawbridge/mcpserver"
)

// keep is an exporter whose spans outlive its end.
type keep struct{ *tracetest.InMemoryExporter }

func (keep) Shutdown(context.Context) error { return nil }

// TestEachRunHasOneSpan: also one whose turn failed without a completion, so that the spans of its tools hang on something.
func TestEachRunHasOneSpan(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, tt := range map[string]struct {
		events []bridge.Event
		status string // of the one span, "" for none
	}{
		"replied":            {[]bridge.Event{{Kind: bridge.EventCompleted, Fields: map[string]string{"status": "FINISHED", "duration_ms": "2000"}}, {Kind: bridge.EventReply}}, "FINISHED"},
		"broke":              {[]bridge.Event{{Kind: bridge.EventCompleted, Fields: map[string]string{"status": "ERROR", "duration_ms": "2000"}}, {Kind: bridge.EventTurnFailed}}, "ERROR"},
		"without completion": {[]bridge.Event{{Kind: bridge.EventTurnFailed, Fields: map[string]string{"duration_ms": "2000"}}}, bridge.EventTurnFailed},
		"never sent":         {[]bridge.Event{{Kind: bridge.EventTurnFailed}}, ""},
	} {
		out := tracetest.NewInMemoryExporter()
		tr := tracing.To(keep{out}, "test")
		for _, e := range tt.events {
			e.Turn, e.At = "trn_1", at
			mcpserver.TraceRun(tr, e)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		spans := out.GetSpans()
		if tt.status == "" {
			if len(spans) != 0 {
				t.Errorf("%s: %d spans", name, len(spans))
			}
			continue
		}
		if len(spans) != 1 || !spans[0].EndTime.Equal(at) || spans[0].EndTime.Sub(spans[0].StartTime) != 2*time.Second || (spans[0].Status.Code == codes.Error) != (tt.status != "FINISHED") {
			t.Errorf("%s: %+v", name, spans)
		}
	}
}
