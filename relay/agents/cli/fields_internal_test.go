package cli

import (
	"strings"
	"testing"

	"drawbridge/proof/fields"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/runner/settings"
)

// TestFieldsThatInform: a program's answer is the same, whatever form a field of its events has that only informs.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	type event struct {
		json    string
		decides []string
	}
	for name, events := range map[string][]event{
		settings.FormatClaudeStream: {
			{`{"type":"system","subtype":"init","session_id":"s","cwd":"/x","tools":["Bash"],"mcp_servers":[{"name":"d","status":"connected"}],"model":"m","apiKeySource":"none","uuid":"u"}`, []string{"type", "session_id"}},
			{`{"type":"assistant","session_id":"s","parent_tool_use_id":null,"uuid":"u","message":{"id":"m","model":"m","role":"assistant","stop_reason":null,"usage":{"input_tokens":1},"content":[{"type":"text","text":"Do"},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}`,
				[]string{"type", "message", "message.content", "message.content[].type", "parent_tool_use_id"}},
			{`{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x","is_error":false}]},"tool_use_result":{"stdout":"x"}}`, []string{"type"}},
			{`{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"num_turns":2,"result":"Done.","stop_reason":"end_turn","session_id":"s","total_cost_usd":0.1,"api_error_status":null,"errors":[],
				"usage":{"input_tokens":5,"output_tokens":7,"cache_read_input_tokens":1,"cache_creation_input_tokens":1},"modelUsage":{"m":{"inputTokens":1}},"permission_denials":[],"uuid":"u"}`,
				[]string{"type", "subtype", "is_error", "result"}},
		},
		settings.FormatCodex: {
			{`{"type":"thread.started","thread_id":"s"}`, []string{"type", "thread_id"}},
			{`{"type":"turn.started","turn_id":"t"}`, []string{"type"}},
			{`{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls","status":"in_progress","aggregated_output":""}}`, []string{"type"}},
			{`{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","status":"completed","exit_code":0,"text":"x"}}`, []string{"type", "item.type"}},
			{`{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"Done.","citations":[]}}`, []string{"type", "item", "item.type", "item.text"}},
			{`{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":1,"output_tokens":7},"message":"x","error":{"message":"m"}}`, []string{"type"}},
		},
		settings.FormatCursorStream: {
			{`{"type":"system","subtype":"init","session_id":"s","model":"m","permissionMode":"default"}`, []string{"type", "session_id"}},
			{`{"type":"tool_call","subtype":"started","call_id":"c","session_id":"s","tool_call":{"readToolCall":{"args":{"path":"x"}}}}`, []string{"type", "subtype"}},
			{`{"type":"tool_call","subtype":"completed","call_id":"c","session_id":"s","tool_call":{"readToolCall":{"result":{"success":{}}}}}`, []string{"type", "subtype"}},
			{`{"type":"assistant","session_id":"s","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}`, []string{"type", "message", "message.content", "message.content[].type", "message.content[].text"}},
			{`{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"duration_api_ms":1,"result":"Done.","session_id":"s","request_id":"r","usage":{"inputTokens":5,"outputTokens":7,"cacheReadTokens":1,"cacheWriteTokens":0}}`,
				[]string{"type", "subtype", "is_error", "result"}},
		},
	} {
		for broken, e := range events {
			for _, b := range fields.Break(e.json, e.decides...) {
				named, killed := "", false
				r := newReader(name, readerOptions{hide: func(s string) string { return s }, stir: func(bool) {}, kill: func() { killed = true }, named: func(id string) error { named = id; return nil }})
				for n, other := range events {
					line := fields.Line(other.json)
					if n == broken {
						line = b.JSON
					}
					if _, err := r.Write([]byte(line + "\n")); err != nil {
						t.Fatal(err)
					}
				}
				r.close()
				if out := r.outcome(host.OnceEnd{Ran: true}); !out.answered || out.text != "Done." || out.failed != nil || out.broke != nil || named != "s" || killed {
					t.Errorf("%s, event %d: %s is %s: %+v, session %q, killed %t", name, broken, b.Path, b.Form, out, named, killed)
				}
			}
		}
	}
}

