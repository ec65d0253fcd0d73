package passthrough_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"drawbridge/openai/passthrough"
	"drawbridge/openai/upstream"
	"drawbridge/proof/chatsim"
	"drawbridge/proof/fields"
)

// TestFieldsThatInform: whatever form a field has that only informs, the answer stays as it is.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	const choice, call = "choices[].", "choices[].delta.tool_calls[]."
	chunks := []struct {
		json    string
		decides []string
	}{
		{`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","service_tier":"default","obfuscation":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi","refusal":"",
			"annotations":[{"type":"url_citation"}],"audio":{"id":"x"}},"logprobs":{"content":[{"token":"Hi","logprob":-0.1}]},"finish_reason":null}],"usage":{"prompt_tokens":1}}`,
			[]string{"choices", choice + "index", choice + "delta", choice + "delta.content", choice + "finish_reason"}},
		{`{"id":"x","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":"{\"n\":1}","thought_signature":"s"},"extra_content":{"google":{"s":"x"}}}]},"finish_reason":null}]}`,
			[]string{"choices", choice + "index", choice + "delta", choice + "delta.content", choice + "delta.tool_calls", call + "function", call + "function.name", call + "function.arguments", choice + "finish_reason"}},
		{`{"id":"x","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls","native_finish_reason":"STOP","stop_reason":null,"content_filter_results":{"hate":{"filtered":false}}}],"timings":{"ms":1.5},
			"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1},"cost":0.1}}`,
			[]string{"choices", choice + "index", choice + "delta", choice + "finish_reason"}},
	}
	var raw atomic.Value
	_, p := world(t, func(chatsim.Request, int) chatsim.Answer {
		said, _ := raw.Load().(string)
		return chatsim.Answer{Raw: said}
	})
	for broken, c := range chunks {
		for _, b := range fields.Break(c.json, c.decides...) {
			stream := ""
			for n, other := range chunks {
				chunk := fields.Line(other.json)
				if n == broken {
					chunk = b.JSON
				}
				stream += "data: " + chunk + "\n\n"
			}
			raw.Store(stream + "data: [DONE]\n\n")
			said, _, calls, end, err := all(t, p, ask(hello))
			if err != nil || said != "Hi" || len(calls) != 1 || calls[0].Name != "bash" || string(calls[0].Arguments) != `{"n":1}` || end.Finish != "tool_calls" {
				t.Errorf("%s is %s: %q %+v %+v %v", b.Path, b.Form, said, calls, end, err)
			}
		}
	}
}

// TestListsThatInform: a field of a model that only informs costs neither the model nor the list.
func TestListsThatInform(t *testing.T) {
	t.Parallel()
	var list atomic.Value
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list.Load().(string)) }))
	p, err := passthrough.New(passthrough.Options{Name: "sim", URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); web.Close() })
	for _, b := range fields.Break(`{"object":"list","data":[{"id":"a","object":"model","created":1,"owned_by":"me","context_length":8192,"context_window":1,"max_model_len":1,
		"permission":[{"id":"p"}],"meta":{"n_ctx":1}},{"id":"b"}]}`, "data", "data[].id") {
		list.Store(b.JSON)
		if got, err := p.Models(t.Context()); err != nil || len(got) != 2 || got[0].ID != "a" || got[1].ID != "b" {
			t.Errorf("%s is %s: %+v %v", b.Path, b.Form, got, err)
		}
	}
	list.Store(`{"data":[7,{"id":7},{"id":"b","created":"1700000000","context_length":"8192"}]}`)
	if got, err := p.Models(t.Context()); err != nil || len(got) != 1 || got[0].Context != 8192 || got[0].Created.Unix() != 1_700_000_000 {
		t.Errorf("beside entries that cannot be read: %+v %v", got, err)
	}
}

// TestErrorsThatInform: the words of an error decide what it is, whatever form its other fields have.
func TestErrorsThatInform(t *testing.T) {
	t.Parallel()
	for _, b := range fields.Break(`{"error":{"message":"the maximum context length is 8192 tokens","type":"x","param":"messages","code":400},"message":"m","detail":[]}`, "error", "error.message") {
		_, p := world(t, always(chatsim.Answer{Status: 400, Raw: b.JSON}))
		_, err := p.Start(t.Context(), ask(hello))
		var e *upstream.Error
		if !errors.As(err, &e) || e.Code != "context_length_exceeded" {
			t.Errorf("%s is %s: %v", b.Path, b.Form, err)
		}
	}
}
