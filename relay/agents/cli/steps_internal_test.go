package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"drawbridge/relay/agents"
	"drawbridge/relay/runner/settings"
)

// TestSteps: people who watch see each message and each tool of a turn, with what it is used on, and which tools failed. The words of the last message
// come after the tools.
func TestSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written string
		want    []string
	}{
		settings.FormatClaudeStream: {`
			{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"I look.\nThen I test."},{"type":"tool_use","id":"a","name":"Bash","input":{"command":"go test ./...\necho x"}}]}}
			{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","tool_use_id":"a","content":"x","is_error":true}]}}
			{"type":"assistant","session_id":"s","parent_tool_use_id":"a","message":{"content":[{"type":"text","text":"a subagent's"},{"type":"tool_use","id":"b","name":"Read","input":{"file_path":"/w/a.go"}}]}}
			{"type":"assistant","session_id":"s","message":{"content":[{"type":"tool_use","id":"c","name":"mcp__drawbridge__launch_agent","input":{"repo":"x"}},{"type":"tool_use","id":"d","name":7,"input":[]}]}}
			{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"Done."}]}}
			{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}`,
			[]string{"says  I look.", "says  Then I test.", "uses execute go test ./... ...", "fails execute go test ./... ...", "uses read /w/a.go", "uses mcp__drawbridge__launch_agent ", "says  Done."}},
		settings.FormatCodex: {`
			{"type":"thread.started","thread_id":"s"}
			{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls","status":"in_progress"}}
			{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","status":"failed","exit_code":1}}
			{"type":"item.completed","item":{"id":"k","type":"file_change","status":"completed","changes":[{"path":"a.go","kind":"add"},{"path":"b.go","kind":"update"}]}}
			{"type":"item.started","item":{"id":"m","type":"mcp_tool_call","server":"drawbridge","tool":"send_message","arguments":{"to":"x"},"status":"in_progress"}}
			{"type":"item.completed","item":{"id":"r","type":"reasoning","text":"hm"}}
			{"type":"item.started","item":{"id":"q","type":"web_search","query":""}}
			{"type":"item.completed","item":{"id":"q","type":"web_search","query":"acp"}}
			{"type":"item.completed","item":{"id":"j","type":"agent_message","text":"Done."}}
			{"type":"turn.completed"}`,
			[]string{"uses execute ls", "fails execute ls", "uses edit a.go b.go", "uses send_message ", "uses fetch acp", "says  Done."}},
		settings.FormatCursorStream: {`
			{"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"readToolCall":{"args":{"path":"x"}}}}
			{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"readToolCall":{"args":{"path":"x"},"result":{"error":{"message":"no"}}}}}
			{"type":"assistant","timestamp_ms":1,"message":{"content":[{"type":"text","text":"Do"}]}}
			{"type":"assistant","timestamp_ms":2,"message":{"content":[{"type":"text","text":"ne."}]}}
			{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}
			{"type":"result","subtype":"success","is_error":false,"result":"Done."}`,
			[]string{"uses read x", "fails read x", "says  Done."}},
		settings.FormatText: {"\x1b[1mI look.\x1b[0m\n\nDone.", []string{"says  I look.", "says  Done."}},
	} {
		var did []string
		r := newReader(name, readerOptions{
			hide: func(s string) string { return s }, stir: func(bool) {}, kill: func() {}, named: func(string) error { return nil },
			tell: func(s agents.Step) { did = append(did, fmt.Sprintf("%s %s %s", s.Kind, s.Tool, s.Text)) },
		})
		for piece := range slices.Chunk([]byte(strings.TrimSpace(c.written)), 7) {
			_, _ = r.Write(piece)
		}
		r.close()
		if !slices.Equal(did, c.want) {
			t.Errorf("%s: %q, want %q", name, did, c.want)
		}
	}
}
