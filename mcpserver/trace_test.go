package mcpserver_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

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
		"replied":            {[]bridge.Event{{Kind: bridge.EventCompleted, Fields: map[string]string{"status": "FINISHED", "duration_ms": "2000", "input_tokens": "1", "output_tokens": "2", "cache_write_tokens": "3", "cache_read_tokens": "4"}}, {Kind: bridge.EventReply}}, "FINISHED"},
		"broke":              {[]bridge.Event{{Kind: bridge.EventCompleted, Fields: map[string]string{"status": "ERROR", "duration_ms": "2000"}}, {Kind: bridge.EventTurnFailed}}, "ERROR"},
		"without completion": {[]bridge.Event{{Kind: bridge.EventTurnFailed, Fields: map[string]string{"duration_ms": "2000"}}}, bridge.EventTurnFailed},
		"for a known reason": {[]bridge.Event{{Kind: bridge.EventTurnFailed, Fields: map[string]string{"duration_ms": "2000", "error": "invalid"}}}, "invalid"},
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
		if failed := tt.status != "FINISHED"; failed != slices.Contains(spans[0].Attributes, attribute.String("error.type", tt.status)) {
			t.Errorf("%s: %v, want error.type %s", name, spans[0].Attributes, tt.status)
		}
		if told := slices.Contains(spans[0].Attributes, attribute.Int64("gen_ai.usage.input_tokens", 8)); told != (tt.status == "FINISHED") {
			t.Errorf("%s: its tokens are told: %t; %v", name, told, spans[0].Attributes)
		}
		if len(spans) != 1 || !spans[0].EndTime.Equal(at) || spans[0].EndTime.Sub(spans[0].StartTime) != 2*time.Second || (spans[0].Status.Code == codes.Error) != (tt.status != "FINISHED") {
			t.Errorf("%s: %+v", name, spans)
		}
	}
}

// A call's span links the trace that the client names, in the header or in the metadata; an action's span is made of its event.
func TestCallsLinkTheirCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := tracetest.NewInMemoryExporter()
	tr := tracing.To(keep{out}, "test")
	w.serve(func(o *mcpserver.Options) { o.Tracing = tr })
	w.launch("main")
	h := w.openSession("main")
	h.Set("Traceparent", "00-11111111111111111111111111111111-1111111111111111-01")
	w.speak(h, "", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_allowed","arguments":{}}}`)
	h.Del("Traceparent")
	for range 3 { // the later ones differ from the first in nothing
		w.speak(h, "", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"_meta":{"traceparent":"00-22222222222222222222222222222222-2222222222222222-00"},"name":"list_agents","arguments":{}}}`)
	}
	w.speak(h, "", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"agent_status","arguments":{"agent":"nobody"}}}`)
	bye, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	bye.Header = h
	w.send(bye) // nobody runs this door, which would end the session
	mcpserver.TraceRun(tr, bridge.Event{Kind: bridge.EventExecuted, Turn: "trn_1", Agent: "agt_1", At: time.Unix(9, 0), Fields: map[string]string{"status": "failed", "action": "backup", "duration_ms": "2000"}})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{}
	for _, s := range out.GetSpans() {
		links[s.Name] = ""
		for _, l := range s.Links {
			links[s.Name] += l.SpanContext.TraceID().String()[:1]
			if l.SpanContext.IsSampled() {
				t.Errorf("%s: the caller's sampling came along", s.Name)
			}
		}
	}
	for name, want := range map[string]string{"tools/call list_allowed": "1", "tools/call list_agents": "2", "tools/call agent_status": "", "execute_tool backup": ""} {
		if got, ok := links[name]; !ok || got != want {
			t.Errorf("%s: there %t, links %q, want %q", name, ok, got, want)
		}
	}
}

// Each method of the door has a span with its name, also one that is refused; a client's words are not in it.
func TestOtherMethodsHaveSpans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := tracetest.NewInMemoryExporter()
	tr := tracing.To(keep{out}, "test")
	w.serve(func(o *mcpserver.Options) { o.Tracing = tr })
	agent := w.launch("main")
	h := w.openSession("main")
	h.Set("Traceparent", "00-11111111111111111111111111111111-1111111111111111-01")
	w.speak(h, "", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	w.speak(h, "", `{"jsonrpc":"2.0","id":8,"method":"prompts/list","params":{"_meta":{"traceparent":"00-22222222222222222222222222222222-2222222222222222-00"}}}`)
	w.speak(h, "", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"sesame","arguments":{}}}`)
	w.speak(h, "", `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`)
	bye, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	bye.Header = h
	w.send(bye) // nobody runs this door, which would end the session
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	spans := map[string][]tracetest.SpanStub{}
	for _, s := range out.GetSpans() {
		spans[s.Name] = append(spans[s.Name], s)
	}
	for name, want := range map[string]struct{ failed, link string }{"initialize": {}, "tools/list": {"", "1"}, "prompts/list": {"-32601", "2"}, "tools/call": {"-32602", "1"}} {
		all := spans[name]
		if len(all) != 1 {
			t.Errorf("%s: %d spans, want 1", name, len(all))
			continue
		}
		s, got, link := all[0], map[string]string{}, ""
		for _, a := range s.Attributes {
			got[string(a.Key)] = a.Value.String()
			if strings.Contains(a.Value.String(), "sesame") {
				t.Errorf("%s: the client's word is in %s", name, a.Key)
			}
		}
		for _, l := range s.Links {
			link += l.SpanContext.TraceID().String()[:1]
		}
		if s.SpanKind != trace.SpanKindServer || got["mcp.method.name"] != name || got["gen_ai.agent.id"] != string(agent.ID) || got["error.type"] != want.failed || link != want.link {
			t.Errorf("%s: %s %v, links %q", name, s.SpanKind, got, link)
		}
	}
	if n := len(spans["tools/call list_agents"]); n != 1 {
		t.Errorf("a call of our tool has %d spans at the door, want 1", n)
	}
}
