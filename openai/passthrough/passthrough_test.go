package passthrough_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drawbridge/openai/passthrough"
	"drawbridge/openai/upstream"
	"drawbridge/proof/chatsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-secret-0123456789"

// world is an endpoint and the backend in front of it.
func world(t *testing.T, answer func(chatsim.Request, int) chatsim.Answer, change ...func(*passthrough.Options)) (*chatsim.Server, *passthrough.Endpoint) {
	t.Helper()
	sim := &chatsim.Server{Key: key, Streams: true, Answer: answer}
	web := httptest.NewServer(sim)
	o := passthrough.Options{Name: "sim", URL: web.URL + "/v1", Key: key, Models: map[string]passthrough.Model{"m": {Model: "qwen3:8b", Context: 40960}}}
	for _, c := range change {
		c(&o)
	}
	p, err := passthrough.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); web.Close() })
	return sim, p
}

func always(a chatsim.Answer) func(chatsim.Request, int) chatsim.Answer {
	return func(chatsim.Request, int) chatsim.Answer { return a }
}

func ask(body string) upstream.Request {
	return upstream.Request{Turn: "chatcmpl-1", Model: "m", Body: json.RawMessage(body)}
}

const hello = `{"model":"m","messages":[{"role":"user","content":"Say hello"}]}`

// all reads an answer to its end and puts its pieces together.
func all(t *testing.T, p *passthrough.Endpoint, r upstream.Request) (said, thought string, calls []upstream.Call, end upstream.Event, err error) {
	t.Helper()
	turn, err := p.Start(t.Context(), r)
	if err != nil {
		return "", "", nil, end, err
	}
	for {
		e, err := turn.Next(t.Context())
		if err != nil {
			return said, thought, calls, end, err
		}
		switch e.Kind {
		case upstream.Text:
			said += e.Text
		case upstream.Reasoning:
			thought += e.Text
		case upstream.CallPiece:
			if e.Index == len(calls) {
				calls = append(calls, upstream.Call{ID: e.ID, Name: e.Name})
			} else if e.ID != "" || e.Name != "" {
				t.Errorf("a later piece names its call again: %+v", e)
			}
			calls[e.Index].Arguments = append(calls[e.Index].Arguments, e.Arguments...)
		case upstream.Ended:
			if _, err := turn.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("behind the end comes %v", err)
			}
			return said, thought, calls, e, nil
		}
	}
}

// TestBodyStaysAsItCame: the endpoint gets fields that nobody here knows, its own name of the model, and a stream with usage.
func TestBodyStaysAsItCame(t *testing.T) {
	t.Parallel()
	sim, p := world(t, always(chatsim.Answer{Text: "Hello there", Reasoning: "Hm."}))
	said, thought, _, end, err := all(t, p, ask(`{"model":"m","seed":7,"x_new":{"a":[1,"<b>"]},"stream":false,"stream_options":{"include_usage":false,"x":1},"messages":[{"role":"user","content":"Say hello","cache_control":{"type":"ephemeral"}}]}`))
	if err != nil || said != "Hello there" || thought != "Hm." || end.Finish != "stop" {
		t.Fatalf("%q %q %+v %v", said, thought, end, err)
	}
	if u := end.Usage; u == nil || *u.Prompt != 10 || *u.Completion != 2 || *u.Total != 12 || *u.Cached != 4 || *u.Reasoning != 1 {
		t.Errorf("usage %+v", u)
	}
	got := string(sim.Log()[0].Raw)
	for _, want := range []string{`"seed":7`, `"x_new":{"a":[1,"<b>"]}`, `"cache_control":{"type":"ephemeral"}`, `"model":"qwen3:8b"`, `"stream":true`, `"include_usage":true`, `"x":1`} {
		if !strings.Contains(got, want) {
			t.Errorf("the endpoint got %s, which lacks %s", got, want)
		}
	}
}

