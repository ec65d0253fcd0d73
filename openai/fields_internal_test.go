package openai

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/proof/fields"
)

// TestFieldsThatInform: a request is read as ever, whatever form a field has that only informs.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	const part, call = "messages[].content[].", "messages[].tool_calls[]."
	const item, inner = "input[].", "input[].content[]."
	d := &Door{}
	for name, c := range map[string]struct {
		json    string
		decides []string
		read    func(string) (*asked, error)
	}{
		"chat": {`{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"temperature":0.2,"top_p":1,"max_tokens":100,"seed":1,"stop":["x"],"user":"me","metadata":{"a":"b"},
			"store":false,"parallel_tool_calls":true,"reasoning_effort":"low","verbosity":"low","prompt_cache_key":"k","service_tier":"auto","logit_bias":{"1":2},"safety_identifier":"s",
			"messages":[{"role":"user","name":"ann","content":[{"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"https://x/1.png","detail":"low"}}]},
			{"role":"assistant","content":null,"refusal":null,"reasoning_content":"r","audio":null,"annotations":[],"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"say","arguments":"{}"},"extra_content":{"a":1}}]},
			{"role":"tool","tool_call_id":"c","name":"say","content":"ok"}],
			"tools":[{"type":"function","function":{"name":"say","description":"d","strict":true,"parameters":{"type":"object"}}}],"tool_choice":"auto"}`,
			[]string{"model", "stream", "messages", "messages[].role", "messages[].content", part + "type", part + "text", part + "image_url", part + "image_url.url",
				"messages[].tool_calls", call + "id", call + "function", call + "function.name", call + "function.arguments", "messages[].tool_call_id",
				"tools", "tools[].type", "tools[].function", "tools[].function.name", "tools[].function.parameters", "tool_choice"},
			func(body string) (*asked, error) { return readChat([]byte(body)) }},
		"responses": {`{"model":"m","stream":true,"store":true,"include":["reasoning.encrypted_content"],"metadata":{"a":"b"},"client_metadata":{"x":"y"},"user":"me","temperature":0.2,"max_output_tokens":9,"truncation":"auto","prompt_cache_key":"k",
			"service_tier":"auto","parallel_tool_calls":true,"reasoning":{"effort":"low","summary":"auto","context":"c"},"text":{"verbosity":"low"},
			"input":[{"type":"message","id":"i","status":"completed","role":"user","content":[{"type":"input_text","text":"Look.","annotations":[]},{"type":"input_image","image_url":"https://x/1.png","detail":"low"}]},
			{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"e"},
			{"type":"function_call","id":"f","status":"completed","call_id":"c","name":"say","arguments":"{}"},{"type":"function_call_output","id":"o","status":"completed","call_id":"c","output":"ok"}],
			"tools":[{"type":"function","name":"say","description":"d","strict":true,"parameters":{"type":"object"}},{"type":"web_search","filters":{"a":1},"user_location":{"b":2}}],"tool_choice":"auto"}`,
			[]string{"model", "stream", "store", "reasoning", "text", "input", item + "type", item + "role", item + "content", inner + "type", inner + "text", inner + "image_url", item + "call_id", item + "name", item + "arguments",
				item + "output", "tools", "tools[].type", "tools[].name", "tools[].parameters", "tool_choice"},
			func(body string) (*asked, error) { return d.readResponses(t.Context(), Token{}, []byte(body)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := func(body string) string {
				a, err := c.read(body)
				if err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%s %t %+v %d %s", a.model, a.stream, a.messages, len(a.tools), a.choice)
			}
			want := read(fields.Line(c.json))
			for _, b := range fields.Break(c.json, c.decides...) {
				if got := read(b.JSON); got != want {
					t.Errorf("%s is %s: %s\nwant %s", b.Path, b.Form, got, want)
				}
			}
		})
	}
}

// TestArgumentsAsObjects: a client may write the arguments of a call as the object itself.
func TestArgumentsAsObjects(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{`"{\"n\":1}"`: `{"n":1}`, `{"n":1}`: `{"n":1}`, `null`: `{}`, `""`: `{}`, `"ls -l"`: `"ls -l"`} {
		a, err := readChat([]byte(`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"say","arguments":` + arguments + `}}]}]}`))
		if err != nil || string(a.messages[0].Calls[0].Arguments) != want {
			t.Errorf("%s: %+v, %v", arguments, a, err)
		}
	}
}

// TestDeveloperIsSystem: the chat completion request that the door makes of a request of /v1/responses has no role that many endpoints refuse.
func TestDeveloperIsSystem(t *testing.T) {
	t.Parallel()
	a, err := (&Door{}).readResponses(t.Context(), Token{}, []byte(`{"model":"m","input":[{"role":"developer","content":"Be quick."},{"role":"user","content":"Go."}]}`))
	if want := `"messages":[{"role":"system","content":"Be quick."},{"role":"user","content":"Go."}]`; err != nil || !strings.Contains(string(a.body), want) {
		t.Errorf("%s, %v; want %s", a.body, err, want)
	}
}
