package cursor_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/openai/cursor/wire"
)

const hello = `
turns:
  - match: echo hello
    steps:
      - thinking: "I need the shell. "
      - text: "I run it. "
      - calls: [{ name: bash, args: { command: echo hello } }]
      - text: "It said: {{.Result}}"
  - match: Say hello
    steps: [{ text: "Hello " }, { text: world }]
  - steps: [{ text: "turn says {{.Text}}" }]
`

// TestText: an answer without tools, whole and as a stream, with what it used.
func TestText(t *testing.T) {
	playBoth(t, hello, func(t *testing.T, w *world) {
		body := map[string]any{"model": "gpt-4o", "messages": []message{user("Say hello")}}
		a := w.post("/v1/chat/completions", body)
		w.expect(a, "stop", "Hello world")
		if a.Usage == nil || a.Usage.Prompt != 225 || a.Usage.Completion != 34 {
			t.Errorf("usage %+v", a.Usage)
		}
		body["stream"] = true
		if s := w.post("/v1/chat/completions", body); !strings.Contains(s.Body, `"content":"Hello "`) || !strings.Contains(s.Body, `"finish_reason":"stop"`) || !strings.HasSuffix(strings.TrimSpace(s.Body), "[DONE]") {
			t.Error(s.Body)
		}
		m := w.sim.Requests()[0]
		if words := m.GetAction().GetUserMessageAction().GetUserMessage(); words.GetText() != "Say hello" || words.GetMode() != wire.AgentMode_AGENT_MODE_ASK || m.GetMcpTools() != nil {
			t.Errorf("without tools: %v", m)
		}
		if m.ConversationState == nil || len(m.ConversationState) != 0 || m.GetRequestedModel().GetModelId() != "gpt-4o" || m.GetRunId() == "" {
			t.Errorf("the run request is %v", m)
		}
	})
}

// TestTool: a call goes to the caller, its result goes back into the same run, and the text behind it arrives.
func TestTool(t *testing.T) {
	playBoth(t, hello, func(t *testing.T, w *world) {
		first := w.ask(user("Use the bash tool to run: echo hello"))
		w.expect(first, "tool_calls", "I run it. ", `bash {"command":"echo hello"}`)
		if think := first.Choices[0].Message.Reasoning; think != "I need the shell. " {
			t.Errorf("reasoning %q", think)
		}
		id := first.calls()[0].ID
		w.expect(w.ask(user("Use the bash tool to run: echo hello"), first.says(), result(id, "hello")), "stop", "It said: hello")
		if n := len(w.sim.Requests()); n != 1 {
			t.Errorf("%d runs", n)
		}
		if !strings.Contains(w.said.String(), `"fields":"field1.field1.field1"`) || strings.Contains(w.said.String(), "echo hello") {
			t.Errorf("the log: %s", &w.said)
		}
	})
}

// TestToolResults: the seed's own call takes the result, and says so where it is the second or nobody knows it.
func TestToolResults(t *testing.T) {
	play(t, hello, func(t *testing.T, w *world) {
		first := w.ask(user("Use the bash tool to run: echo hello"))
		answer := map[string]any{"tool_call_id": first.calls()[0].ID, "content": "no such program", "is_error": true, "stream": false}
		w.expect(w.post("/v1/tool_results", answer), "stop", "It said: error: no such program")
		if again := w.post("/v1/tool_results", answer); again.Status != 422 || again.Error.Code != "already_answered" {
			t.Errorf("a second result: %d %s", again.Status, again.Body)
		}
		answer["tool_call_id"] = "call_nobody"
		if unknown := w.post("/v1/tool_results", answer); unknown.Status != 422 || unknown.Error.Code != "unknown_tool_call" {
			t.Errorf("an unknown call: %d %s", unknown.Status, unknown.Body)
		}
	})
}