func TestParallelCalls(t *testing.T) {
	t.Parallel()
	_, p := world(t, always(chatsim.Answer{Calls: []chatsim.Function{{Name: "bash", Arguments: `{"command":"ls"}`}, {Name: "bash", Arguments: `{"command":"pwd"}`}}, Finish: "stop"}))
	_, _, calls, end, err := all(t, p, ask(hello))
	if err != nil || len(calls) != 2 || calls[0].ID != "call_0" || calls[1].Name != "bash" || string(calls[1].Arguments) != `{"command":"pwd"}` || end.Finish != "tool_calls" {
		t.Fatalf("%+v %+v %v", calls, end, err)
	}
}

// TestCallsInOtherShapes: each is how an endpoint that people use sends calls.
func TestCallsInOtherShapes(t *testing.T) {
	t.Parallel()
	for name, deltas := range map[string][]string{
		"without an index, at once":     {`{"tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{\"n\":1}"}},{"id":"b","type":"function","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"without an index, in pieces":   {`{"tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"function":{"arguments":":1}"}}]}`, `{"tool_calls":[{"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"one index for all":             {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"one index and no ids":          {`{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"the index begins at 1":         {`{"tool_calls":[{"index":1,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":2,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"the name is repeated":          {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":":1}"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"the name comes later":          {`{"tool_calls":[{"index":0,"id":"a"}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":":1}"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"arguments as an object":        {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":{"n":1}}},{"index":1,"id":"b","function":{"name":"bash","arguments":{"n":2}}}]}`},
		"one index, ids, in a knot":     {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\""}},{"index":0,"id":"b","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":":1}"}},{"index":0,"id":"b","function":{"arguments":":2}"}}]}`},
		"a last piece with the name":    {`{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":""}}]}`, `{"tool_calls":[{"index":1,"function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"one id for all":                {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}},{"index":1,"id":"a","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":1,"id":"a","function":{"arguments":":2}"}}]}`},
		"no index, no ids":              {`{"tool_calls":[{"function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"the name in two pieces":        {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ba","arguments":"{\"n"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"sh","arguments":"\":1}"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"b"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"ash","arguments":"{\"n\":2}"}}]}`},
		"a name in each piece, no id":   {`{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":"{\"n"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"bash","arguments":"\":1}"}}]}`, `{"tool_calls":[{"index":1,"function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"an index as a text":            {`{"tool_calls":[{"index":"0","id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":"1","id":"b","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":"1","function":{"arguments":":2}"}}]}`},
		"pieces of two calls in a knot": {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\""}},{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":":1}"}}]}`},
		"all once more at the end":      {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}},{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
		"an empty object first":         {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"bash","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"{\"n\":2}"}}]}`},
		"all of the name in each piece": {`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ba"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"n\":2}"}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := world(t, always(chatsim.Answer{Raw: sse(deltas, `"tool_calls"`) + "data: [DONE]\n\n"}))
			_, _, calls, end, err := all(t, p, ask(hello))
			if err != nil || len(calls) != 2 || string(calls[0].Arguments) != `{"n":1}` || string(calls[1].Arguments) != `{"n":2}` || calls[0].Name != "bash" || calls[1].Name != "bash" || end.Finish != "tool_calls" {
				t.Fatalf("%+v %+v %v", calls, end, err)
			}
		})
	}
}

// TestOldCall: a call in the API's earlier form is a call, and no text of such an answer counts as all of it.
func TestOldCall(t *testing.T) {
	t.Parallel()
	deltas := []string{`{"content":"I call.","function_call":{"name":"bash","arguments":"{\"n\""}}`, `{"function_call":{"arguments":":1}"}}`}
	_, p := world(t, always(chatsim.Answer{Raw: sse(deltas, `"function_call"`) + "data: [DONE]\n\n"}))
	_, _, calls, end, err := all(t, p, ask(hello))
	if err != nil || len(calls) != 1 || calls[0].Name != "bash" || string(calls[0].Arguments) != `{"n":1}` || end.Finish != "tool_calls" {
		t.Errorf("%+v %+v %v", calls, end, err)
	}
}

