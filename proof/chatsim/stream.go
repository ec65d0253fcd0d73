package chatsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// stream answers as events: the text word by word, each call in a piece with its id and name and two with its arguments.
func stream(w http.ResponseWriter, q Request, a Answer, n int) {
	var out strings.Builder
	put := func(v map[string]any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&out, "data: %s\n\n", b)
	}
	head := func(choices ...any) map[string]any {
		return map[string]any{"id": fmt.Sprintf("sim-%d", n), "object": "chat.completion.chunk", "created": 1700000000, "model": q.Model, "choices": append([]any{}, choices...)}
	}
	delta := func(d map[string]any, finish any) {
		put(head(map[string]any{"index": 0, "delta": d, "finish_reason": finish}))
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if a.Reasoning != "" {
		delta(map[string]any{"reasoning_content": a.Reasoning}, nil)
	}
	for _, word := range strings.SplitAfter(a.Text, " ") {
		delta(map[string]any{"content": word}, nil)
	}
	for i, f := range a.Calls {
		at := len(f.Arguments) / 2
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("call_%d", i), "type": "function", "function": map[string]any{"name": f.Name, "arguments": ""}}}}, nil)
		for _, piece := range []string{f.Arguments[:at], f.Arguments[at:]} {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}}, nil)
		}
	}
	for _, last := range ending(q, a) {
		if choices, ok := last["choices"].([]any); ok {
			maps.Copy(last, head(choices...))
		}
		put(last)
	}
	text := out.String()
	if a.Fail == "" {
		text += "data: [DONE]\n\n"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if a.Cut > 0 && a.Cut < len(text) {
		_, _ = w.Write([]byte(text[:a.Cut]))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write([]byte(text))
}

// ending is how the answer ends, or what failed.
func ending(q Request, a Answer) []map[string]any {
	if a.Fail != "" {
		return []map[string]any{{"error": map[string]any{"message": a.Fail}}}
	}
	finish := "stop"
	if len(a.Calls) > 0 {
		finish = "tool_calls"
	}
	if a.Finish != "" {
		finish = a.Finish
	}
	out := []map[string]any{{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}}}}
	if q.Options != nil && q.Options.Usage {
		out = append(out, map[string]any{"choices": []any{}, "usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12,
			"prompt_tokens_details": map[string]any{"cached_tokens": 4}, "completion_tokens_details": map[string]any{"reasoning_tokens": 1}}})
	}
	return out
}
