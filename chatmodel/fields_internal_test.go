package chatmodel

import (
	"testing"

	"drawbridge/proof/fields"
)

// TestFieldsThatInform: an answer is the same, whatever form a field has that only informs.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	const choice, call = "choices[].", "choices[].message.tool_calls[]."
	for _, b := range fields.Break(`{"id":"x","object":"chat.completion","created":1,"model":"m","system_fingerprint":"f","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","refusal":null,"reasoning":"r",
		"annotations":[{"type":"u"}],"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"say","arguments":"{}","extra":1}}]},"logprobs":{"content":[]},"finish_reason":"tool_calls","stop_reason":null}],
		"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}},"timings":{"ms":1.5}}`,
		"choices", choice+"message", choice+"message.content", choice+"message.refusal", choice+"message.tool_calls", call+"function", call+"function.name", call+"function.arguments", choice+"finish_reason") {
		if a, err := readAnswer([]byte(b.JSON)); err != nil || a.Text != "Hi" || a.Finish != "tool_calls" || len(a.Calls) != 1 || a.Calls[0].Name != "say" || a.Calls[0].Args != "{}" {
			t.Errorf("%s is %s: %+v, %v", b.Path, b.Form, a, err)
		}
	}
}