// sse makes a stream of deltas, with a finish_reason at the end.
func sse(deltas []string, finish string) (out string) {
	for _, d := range deltas {
		out += `data: {"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n"
	}
	return out + `data: {"choices":[{"index":0,"delta":{},"finish_reason":` + finish + `}]}` + "\n\n"
}

// TestAnswersInOtherShapes: text, thoughts and ends as different endpoints send them.
func TestAnswersInOtherShapes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ raw, said, thought, finish string }{
		"without an empty line":     {"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]", "Hi", "", "stop"},
		"comments and events":       {": wait\n\nevent: x\nid: 1\n" + sse([]string{`{"content":"Hi"}`}, `"stop"`) + "data: [DONE]\n\n", "Hi", "", "stop"},
		"no DONE behind the end":    {sse([]string{`{"content":"Hi"}`}, `"stop"`), "Hi", "", "stop"},
		"a finish in capitals":      {sse([]string{`{"content":"Hi"}`}, `"MAX_TOKENS"`) + "data: [DONE]\n\n", "Hi", "", "length"},
		"an emoji in two pieces":    {sse([]string{`{"content":"Hi \ud83d"}`, `{"content":"\ude00!"}`}, `"stop"`), "Hi 😀!", "", "stop"},
		"half an emoji, no more":    {sse([]string{`{"content":"Hi \ud83d"}`, `{"content":"!"}`, `{"content":"\\ud83d"}`, `{"content":"\ud83d"}`}, `"stop"`), "Hi \ufffd!\\ud83d\ufffd", "", "stop"},
		"bytes in two pieces":       {sse([]string{"{\"content\":\"gr\xc3\"}", "{\"content\":\"\xbcn\",\"reasoning\":\"\xe6\x97\"}", "{\"reasoning\":\"\xa5\"}"}, `"stop"`), "grün", "日", "stop"},
		"an empty list as a delta":  {`data: {"choices":[{"index":"0","delta":[]}]}` + "\n\n" + sse([]string{`{"content":"Hi"}`}, `"stop"`), "Hi", "", "stop"},
		"parts and thoughts":        {sse([]string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Hi"}]}`}, `"model_length"`) + "data: [DONE]\n\n", "Hi", "Hm", "length"},
		"thoughts as one text":      {sse([]string{`{"content":[{"type":"thinking","thinking":"Hm"},{"type":"text","text":"Hi"}]}`}, `"stop"`), "Hi", "Hm", "stop"},
		"a filter with its reason":  {sse([]string{`{"content":"Hi"}`}, `"content_filter: PROHIBITED_CONTENT"`), "Hi", "", "content_filter"},
		"an end in each piece":      {`data: {"choices":[{"index":0,"delta":{"content":"H"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":"i"},"finish_reason":"null"}]}` + "\n\ndata: [DONE]\n\n", "Hi", "", "stop"},
		"reasoning by another name": {sse([]string{`{"reasoning":"Hm","content":null}`, `{"content":"Hi"}`}, `"eos"`) + "data: [DONE]\n\n", "Hi", "Hm", "stop"},
		"another choice":            {`data: {"choices":[{"index":1,"delta":{"content":"No"}}]}` + "\n\n" + sse([]string{`{"content":"Hi"}`}, `"stop"`), "Hi", "", "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := world(t, always(chatsim.Answer{Raw: tt.raw}))
			said, thought, _, end, err := all(t, p, ask(hello))
			if err != nil || said != tt.said || thought != tt.thought || end.Finish != tt.finish || end.Usage != nil {
				t.Fatalf("%q %q %+v %v", said, thought, end, err)
			}
		})
	}
}