// TestNoise: what is no event is counted, also beside one.
func TestNoise(t *testing.T) {
	t.Parallel()
	r := newReader(settings.FormatCodex, readerOptions{hide: func(s string) string { return s }, stir: func(bool) {}, kill: func() {}, named: func(string) error { return nil }})
	for _, line := range []string{"a banner", "\x1b[0m" + `{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}`, `[log] {"x":1} {"type":"item.completed","item":{"type":"agent_message","text":"Really."}}{"type":"turn.completed"}`} {
		_, _ = r.Write([]byte(line + "\n"))
	}
	r.close()
	if out := r.outcome(host.OnceEnd{Ran: true}); out.text != "Really." || !out.answered || out.noise != (agents.Noise{Lines: 3, First: "a banner"}) || out.garbage != "a banner" {
		t.Errorf("%+v", out)
	}
}

// TestUsageOnlyInforms: usage in another form is unknown, not zero.
func TestUsageOnlyInforms(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int{`{"in":5,"out":7,"read":2,"made":1}`: 8, `{"in":5.0,"out":7}`: 5, `{"in":"5","out":7,"read":{}}`: 5, `{"in":null,"out":7}`: -1, `{"out":7}`: -1, `"5"`: -1, `null`: -1, ``: -1} {
		got := -1
		if n := tokens([]byte(raw), "in", "out", "read", "made"); n != nil {
			got = int(n.Input + n.CacheRead + n.CacheWrite)
		}
		if got != want {
			t.Errorf("%s: %d, want %d", raw, got, want)
		}
	}
}

// TestEnds: which ends of a program count as an answer, and what it says behind its end belongs to the turn.
func TestEnds(t *testing.T) {
	t.Parallel()
	assistant := func(text string) string {
		return `{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"` + text + `"}]}}`
	}
	result := func(fields string) string {
		return `{"type":"result","subtype":"success","result":"Half.",` + fields + `}`
	}
	const message, piece = `{"type":"item.completed","item":{"type":"agent_message","text":"`, `{"type":"assistant","timestamp_ms":1,"message":{"content":[{"type":"text","text":"`
	for name, c := range map[string]struct {
		format   string
		lines    []string
		answered bool
		text     string
	}{
		"claude":                  {settings.FormatClaudeStream, []string{assistant("Half."), result(`"is_error":false,"stop_reason":"end_turn"`)}, true, "Half."},
		"claude, tokens":          {settings.FormatClaudeStream, []string{result(`"is_error":false,"stop_reason":"max_tokens"`)}, false, ""},
		"claude, window":          {settings.FormatClaudeStream, []string{result(`"is_error":false,"stop_reason":"model_context_window_exceeded"`)}, false, ""},
		"claude, unreadable":      {settings.FormatClaudeStream, []string{result(`"is_error":"true"`)}, false, ""},
		"claude, without a word":  {settings.FormatClaudeStream, []string{result(`"is_error":null`)}, true, "Half."},
		"claude, words behind it": {settings.FormatClaudeStream, []string{result(`"is_error":false`), assistant("Saved.")}, true, "Half.\nSaved."},
		"claude, an id of another form": {settings.FormatClaudeStream, []string{
			`{"type":"assistant","message":{"content":[{"type":"text","id":7,"text":"Half."}]}}`, `{"type":"result","subtype":"error"}`}, false, "Half."},
		"codex, words behind it": {settings.FormatCodex, []string{message + `First."}}`, message + `Done."}}`, `{"type":"turn.completed"}`, message + `Saved."}}`}, true, "Done.\nSaved."},
		"cursor, unreadable":     {settings.FormatCursorStream, []string{assistant("Half."), result(`"is_error":1`)}, false, "Half."},
		"cursor, half a character": {settings.FormatCursorStream, []string{
			piece + `hi \ud83d"}]}}`, piece + `\ude00!"}]}}`, assistant("hi 😀!"), result(`"is_error":false`)}, true, "hi 😀!"},
	} {
		r := newReader(c.format, readerOptions{hide: func(s string) string { return s }, stir: func(bool) {}, kill: func() {}, named: func(string) error { return nil }})
		_, _ = r.Write([]byte(strings.Join(c.lines, "\n") + "\n"))
		r.close()
		if out := r.outcome(host.OnceEnd{Ran: true}); out.answered != c.answered || out.text != c.text || (out.failed == nil) != c.answered {
			t.Errorf("%s: %+v", name, out)
		}
	}
}
