// Package completions reads what chat completions endpoints really send. It knows fields and words, and no HTTP. Rule of thumb: a field that
// only informs reads as absent where its form is wrong, and only a known word is an end.
package completions

import (
	"encoding/json"
	"strings"

	"drawbridge/internal/loosejson"
)

// Usage counts tokens; nil is unknown.
type Usage struct {
	Prompt, Completion, Total *int64
	Cached, Reasoning         *int64
}

// Sum is all tokens of a turn, 0 where nobody knows.
func (u Usage) Sum() (n int64) {
	if u.Total != nil {
		return *u.Total
	}
	for _, part := range []*int64{u.Prompt, u.Completion} {
		if part != nil {
			n += *part
		}
	}
	return n
}

// ReadUsage reads the field usage; nil where it says nothing.
func ReadUsage(raw json.RawMessage) *Usage {
	u, _ := loosejson.Object(raw)
	in, _ := loosejson.Object(u["prompt_tokens_details"])
	out, _ := loosejson.Object(u["completion_tokens_details"])
	c := Usage{Prompt: loosejson.Number(u["prompt_tokens"]), Completion: loosejson.Number(u["completion_tokens"]), Total: loosejson.Number(u["total_tokens"]),
		Cached: loosejson.Number(in["cached_tokens"]), Reasoning: loosejson.Number(out["reasoning_tokens"])}
	if c == (Usage{}) {
		return nil
	}
	return &c
}

// Finish is the API's word for the end of a whole answer (stop, length, tool_calls or content_filter), or "" where the endpoint's word is
// not known or missing: then nobody vouched for the end, and the answer may not be all.
func Finish(word string) string {
	word, _, _ = strings.Cut(word, ":") // Gemini says why behind a colon
	return finishes[strings.ToLower(strings.TrimSpace(word))]
}

// finishes are the words of endpoints (docs/reference/openai-door.md lists them), in lower case.
var finishes = map[string]string{
	"stop": "stop", "eos": "stop", "eos_token": "stop", "end_turn": "stop", "stop_sequence": "stop", "complete": "stop",
	"length": "length", "max_tokens": "length", "model_length": "length", "model_context_window_exceeded": "length",
	"tool_calls": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
	"content_filter": "content_filter", "safety": "content_filter", "recitation": "content_filter", "prohibited_content": "content_filter", "sensitive": "content_filter",
	"refusal": "content_filter",
}