// TestEndsThatNobodyVouchedFor: an answer is whole only where the endpoint says so with a word that is known, streamed or not. Calls with
// broken arguments are no answer.
func TestEndsThatNobodyVouchedFor(t *testing.T) {
	t.Parallel()
	call := `{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"command\":\"rm -rf "}}]}`
	for name, raw := range map[string]string{
		"DONE alone":              "data: [DONE]\n\n",
		"no word before DONE":     sse([]string{`{"content":"Hi"}`}, `null`) + "data: [DONE]\n\n",
		"an empty word":           sse([]string{`{"content":"Hi"}`}, `""`) + "data: [DONE]\n\n",
		"no word at all":          sse([]string{`{"content":"Hi"}`}, `null`),
		"an unknown word":         sse([]string{`{"content":"The first half of"}`}, `"insufficient_system_resource"`) + "data: [DONE]\n\n",
		"error":                   sse([]string{`{"content":"Hi"}`}, `"error"`) + "data: [DONE]\n\n",
		"a word of another type":  sse([]string{`{"content":"Hi"}`}, `{"a":1}`) + "data: [DONE]\n\n",
		"a call, broken":          sse([]string{call}, `"tool_calls"`) + "data: [DONE]\n\n",
		"a call, broken, by stop": sse([]string{call}, `"stop"`) + "data: [DONE]\n\n",
		"a call, no word":         sse([]string{call}, `null`) + "data: [DONE]\n\n",
		"an end in each piece":    `data: {"choices":[{"index":0,"delta":{"content":"The"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[{"index":0,"delta":{"content":" first"},"finish_reason":"stop"}]}` + "\n\n",
		"another word at the end": `data: {"choices":[{"index":0,"delta":{"content":"The"},"finish_reason":"stop"}]}` + "\n\n" + sse([]string{`{"content":" first"}`}, `"error"`) + "data: [DONE]\n\n",
		"a delta of text":         `data: {"choices":[{"index":0,"delta":"Hi","finish_reason":"stop"}]}` + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := world(t, always(chatsim.Answer{Raw: raw}))
			_, _, _, end, err := all(t, p, ask(hello))
			var e *upstream.Error
			if !errors.As(err, &e) || e.NothingHappened || e.Status != 0 || e.Code != "upstream_cut" && e.Code != "upstream_garbage" {
				t.Fatalf("%+v, %v", end, err)
			}
		})
	}
	for _, word := range []string{"length", "content_filter"} {
		_, p := world(t, always(chatsim.Answer{Raw: sse([]string{call}, strconv.Quote(word)) + "data: [DONE]\n\n"}))
		if _, _, calls, end, err := all(t, p, ask(hello)); err != nil || end.Finish != word || len(calls) != 1 {
			t.Errorf("an answer that %s cut off: %+v %+v %v", word, calls, end, err)
		}
	}
}

// TestUsageOnlyInforms: whatever an endpoint writes for usage, the answer stays, and what cannot be read is unknown.
func TestUsageOnlyInforms(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]string{
		`{"prompt_tokens":"12","completion_tokens":"3"}`:                                             `{"Prompt":12,"Completion":3,"Total":null,"Cached":null,"Reasoning":null}`,
		`{"prompt_tokens":12.0,"completion_tokens":-3,"total_tokens":{},"prompt_tokens_details":[]}`: `{"Prompt":12,"Completion":null,"Total":null,"Cached":null,"Reasoning":null}`,
		`{"prompt_tokens_details":{"cached_tokens":"4"},"completion_tokens_details":7}`:              `{"Prompt":null,"Completion":null,"Total":null,"Cached":4,"Reasoning":null}`,
		`[]`: `null`, `"many"`: `null`, `12`: `null`, `{}`: `null`, `{"prompt_tokens":1e300}`: `null`,
	} {
		_, p := world(t, always(chatsim.Answer{Raw: sse([]string{`{"content":"Hi"}`}, `"stop"`) + `data: {"choices":[],"usage":` + usage + "}\n\ndata: [DONE]\n\n"}))
		said, _, _, end, err := all(t, p, ask(hello))
		if got, _ := json.Marshal(end.Usage); err != nil || said != "Hi" || string(got) != want {
			t.Errorf("%s: %q, usage %s, %v; want %s", usage, said, got, err, want)
		}
	}
}

