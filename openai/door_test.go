package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drawbridge/openai"
	"drawbridge/openai/upstream"
)

func TestTextStreamed(t *testing.T) {
	t.Parallel()
	usage := int64(7)
	w := newWorld(t, &fake{say: func(upstream.Request) []upstream.Event {
		return []upstream.Event{{Kind: upstream.Reasoning, Text: "Hm."}, {Kind: upstream.Text, Text: "Hel"}, {Kind: upstream.Text, Text: "lo"}, {Kind: upstream.Ended, Finish: "stop", Usage: &upstream.Usage{Prompt: &usage}}}
	}})
	status, body := w.post("/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Say hello"}]}`)
	got := events(body)
	if status != 200 || len(got) != 7 || got[6] != "[DONE]" {
		t.Fatalf("%d %q", status, got)
	}
	for i, want := range []string{`"delta":{"content":"","role":"assistant"},"finish_reason":null`, `"reasoning_content":"Hm."`, `"content":"Hel"`, `"content":"lo"`, `"delta":{},"finish_reason":"stop"`, `"choices":[]`} {
		if !strings.Contains(got[i], want) {
			t.Errorf("event %d is %s, want %s", i, got[i], want)
		}
	}
	if !strings.Contains(got[5], `"usage":{"prompt_tokens":7,"total_tokens":7}`) {
		t.Errorf("usage shows what nobody knows: %s", got[5])
	}
}

func TestTextWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fake{})
	for _, path := range []string{"/v1/chat/completions", "/chat/completions"} {
		status, body := w.post(path, ask(false, said("user", "Say hello to "+path)))
		if c := read(t, body); status != 200 || *c.Choices[0].Message.Content != "Hello" || c.Choices[0].Finish != "stop" || strings.Contains(body, "usage") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestParkedCalls: parallel calls leave together, their results come in the next request in any order, and the answer goes on.
func TestParkedCalls(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		f := &fake{say: func(upstream.Request) []upstream.Event {
			return append(calls("ls", "pwd"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
		}}
		w := newWorld(t, f)
		_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
		c := read(t, body)
		m := c.Choices[0].Message
		if len(m.ToolCalls) != 2 || c.Choices[0].Finish != "tool_calls" || m.Content != nil || m.ToolCalls[1].Function.Arguments != `{"command":"pwd"}` {
			t.Fatal(body)
		}
		asked := fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"pwd\"}"}}]}`, m.ToolCalls[0].ID, m.ToolCalls[1].ID)
		results := fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"/home"}`, m.ToolCalls[1].ID)
		status, body := w.post("/v1/chat/completions", ask(stream, said("user", "go"), asked, results, said("user", "and be quick")))
		if status != 200 || !strings.Contains(body, "Done") {
			t.Fatalf("%d %s", status, body)
		}
		if f.starts() != 1 {
			t.Errorf("the backend was asked %d times", f.starts())
		}
		turn := f.turns[f.started[0].Turn]
		got, _ := json.Marshal(turn.got)
		if !strings.Contains(string(got), `"CallID":"up_0","Text":"the caller sent no result for this call","Images":null,"Failed":true`) || !strings.Contains(string(got), `"CallID":"up_1","Text":"/home\n\nThe caller adds:\nand be quick"`) {
			t.Errorf("results: %s", got)
		}
	}
}

// TestToolResults is the seed's way: each result by itself, and the rest of the answer to the next chat request.
func TestToolResults(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		f := &fake{say: func(r upstream.Request) []upstream.Event {
			if stateless {
				if r.Messages[len(r.Messages)-1].Role == "tool" {
					return []upstream.Event{{Kind: upstream.Text, Text: "Done"}, {Kind: upstream.Ended, Finish: "stop"}}
				}
				made := calls("ls", "pwd")
				return append(made[:2], upstream.Event{Kind: upstream.Ended, Finish: "tool_calls"})
			}
			return append(calls("ls", "pwd"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
		}}
		w := newWorld(t, f, func(o *openai.Options) { o.Backends[0].Stateless = stateless })
		_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
		m := read(t, body).Choices[0].Message
		result := func(i int, extra string) string {
			return fmt.Sprintf(`{"tool_call_id":%q,"content":"result %d"%s}`, m.ToolCalls[i].ID, i, extra)
		}
		status, body := w.post("/v1/tool_results", result(1, ""))
		if status != 200 || !strings.Contains(body, `"status":"waiting","missing":["`+m.ToolCalls[0].ID) {
			t.Fatalf("%d %s", status, body)
		}
		status, body = w.post("/v1/tool_results", result(0, `,"stream":false,"is_error":true`))
		if status != 200 || !strings.Contains(body, "Done") {
			t.Fatalf("stateless %t: %d %s", stateless, status, body)
		}
		for body, want := range map[string]string{
			result(0, ""): "already_answered", `{"tool_call_id":"call_none","content":""}`: "unknown_tool_call",
		} {
			if status, got := w.post("/v1/tool_results", body); status != 422 || !strings.Contains(got, want) {
				t.Errorf("%s: %d %s", body, status, got)
			}
		}
	}
}

