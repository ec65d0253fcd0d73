package acp_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/proof/fields"
	"drawbridge/relay/agents/acp"
)

// TestFieldsThatInform: a turn is begun, asked about and answered as ever, whatever form a field has that only informs. Each message is broken in
// turn, in each field.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	update := func(u string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","_meta":{"a":1},"update":` + u + `}}`
	}
	envelope := []string{"method", "params", "params.sessionId", "params.update", "params.update.sessionUpdate"}
	messages := []struct {
		json    string
		decides []string
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true},"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"resume":{},"list":{}},"auth":{"logout":{}}},
			"agentInfo":{"name":"fake","title":"Fake","version":"7"},"authMethods":[{"id":"login","name":"Log in","description":"d","type":"terminal","args":["x"]}],"_meta":{"a":1}}}`,
			[]string{"id", "result", "result.protocolVersion"}},
		{`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask","description":"d"}]},"models":{"currentModelId":"m","availableModels":[{"modelId":"m","name":"M"}]},
			"configOptions":[{"id":"model","category":"model","type":"select","name":"Model","currentValue":"m","options":[{"value":"m","name":"M"}]}],"_meta":{"a":1}}}`,
			[]string{"id", "result", "result.sessionId", "result.modes", "result.modes.currentModeId", "result.modes.availableModes", "result.modes.availableModes[].id",
				"result.configOptions", "result.configOptions[].id", "result.configOptions[].category"}},
		{update(`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"n","description":"d","input":{"hint":"h"}}]}`), envelope},
		{update(`{"sessionUpdate":"agent_thought_chunk","messageId":"t","content":{"type":"text","text":"Hm"}}`), envelope},
		{update(`{"sessionUpdate":"plan","entries":[{"content":"c","priority":"high","status":"pending"}]}`), envelope},
		{update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"ls","kind":"execute","status":"pending","content":[{"type":"content","content":{"type":"text","text":"x"}}],"locations":[{"path":"/a","line":1}],"rawInput":{"command":"ls"}}`), envelope},
		{`{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","title":"Run","kind":"execute","status":"pending","content":[],"rawInput":{"command":"ls"},"locations":[{"path":"/work/a","line":1}]},
			"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}],"_meta":{"a":1}}}`,
			[]string{"id", "method", "params", "params.sessionId", "params.toolCall", "params.toolCall.kind", "params.toolCall.rawInput", "params.toolCall.rawInput.command", "params.toolCall.locations", "params.toolCall.locations[].path",
				"params.options", "params.options[].optionId", "params.options[].kind"}},
		{update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","title":"ls","kind":"execute","status":"completed","content":[],"rawOutput":{"exit":0}}`), envelope},
		{update(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.1,"currency":"USD"}}`), envelope},
		{update(`{"sessionUpdate":"session_info_update","title":"T","updatedAt":"2026-01-01T00:00:00Z"}`), envelope},
		{update(`{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"Done.","annotations":{"audience":["user"]},"_meta":{"a":1}}}`),
			append(slices.Clone(envelope), "params.update.content", "params.update.content.type", "params.update.content.text")},
		{`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":7,"totalTokens":12,"cachedReadTokens":3},"userMessageId":"u","_meta":{"a":1}}}`, []string{"id", "result", "result.stopReason"}},
	}
	for broken, m := range messages {
		for _, b := range fields.Break(m.json, m.decides...) {
			said := func(n int, id string) string {
				text := fields.Line(messages[n].json)
				if n == broken {
					text = b.JSON
				}
				if id != "" { // the driver's own
					text = strings.Replace(text, fmt.Sprintf(`"id":%d`, map[int]int{0: 1, 1: 2, len(messages) - 1: 3}[n]), `"id":`+id, 1)
				}
				return text + "\n"
			}
			asked := 0
			play(t, acp.Options{Ask: func(context.Context, acp.Question) acp.Reply { asked++; return acp.Allow }}, func(f *fake) {
				f.write(said(0, string(f.want("initialize").ID)))
				f.write(said(1, string(f.want("session/new").ID)))
				p := f.want("session/prompt")
				for n := 2; n < len(messages)-1; n++ {
					f.write(said(n, ""))
					if strings.Contains(messages[n].json, "request_permission") {
						f.hear()
					}
				}
				f.write(said(len(messages)-1, string(p.ID)))
			}, func(ctx context.Context, c *acp.Conn) {
				ctx, done := context.WithTimeout(ctx, time.Hour)
				defer done()
				if _, err := c.Initialize(ctx); err != nil {
					t.Errorf("initialize: %s is %s: %v", b.Path, b.Form, err)
					return
				}
				s, err := c.NewSession(ctx, acp.Start{Dir: "/work"})
				if err != nil {
					t.Errorf("session/new: %s is %s: %v", b.Path, b.Form, err)
					return
				}
				if a, err := s.Prompt(ctx, "Go."); err != nil || a.Text() != "Done." || asked != 1 {
					t.Errorf("message %d: %s is %s: %q, asked %d times, %v", broken, b.Path, b.Form, a.Text(), asked, err)
				}
			})
		}
	}
}
