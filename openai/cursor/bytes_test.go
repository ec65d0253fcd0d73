package cursor_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// shape is the set of paths of fields in a message, without what a tool's schema holds and without values.
func shape(v any, at string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			path := at + "/" + key
			into[path] = true
			if key != "input_schema" {
				shape(inner, path, into)
			}
		}
	case []any:
		for _, inner := range v {
			shape(inner, at, into)
		}
	}
}

// TestBytes compares what this client sends with bytes of the vendor's own: it sends no field at a place where that one has none.
func TestBytes(t *testing.T) {
	raw, err := os.ReadFile("wire/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Messages []struct {
			Type string
			JSON map[string]any
		}
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range vectors.Messages {
		if m.Type == "agent.v1.AgentClientMessage" {
			shape(m.JSON, "", known)
		}
	}
	play(t, `
turns:
  - match: look
    steps: [{ text: seen }]
  - match: ask
    steps:
      - query: create_plan_request_query
      - query: mcp_auth_request_query
      - raw: "120508329a0600"
      - calls: [{ name: nope }]
      - calls: [{ name: bash, args: { command: a } }, { name: bash, args: { command: b } }]
      - { text: on }
`, func(t *testing.T, w *world) {
		picture := message{"type": "image_url", "image_url": message{"url": "data:image/png;base64,AAAA"}}
		w.expect(w.ask(message{"role": "user", "content": []any{message{"type": "text", "text": "look"}, picture}}), "stop", "seen")
		first := w.ask(user("ask"))
		w.pass(10 * time.Second)
		pic := message{"role": "tool", "tool_call_id": first.calls()[1].ID, "content": []any{message{"type": "text", "text": "B"}, picture}}
		w.expect(w.ask(user("ask"), first.says(), result(first.calls()[0].ID, "A"), pic), "stop", "on")
		sent := 0
		for line := range strings.Lines(w.log.String()) {
			var e struct {
				From    string
				Message map[string]any
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if e.From != "client" {
				continue
			}
			sent++
			ours := map[string]bool{}
			shape(e.Message, "", ours)
			for path := range ours {
				if !known[path] && !strings.Contains(path, "tool_not_found") { // read from the tables of that client alone
					t.Errorf("the vendor's client sends no %s", path)
				}
			}
		}
		if sent < 20 {
			t.Errorf("only %d messages", sent)
		}
	})
}