// TestNothingTwice: what makes a request a repeat, and what does not.
func TestNothingTwice(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	q := ask(false, said("user", "once"))
	_, first := w.post("/v1/chat/completions", q, "Idempotency-Key", "k1")
	_, second := w.post("/v1/chat/completions", q, "Idempotency-Key", "k1")
	if first != second || f.starts() != 1 {
		t.Errorf("the same key: %d starts\n%s\n%s", f.starts(), first, second)
	}
	if status, body := w.post("/v1/chat/completions", ask(false, said("user", "other")), "Idempotency-Key", "k1"); status != 422 || !strings.Contains(body, "idempotency_key_reused") {
		t.Errorf("the same key, another body: %d %s", status, body)
	}
}

// TestRestart: a turn that can be resumed goes on, one that cannot says why, and neither is begun again.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, resumes := range []bool{true, false} {
		f := &fake{resumes: resumes, say: func(upstream.Request) []upstream.Event {
			return append(calls("ls"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
		}}
		path := filepath.Join(t.TempDir(), "drawbridge.db")
		w := open(t, path, f)
		w.mint(openai.Token{Name: "all", Models: []string{"*"}})
		_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
		id := read(t, body).Choices[0].Message.ToolCalls[0].ID
		token := w.token
		w.stop()
		w = open(t, path, f)
		w.token = token
		status, body := w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":"x","stream":false}`, id))
		if resumes && (status != 200 || !strings.Contains(body, "Done")) || !resumes && (status != 422 || !strings.Contains(body, "keeps nothing")) {
			t.Errorf("resumes %t: %d %s", resumes, status, body)
		}
		if f.starts() != 1 {
			t.Errorf("resumes %t: %d starts", resumes, f.starts())
		}
	}
}

// TestFailures: what the caller sees, before the first byte and after it. A status that clients repeat is shown only where nothing has happened.
func TestFailures(t *testing.T) {
	t.Parallel()
	f := &fake{refuse: &upstream.Error{Status: 503, Message: "may have begun"}}
	w := newWorld(t, f)
	if status, body := w.post("/v1/chat/completions", ask(true, said("user", "a"))); status != 400 || !strings.Contains(body, "may have begun") {
		t.Errorf("%d %s", status, body)
	}
	f.refuse = &upstream.Error{Status: 429, Message: "wait", RetryAfter: 3 * time.Second, NothingHappened: true}
	resp := w.send(t.Context(), "/v1/chat/completions", ask(false, said("user", "b")))
	resp.Body.Close()
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	f.refuse = nil
	f.say = func(upstream.Request) []upstream.Event { return []upstream.Event{{Kind: upstream.Text, Text: "half"}} }
	_, body := w.post("/v1/chat/completions", ask(true, said("user", "c")))
	got := events(body)
	if last := got[len(got)-1]; !strings.Contains(last, `"error":{"message":"the backend ended in the middle"`) {
		t.Errorf("a cut answer ends with %s", last)
	}
	if status, body := w.post("/v1/chat/completions", ask(false, said("user", "d"))); status != 400 {
		t.Errorf("%d %s", status, body)
	}
}