// TestWholeAnswer: an endpoint that does not stream is read, too.
func TestWholeAnswer(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3}}`)
	}))
	t.Cleanup(web.Close)
	p, err := passthrough.New(passthrough.Options{Name: "x", URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	said, _, calls, end, err := all(t, p, ask(hello))
	if err != nil || said != "Hi" || len(calls) != 1 || end.Usage == nil || *end.Usage.Prompt != 3 || end.Usage.Completion != nil {
		t.Fatalf("%q %+v %+v %v", said, calls, end, err)
	}
}

// TestExtraFields: what the endpoint adds to a delta or a call goes on to the caller.
func TestExtraFields(t *testing.T) {
	t.Parallel()
	_, p := world(t, always(chatsim.Answer{Raw: sse([]string{`{"content":"Hi","annotations":[1]}`,
		`{"tool_calls":[{"index":0,"id":"a","type":"function","extra_content":{"google":{"thought_signature":"s"}},"function":{"name":"bash","arguments":"{}"}}]}`}, `"tool_calls"`)}))
	turn, err := p.Start(t.Context(), ask(hello))
	if err != nil {
		t.Fatal(err)
	}
	var extra []string
	for {
		e, err := turn.Next(t.Context())
		if err != nil || e.Kind == upstream.Ended {
			break
		}
		if e.Extra != nil {
			b, _ := json.Marshal(e.Extra)
			extra = append(extra, string(b))
		}
	}
	if got := strings.Join(extra, " "); got != `{"annotations":[1]} {"extra_content":{"google":{"thought_signature":"s"}}}` {
		t.Error(got)
	}
}

// TestCutAnywhere: a stream that ends before it says so is never a whole answer, wherever it is cut.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := chatsim.Answer{Text: "One two three", Calls: []chatsim.Function{{Name: "bash", Arguments: `{"command":"ls"}`}}}
	cut := 0
	_, p := world(t, func(chatsim.Request, int) chatsim.Answer { a := whole; a.Cut = cut; return a })
	for cut = 1; cut < 1200; cut += 37 {
		_, _, calls, _, err := all(t, p, ask(hello))
		var e *upstream.Error
		if err == nil && len(calls) == 1 && string(calls[0].Arguments) == `{"command":"ls"}` {
			continue // cut behind the end
		}
		if !errors.As(err, &e) || e.NothingHappened || e.Code != "upstream_cut" {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
	}
}

// TestRefusals: each status of the endpoint, what the caller sees, and whether the endpoint can have begun.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		status  int
		nothing bool
		code    string
	}{
		301: {400, true, "upstream_redirect"}, 400: {400, true, "upstream_refused"}, 401: {400, true, "upstream_login"}, 402: {402, true, "upstream_refused"}, 403: {400, true, "upstream_login"},
		404: {404, true, "model_not_found"}, 408: {0, false, "upstream_failed"}, 409: {0, false, "upstream_failed"}, 413: {413, true, "upstream_refused"}, 422: {400, true, "upstream_refused"},
		429: {429, true, "rate_limit_exceeded"}, 500: {0, false, "upstream_failed"}, 502: {0, false, "upstream_failed"}, 503: {0, false, "upstream_failed"}, 529: {0, false, "upstream_failed"},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			_, p := world(t, always(chatsim.Answer{Status: status, RetryAfter: "7", Raw: `{"error":{"message":"no, ` + key + ` is wrong","code":null}}`}))
			_, err := p.Start(t.Context(), ask(hello))
			var e *upstream.Error
			if !errors.As(err, &e) || e.Status != want.status || e.NothingHappened != want.nothing || e.Code != want.code || e.Type == "" {
				t.Fatalf("%+v", e)
			}
			if strings.Contains(err.Error(), key) || status != 301 && !strings.Contains(err.Error(), "[key]") || status == 429 && e.RetryAfter != 7*time.Second {
				t.Errorf("%s, again after %s", e.Message, e.RetryAfter)
			}
		})
	}
}

func TestTooLong(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`, `{"error":"prompt is too long: 9 tokens"}`, `{"message":"the request exceeds the available context size"}`} {
		_, p := world(t, always(chatsim.Answer{Status: 400, Raw: raw}))
		_, err := p.Start(t.Context(), ask(hello))
		var e *upstream.Error
		if !errors.As(err, &e) || e.Status != 400 || e.Code != "context_length_exceeded" {
			t.Errorf("%s: %+v", raw, e)
		}
	}
}

