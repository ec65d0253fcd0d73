package feed

import (
	"strconv"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// The reply comes in pieces of at least pieceLength runes and in at most maxPieces pieces.
const (
	pieceLength = 24
	maxPieces   = 64
)

type text struct {
	Text string `json:"text"`
}

type textUpdate struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolCall struct {
	CallID string         `json:"callId"`
	Name   string         `json:"name"`
	Status string         `json:"status"`
	Args   map[string]any `json:"args,omitempty"`
	Result any            `json:"result,omitempty"`
}

// Turn is what a run shows while it is RUNNING: thoughts, tool calls, then the reply in pieces.
func Turn(t script.Turn, reply string) []Step {
	var out []Step
	if t.Thinking != "" {
		out = append(out,
			Step{Event: "thinking", Data: text{t.Thinking}, Update: textUpdate{"thinking-delta", t.Thinking}},
			Step{Update: map[string]any{"type": "thinking-completed", "thinkingDurationMs": 0}})
	}
	for i, tool := range t.Tools {
		out = append(out, call(tool, "call-"+strconv.Itoa(i+1))...)
	}
	for _, piece := range pieces(reply) {
		out = append(out, Step{Event: "assistant", Data: text{piece}, Update: textUpdate{"text-delta", piece}})
	}
	return out
}

func call(t script.Tool, id string) []Step {
	args := t.Args
	if args == nil {
		args = map[string]any{} // the vendor's client drops an update whose arguments are null
	}
	update := func(kind string, result map[string]any) map[string]any {
		// The vendor's client knows a fixed set of tool types; mcp is the one that may carry any name.
		c := map[string]any{"type": "mcp", "args": map[string]any{"toolName": t.Name, "args": args}}
		if result != nil {
			c["result"] = result
		}
		return map[string]any{"type": kind, "callId": id, "modelCallId": "model-" + id, "toolCall": c}
	}
	out := []Step{{Event: "tool_call", Data: toolCall{id, t.Name, "running", t.Args, nil}, Update: update("tool-call-started", nil)}}
	if t.Unfinished {
		return out
	}
	shown := map[string]any{"status": "success", "value": map[string]any{
		"content": []any{map[string]any{"text": text{request.Compact(t.Result)}}}, "isError": false,
	}}
	return append(out, Step{
		Event: "tool_call", Data: toolCall{id, t.Name, "completed", t.Args, t.Result}, Update: update("tool-call-completed", shown),
	})
}

func pieces(reply string) []string {
	runes := []rune(reply)
	size := max(pieceLength, (len(runes)+maxPieces-1)/maxPieces)
	var out []string
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}
