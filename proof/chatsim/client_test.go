package chatsim_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"drawbridge/proof/chatsim"
)

const key = "sk-0123456789abcdef"

// serve is the stand-in with a script of two steps.
func serve(t *testing.T) (*chatsim.Server, string) {
	t.Helper()
	s := &chatsim.Server{Key: key, Models: []string{"qwen3:8b"}, Answer: chatsim.Scripted([]chatsim.Turn{
		{Match: "Note two things", Steps: []chatsim.Answer{{Calls: []chatsim.Function{{Name: "note", Arguments: `{"text":"one"}`}, {Name: "note", Arguments: `{"text":"two"}`}}}}},
		{Match: "Too fast", Steps: []chatsim.Answer{{Status: 429, RetryAfter: "7"}}},
	})}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return s, web.URL
}

// TestCheck: what the stand-in takes and refuses.
func TestCheck(t *testing.T) {
	t.Parallel()
	const system, user = `{"role":"system","content":"s"}`, `{"role":"user","content":"u"}`
	const asked = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	body := func(messages ...string) string {
		return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
	}
	for name, tt := range map[string]struct{ body, want string }{
		"a turn":            {body(system, user), ""},
		"with an answer":    {body(system, user, asked, `{"role":"tool","tool_call_id":"a","content":""}`), ""},
		"without an answer": {body(system, user, asked), "did not have response messages"},
		"user between":      {body(system, user, asked, user), "must be followed by tool messages"},
		"another id":        {body(system, user, asked, `{"role":"tool","tool_call_id":"b","content":""}`), "must answer the next of"},
		"null":              {body(system, `{"role":"user","content":null}`), "got null"},
		"system late":       {body(user, system), "at the beginning"},
		"assistant last":    {body(user, `{"role":"assistant","content":"x"}`), "the last message"},
		"unknown key":       {`{"model":"m","messages":[` + user + `],"temprature":1}`, "unknown field"},
		"stream":            {`{"model":"m","messages":[` + user + `],"stream":true}`, "does not stream"},
		"not JSON":          {`{`, "not a chat completion request"},
		"schema":            {`{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"array"}}}]}`, "type object"},
		"long description":  {`{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f","description":"` + strings.Repeat("x", 1025) + `","parameters":{"type":"object"}}}]}`, "longer than 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := chatsim.Check([]byte(tt.body))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