// TestWithoutStreamOptions: an endpoint that refuses them is asked without.
func TestWithoutStreamOptions(t *testing.T) {
	t.Parallel()
	sim, p := world(t, func(r chatsim.Request, _ int) chatsim.Answer {
		if r.Options != nil {
			return chatsim.Answer{Status: 422, Raw: `{"detail":"stream_options: extra fields not permitted"}`}
		}
		return chatsim.Answer{Text: "Hi"}
	})
	said, _, _, end, err := all(t, p, ask(hello))
	if err != nil || said != "Hi" || end.Usage != nil || len(sim.Log()) != 2 {
		t.Fatalf("%q %+v %v", said, end, err)
	}
}

// TestMissingResults: the endpoint gets an error as the result that the caller left out, behind the results that came.
func TestMissingResults(t *testing.T) {
	t.Parallel()
	sim, p := world(t, always(chatsim.Answer{Text: "Hi"}))
	_, _, _, _, err := all(t, p, ask(`{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"ok"},{"role":"user","content":"go on"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := sim.Log()[0].Messages
	if len(m) != 5 || m[3].Role != "tool" || m[3].CallID != "b" || *m[3].Content != "Error: the caller sent no result for the call b of read." || *m[4].Content != "go on" {
		t.Errorf("%+v", m)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	sim, p := world(t, nil, func(o *passthrough.Options) { o.Models = nil })
	sim.Models = []string{"a", "b"}
	list, err := p.Models(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[0].Context != 8192 || list[1].Context != 8192 || list[1].Owner != "sim" {
		t.Fatalf("%+v %v", list, err)
	}
	_, p = world(t, nil)
	if list, err = p.Models(t.Context()); err != nil || len(list) != 1 || list[0].ID != "m" || list[0].Context != 40960 {
		t.Fatalf("%+v %v", list, err)
	}
}

// TestCheck: an endpoint is asked for its list, and what is wrong is named.
func TestCheck(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) string {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(web.Close)
		return web.URL
	}
	list := `{"data":[{"id":"own"},{"id":"b"}]}`
	for name, c := range map[string]struct {
		url    string
		models map[string]passthrough.Model
		want   string
	}{
		"all there":      {answer(200, list), map[string]passthrough.Model{"m": {Model: "own"}, "b": {}}, "[] of 2"},
		"one missing":    {answer(200, list), map[string]passthrough.Model{"m": {Model: "qwen"}, "b": {}}, "[qwen] of 2"},
		"none named":     {answer(200, list), nil, "[] of 2"},
		"no list":        {answer(404, "{}"), map[string]passthrough.Model{"m": {}}, "[] of 0"},
		"no list at all": {answer(404, "{}"), nil, "upstream local has no list of models (404); correct its url"},
		"a wrong key":    {answer(401, `{"error":{"message":"who are you"}}`), nil, "the endpoint refuses the bridge's key (401): who are you; correct the key"},
		"it fails":       {answer(500, `{"error":"no memory"}`), nil, "the endpoint failed to list its models, and said: no memory; look into the endpoint's log"},
		"a page":         {answer(200, "<html>"), nil, "the endpoint's list of models cannot be read"},
		"nobody":         {"http://127.0.0.1:1", nil, "the endpoint cannot be reached; check that it runs"},
	} {
		p, err := passthrough.New(passthrough.Options{Name: "local", URL: c.url, Models: c.models})
		if err != nil {
			t.Fatal(err)
		}
		missing, listed, err := p.Check(t.Context())
		p.Close()
		got := fmt.Sprint(missing, " of ", listed)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestUnreachable: where no connection was made, nothing happened; where one broke, something may have.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // its address alone is wanted
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, p := world(t, nil, func(o *passthrough.Options) { o.URL = "http://" + l.Addr().String() })
	_, err = p.Start(t.Context(), ask(hello))
	var e *upstream.Error
	if !errors.As(err, &e) || !e.NothingHappened || e.Status != 503 || e.Code != "upstream_unreachable" {
		t.Errorf("%+v", e)
	}
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(web.Close)
	_, p = world(t, nil, func(o *passthrough.Options) { o.URL = web.URL })
	if _, err = p.Start(t.Context(), ask(hello)); !errors.As(err, &e) || e.NothingHappened || e.Status != 0 {
		t.Errorf("%+v", e)
	}
}

// TestSilence: an endpoint that says nothing does not hold a turn for good, before its status and behind it.
func TestSilence(t *testing.T) {
	t.Parallel()
	short := func(o *passthrough.Options) { o.Silence = 50 * time.Millisecond }
	_, p := world(t, always(chatsim.Answer{Hang: true}), short)
	_, err := p.Start(t.Context(), ask(hello))
	var e *upstream.Error
	if !errors.As(err, &e) || e.Code != "upstream_silent" {
		t.Errorf("before the status: %v", err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, sse([]string{`{"content":"Hi"}`}, `null`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	_, p = world(t, nil, short, func(o *passthrough.Options) { o.URL = web.URL })
	if _, _, _, _, err := all(t, p, ask(hello)); !errors.As(err, &e) || e.Code != "upstream_silent" {
		t.Errorf("behind it: %v", err)
	}
}

// TestNoEndpoint: what answers with a page is named, with its address.
func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	for kind, body := range map[string]string{"text/html": "<html>Log in</html>", "application/json": `{"status":"ok"}`, "no Content-Type": ""} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if kind != "no Content-Type" {
				w.Header().Set("Content-Type", kind+"; charset=utf-8")
			}
			_, _ = io.WriteString(w, body)
		}))
		defer web.Close()
		p, err := passthrough.New(passthrough.Options{Name: "local", URL: web.URL + "/v1"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		want := "the endpoint's answer is not a chat completion (" + kind + "); look at the url of upstream local: " + web.URL + "/v1/chat/completions"
		if _, _, _, _, err := all(t, p, ask(hello)); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// TestErrorInTheStream: its words reach the caller, without the key.
func TestErrorInTheStream(t *testing.T) {
	t.Parallel()
	_, p := world(t, always(chatsim.Answer{Text: "Hi", Fail: "overloaded with " + key}))
	said, _, _, _, err := all(t, p, ask(hello))
	var e *upstream.Error
	if !errors.As(err, &e) || said != "Hi" || e.NothingHappened || !strings.Contains(e.Said, "overloaded with [key]") {
		t.Errorf("%q %+v", said, e)
	}
}

// TestCancelAndStop: Cancel and the end of ctx close the connection to the endpoint, and Start's ctx does not outlive the start.
func TestCancelAndStop(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 2)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, sse([]string{`{"content":"Hi"}`}, `null`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(web.Close)
	_, p := world(t, nil, func(o *passthrough.Options) { o.URL = web.URL })
	for _, how := range []string{"cancel", "ctx"} {
		start, end := context.WithCancel(t.Context())
		turn, err := p.Start(start, ask(hello))
		if err != nil {
			t.Fatal(err)
		}
		end()
		if e, err := turn.Next(t.Context()); err != nil || e.Text != "Hi" {
			t.Fatalf("%+v %v", e, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		if how == "cancel" {
			if err := turn.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else {
			stop()
		}
		if _, err := turn.Next(ctx); err == nil {
			t.Errorf("%s: there is more", how)
		}
		stop()
		<-gone
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "api.example.com/v1", "http://api.example.com/v1", "https://u:p@api.example.com/v1", "https://api.example.com/v1?x=1", "ftp://127.0.0.1"} {
		if _, err := passthrough.New(passthrough.Options{Name: "x", URL: bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