// TestDoorstep: who comes in, and in which shape everybody else hears that they do not.
func TestDoorstep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fake{}, func(o *openai.Options) { o.Origins = []string{"https://chat.example"}; o.Anonymous = "seed" })
	q := ask(false, said("user", "a"))
	for name, tt := range map[string]struct {
		path, body, key, value string
		status                 int
		want                   string
	}{
		"wrong token":     {"/v1/chat/completions", q, "Authorization", "Bearer x", 401, "invalid_api_key"},
		"basic":           {"/v1/chat/completions", q, "Authorization", "Basic x", 401, "invalid_api_key"},
		"no anonymous":    {"/v1/chat/completions", q, "Authorization", "", 401, "the token named"},
		"text":            {"/v1/chat/completions", q, "Content-Type", "text/plain", 415, "unsupported_media_type"},
		"page":            {"/v1/chat/completions", q, "Origin", "https://evil.example", 403, "origin_not_allowed"},
		"cross-site":      {"/v1/models", "", "Sec-Fetch-Site", "cross-site", 403, "origin_not_allowed"},
		"listed page":     {"/v1/chat/completions", q, "Origin", "https://chat.example", 200, "Hello"},
		"nothing there":   {"/v1/embeddings", "{}", "", "", 404, "unknown_url"},
		"method":          {"/v1/models", "{}", "", "", 405, "method_not_allowed"},
		"not JSON":        {"/v1/chat/completions", "{", "", "", 400, "invalid_json"},
		"no model":        {"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, "", "", 400, `"param":"model"`},
		"unknown model":   {"/v1/chat/completions", `{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`, "", "", 404, "model_not_found"},
		"several answers": {"/v1/chat/completions", `{"model":"m","n":2,"messages":[{"role":"user","content":"x"}]}`, "", "", 400, `"param":"n"`},
		"model":           {"/v1/models/m", "", "", "", 200, `"context_length":1000`},
		"model with /":    {"/v1/models/agent/main", "", "", "", 200, `"id":"agent/main"`},
		"models":          {"/models", "", "", "", 200, `"object":"list"`},
	} {
		t.Run(name, func(t *testing.T) {
			var headers []string
			if tt.key != "" {
				headers = []string{tt.key, tt.value}
			}
			status, body := w.post(tt.path, tt.body, headers...)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s\nwant %d with %s", status, body, tt.status, tt.want)
			}
			if status >= 400 && read(t, body).Error == nil {
				t.Errorf("not in the API's shape: %s", body)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("a rebound Host: %d", resp.StatusCode)
	}
}

// TestNoTokenThroughAProxy: a caller of this machine needs no token, but what a proxy of this machine passes on does.
func TestNoTokenThroughAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fake{}, func(o *openai.Options) { o.Anonymous = "all" })
	for name, want := range map[string]int{"": 200, "X-Request-Id": 200, "Forwarded": 401, "Via": 401, "X-Forwarded-For": 401, "X-Forwarded-Proto": 401, "X-Real-Ip": 401, "Cf-Connecting-Ip": 401,
		"True-Client-Ip": 401, "X-Original-Forwarded-For": 401, "X-Envoy-External-Address": 401} {
		headers := []string{"Authorization", ""}
		if name != "" {
			headers = append(headers, name, "1.2.3.4")
		}
		if status, body := w.post("/v1/chat/completions", ask(false, said("user", "from "+name)), headers...); status != want || want == 401 && !strings.Contains(body, "its header "+name) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestTokenBounds: models, rate and budget of a token.
func TestTokenBounds(t *testing.T) {
	t.Parallel()
	total := int64(60)
	f := &fake{say: func(upstream.Request) []upstream.Event {
		return []upstream.Event{{Kind: upstream.Text, Text: "x"}, {Kind: upstream.Ended, Finish: "stop", Usage: &upstream.Usage{Total: &total}}}
	}}
	w := newWorld(t, f)
	w.mint(openai.Token{Name: "plain"})
	if status, body := w.post("/v1/chat/completions", strings.Replace(ask(false, said("user", "a")), `"m"`, `"agent/main"`, 1)); status != 403 || !strings.Contains(body, "--model agent/main") {
		t.Errorf("%d %s", status, body)
	}
	if _, body := w.post("/v1/models", ""); strings.Contains(body, "agent/main") {
		t.Errorf("models that the token may not use are listed: %s", body)
	}
	w.mint(openai.Token{Name: "small", Budget: 100})
	for i, want := range []int{200, 200, 429} {
		if status, body := w.post("/v1/chat/completions", ask(false, said("user", fmt.Sprint(i)))); status != want {
			t.Errorf("turn %d of a small budget: %d %s", i, status, body)
		}
	}
	w.mint(openai.Token{Name: "slow", PerMinute: 1})
	for i, want := range []int{200, 429} {
		if status, body := w.post("/v1/chat/completions", ask(false, said("user", fmt.Sprint(i)))); status != want {
			t.Errorf("turn %d of a slow token: %d %s", i, status, body)
		}
	}
}
