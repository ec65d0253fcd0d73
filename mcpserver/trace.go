package mcpserver

import (
	"cmp"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/tracing"
)

// TraceRun sends the span of a run when an event says that it ended, or that its
// turn failed and nothing will complete it; the spans of its tools are below it.
func TraceRun(t *tracing.Tracing, e bridge.Event) {
	took, err := strconv.ParseInt(e.Fields["duration_ms"], 10, 64)
	if (e.Kind != bridge.EventCompleted && e.Kind != bridge.EventTurnFailed) || err != nil {
		return
	}
	status := cmp.Or(e.Fields["status"], e.Kind)
	t.Run(tracing.Run{Turn: string(e.Turn), Agent: string(e.Agent), Status: status, Begun: e.At.Add(-time.Duration(took) * time.Millisecond),
		Ended: e.At, Failed: status != string(bridge.RunFinished)})
}