// TestParallel: calls that come together leave together, whether they were announced or not. A request that comes twice is asked once, and a tool that
// was not offered is answered without the caller.
func TestParallel(t *testing.T) {
	for name, listed := range map[string]string{"announced": "true", "not announced": "false"} {
		t.Run(name, func(t *testing.T) {
			play(t, `
turns:
  - steps:
      - calls: [{ name: nope }]
      - text: "{{.Result}} "
      - { listed: `+listed+`, calls: [{ name: bash, args: { command: a }, twice: true }, { name: bash, args: { command: b, n: 2 } }] }
      - text: "{{.Result}}"
`, func(t *testing.T, w *world) {
				first := w.ask(user("go"))
				w.expect(first, "tool_calls", "not found: nope ", `bash {"command":"a"}`, `bash {"command":"b","n":2}`)
				if len(first.calls()) != 2 {
					t.Fatal("no calls")
				}
				pic := message{"role": "tool", "tool_call_id": first.calls()[1].ID, "content": []any{message{"type": "text", "text": "B"}, message{"type": "image_url", "image_url": message{"url": "data:image/png;base64,AAAA"}}}}
				w.expect(w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A"), pic), "stop", "A\nB (image/png, 3 bytes)")
			})
		})
	}
}

// TestLater: a call that comes while the caller works follows when the results of the others are there. One that the service withdraws by then is never
// shown.
func TestLater(t *testing.T) {
	for name, tt := range map[string]struct{ abort, result string }{"stays": {"false", "A\nB"}, "is withdrawn": {"true", "A\nerror: the call was aborted"}} {
		t.Run(name, func(t *testing.T) {
			play(t, "turns: [{ steps: [{ calls: [{ name: bash, args: { command: a } }, { name: bash, args: { command: b }, after: 1s, abort: "+tt.abort+" }] }, { text: \"{{.Result}}\" }] }]\n", func(t *testing.T, w *world) {
				first := w.ask(user("go"))
				w.expect(first, "tool_calls", "", `bash {"command":"a"}`)
				w.pass(2 * time.Second)
				talk := []message{user("go"), first.says(), result(first.calls()[0].ID, "A")}
				next := w.ask(talk...)
				if tt.abort == "false" {
					w.expect(next, "tool_calls", "", `bash {"command":"b"}`)
					next = w.ask(append(talk, next.says(), result(next.calls()[0].ID, "B"))...)
				}
				w.expect(next, "stop", tt.result)
			})
		})
	}
}

// TestParked: a turn is held while the caller works for minutes, and both sides say that they live.
func TestParked(t *testing.T) {
	playBoth(t, hello, func(t *testing.T, w *world) {
		first := w.ask(user("echo hello"))
		w.pass(6 * time.Minute)
		w.expect(w.ask(user("echo hello"), first.says(), result(first.calls()[0].ID, "late")), "stop", "It said: late")
		if beats := strings.Count(w.log.String(), `"client_heartbeat"`); beats < 70 {
			t.Errorf("%d heartbeats", beats)
		}
		if beats := strings.Count(w.log.String(), `"heartbeat":{"id"`); beats < 115 {
			t.Errorf("%d heartbeats of the call", beats)
		}
	})
}

// TestConversation: the next turn goes on from the service's own state, and says only what is new. Blobs come back, also after a restart. A changed
// history begins a new conversation with all of it.
func TestConversation(t *testing.T) {
	playBoth(t, hello, func(t *testing.T, w *world) {
		system := message{"role": "system", "content": "Be brief."}
		one := w.ask(system, user("one"))
		w.expect(one, "stop", "turn says <system>\nBe brief.\n</system>\n\none")
		w.stop()
		w.start()
		two := w.ask(system, user("one"), one.says(), user("two"))
		w.expect(two, "stop", "turn says two")
		w.expect(w.ask(system, user("one"), one.says(), user("two"), two.says(), user("three")), "stop", "turn says three")
		changed := w.ask(system, user("one"), message{"role": "assistant", "content": "something else"}, user("four"))
		if text := changed.text(); !strings.Contains(text, "[user]\none\n[assistant]\nsomething else\n</conversation>\n\nfour") {
			t.Errorf("a changed history: %q", text)
		}
		all := w.sim.Requests()
		if len(all) != 4 || all[0].GetConversationId() != all[2].GetConversationId() || all[3].GetConversationId() == all[0].GetConversationId() {
			t.Errorf("conversations of %d runs: %v", len(all), all)
		}
	})
}

// TestRestart: results that come after the run is gone begin a new turn with the whole conversation, and nothing is asked twice.
func TestRestart(t *testing.T) {
	playBoth(t, `
turns:
  - match: (calls bash
    steps: [{ text: "read on: {{.Text}}" }]
  - match: echo hello
    steps: [{ calls: [{ name: bash, args: { command: echo hello } }] }]
`, func(t *testing.T, w *world) {
		first := w.ask(user("echo hello"))
		w.stop()
		w.start()
		id := first.calls()[0].ID
		second := w.ask(user("echo hello"), first.says(), result(id, "hello"))
		if !strings.Contains(second.text(), "[user]\necho hello\n[assistant]\n(calls bash "+id+` with {"command":"echo hello"})`+"\n[tool "+id+"]\nhello\n</conversation>") || second.finish() != "stop" {
			t.Errorf("%d %s", second.Status, second.Body)
		}
		w.stop()
		w.start()
		late := w.post("/v1/tool_results", map[string]any{"tool_call_id": id, "content": "x"})
		if late.Status != 422 || late.Error.Code != "too_late" {
			t.Errorf("a result for the run that is gone: %d %s", late.Status, late.Body)
		}
	})
}

// TestPictures: images of the user are sent with their data.
func TestPictures(t *testing.T) {
	play(t, hello, func(t *testing.T, w *world) {
		w.expect(w.ask(message{"role": "user", "content": []any{message{"type": "text", "text": "look"}, message{"type": "image_url", "image_url": message{"url": "data:image/png;base64,AAAA"}}}}), "stop", "turn says look")
		images := w.sim.Requests()[0].GetAction().GetUserMessageAction().GetUserMessage().GetSelectedContext().GetSelectedImages()
		if len(images) != 1 || images[0].GetMimeType() != "image/png" || len(images[0].GetData()) != 3 {
			t.Errorf("%v", images)
		}
	})
}
