package mcpserver

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/tracing"
)

// TraceRun sends the span of a run when an event says that it ended, or that its
// turn failed and nothing will complete it; the spans of its tools are below it. It
// sends the span of an action when an event says that a relay ran it.
func TraceRun(t *tracing.Tracing, e bridge.Event) {
	took, err := strconv.ParseInt(e.Fields["duration_ms"], 10, 64)
	if err != nil {
		return
	}
	status, begun := cmp.Or(e.Fields["status"], e.Fields["error"], e.Kind), e.At.Add(-time.Duration(took)*time.Millisecond)
	switch e.Kind {
	case bridge.EventCompleted, bridge.EventTurnFailed:
		t.Run(tracing.Run{Turn: string(e.Turn), Agent: string(e.Agent), Name: e.Name, Status: status, Provider: provider(e), Begun: begun, Ended: e.At,
			Failed: status != string(bridge.RunFinished), After: strings.Fields(e.Fields["after"]), Spent: spent(e)})
	case bridge.EventExecuted:
		if status == string(bridge.ActionExecuted) {
			status = ""
		}
		t.Action(tracing.Action{Turn: string(e.Turn), Agent: string(e.Agent), Name: e.Fields["action"], Kind: status, Begun: begun, Ended: e.At})
	}
}

// spent reads the tokens that the event of a run's end names; nil when it names none.
func spent(e bridge.Event) *tracing.Tokens {
	n := func(key string) int64 {
		tokens, _ := strconv.ParseInt(e.Fields[key], 10, 64) // 0 when it is not there
		return tokens
	}
	if e.Fields["input_tokens"] == "" {
		return nil
	}
	return &tracing.Tokens{Input: n("input_tokens"), Output: n("output_tokens"), CacheWrite: n("cache_write_tokens"), CacheRead: n("cache_read_tokens")}
}

// provider names who ran an agent: the Cloud Agents API gives its agents ids of its own.
func provider(e bridge.Event) string {
	if strings.HasPrefix(e.Fields["external"], "bc-") {
		return "cursor"
	}
	return "drawbridge"
}
