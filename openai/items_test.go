package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/openai"
	"drawbridge/openai/upstream"
)

// TestRequestItems: what clients send, and what the backend gets of it.
func TestRequestItems(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	const user = `{"role":"user","content":"x"}`
	for name, tt := range map[string]struct {
		body   string
		status int
		// want stands in the request as the backend got it, or in the error.
		want string
	}{
		"parts":                   {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, 200, `"Role":"user","Text":"a\nb"`},
		"null":                    {`{"model":"m","messages":[` + user + `,{"role":"assistant","content":null},` + user + `]}`, 200, `"Role":"assistant","Text":""`},
		"developer in the middle": {`{"model":"m","messages":[{"role":"system","content":"s"},` + user + `,{"role":"developer","content":"d"},` + user + `]}`, 200, `"Role":"system","Text":"d"`},
		"both limits":             {`{"model":"m","max_tokens":5,"max_completion_tokens":6,"messages":[` + user + `]}`, 200, `"max_completion_tokens":6`},
		"unknown fields":          {`{"model":"m","deep":{"er":[1]},"messages":[` + user + `]}`, 200, `"deep":{"er":[1]}`},
		"named tool":              {`{"model":"m","tools":[` + bash + `],"tool_choice":{"type":"function","function":{"name":"bash"}},"messages":[` + user + `]}`, 200, `"Choice":"bash"`},
		"allowed tools":           {`{"model":"m","tools":[` + bash + `,` + strings.ReplaceAll(bash, "bash", "sh") + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"sh"}}]}},"messages":[` + user + `]}`, 200, `"Choice":"required","Tools":["sh"]`},
		"allowed tools, unknown":  {`{"model":"m","tools":[` + bash + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"sh"}}]}},"messages":[` + user + `]}`, 400, `names \"sh\"`},
		"allowed tools, how":      {`{"model":"m","tools":[` + bash + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"all","tools":[]}},"messages":[` + user + `]}`, 400, "use auto or required"},
		"no tools":                {`{"model":"m","tools":[` + bash + `],"tool_choice":"none","messages":[` + user + `]}`, 200, `"Choice":"none"`},
		"absent content":          {`{"model":"m","messages":[` + user + `,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":""}}]},{"role":"tool","tool_call_id":"c1","content":"r"}]}`, 200, `"ID":"c1","Name":"bash","Arguments":{}`},
		"image":                   {`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]}`, 200, `"MIME":"image/png","Data":"aGk="`},
		"sampling":                {`{"model":"m","temperature":2,"top_p":0,"seed":1,"presence_penalty":1,"messages":[` + user + `]}`, 200, `"Text":"x"`},
		"old functions":           {`{"model":"m","functions":[{}],"messages":[` + user + `]}`, 400, `"param":"functions"`},
		"audio":                   {`{"model":"m","modalities":["text","audio"],"messages":[` + user + `]}`, 400, `"param":"audio"`},
		"logprobs":                {`{"model":"m","logprobs":true,"messages":[` + user + `]}`, 400, `"param":"logprobs"`},
		"broken image":            {`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}]}]}`, 400, "no valid base64"},
		"a file":                  {`{"model":"m","messages":[{"role":"user","content":[{"type":"file"}]}]}`, 400, "messages[0].content[0].type"},
		"unknown tool":            {`{"model":"m","tools":[` + bash + `],"tool_choice":{"function":{"name":"sh"}},"messages":[` + user + `]}`, 400, "not among tools"},
		"two of a name":           {`{"model":"m","tools":[` + bash + `,` + bash + `],"messages":[` + user + `]}`, 400, "two tools are named"},
		"unknown role":            {`{"model":"m","messages":[{"role":"robot","content":"x"}]}`, 400, "messages[0].role"},
		"result of nothing":       {`{"model":"m","messages":[{"role":"tool","content":"x"}]}`, 400, "messages[0].tool_call_id"},
		"model of a wrong type":   {`{"model":5,"messages":[` + user + `]}`, 400, `"param":"model"`},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.starts()
			status, got := w.post("/v1/chat/completions", tt.body)
			if status == 200 && f.starts() == before+1 {
				r := f.started[before]
				var tools []string
				for _, t := range r.Tools {
					tools = append(tools, t.Name)
				}
				raw, _ := json.Marshal(map[string]any{"m": r.Messages, "c": map[string]any{"Choice": r.Choice, "Tools": tools}, "b": r.Body})
				got = string(raw)
			}
			if status != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("%d %s\nwant %d with %s", status, got, tt.status, tt.want)
			}
			if status != 200 && f.starts() != before {
				t.Error("a refused request reached the backend")
			}
		})
	}
}

// TestFieldsOfCalls: what a backend wants back with a call stands in the call, in a stream, in a whole answer and in a repeat.
func TestFieldsOfCalls(t *testing.T) {
	t.Parallel()
	f := &fake{say: func(upstream.Request) []upstream.Event {
		return []upstream.Event{{Kind: upstream.CallPiece, Name: "bash", Arguments: "{}", Extra: map[string]json.RawMessage{"extra_content": json.RawMessage(`{"signature":"s"}`)}}, {Kind: upstream.Ended, Finish: "tool_calls"}}
	}}
	w := newWorld(t, f, func(o *openai.Options) { o.Backends[0].Stateless = true })
	for _, stream := range []bool{true, false} {
		for range 2 {
			_, body := w.post("/v1/chat/completions", ask(stream, said("user", fmt.Sprint("go ", stream))), "Idempotency-Key", fmt.Sprint("k", stream))
			if !strings.Contains(body, `"tool_calls":[{"extra_content":{"signature":"s"},"function":{`) {
				t.Errorf("stream %t: %s", stream, body)
			}
		}
	}
}

// TestLateResult: a turn whose results do not come in time ends, whatever happens meanwhile. A result that comes later is refused in words,
// and the turn is not begun again.
func TestLateResult(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// fails is the save that fails: the first that puts a call into this state.
		fails openai.CallState
		// early brings results before the time is over.
		early bool
	}{
		"nothing comes":                {},
		"the results are not recorded": {fails: openai.CallAnswered, early: true},
		"the end is not recorded":      {fails: openai.CallDropped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{say: func(upstream.Request) []upstream.Event {
					return append(calls("ls"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
				}}
				w := newBareWorld(t, f, func(o *openai.Options) {
					o.ParkTimeout = time.Minute
					o.Records = &failingOnce{Records: o.Records, state: tt.fails}
				})
				_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
				id := read(t, body).Choices[0].Message.ToolCalls[0].ID
				result := fmt.Sprintf(`{"tool_call_id":%q,"content":"x","stream":false}`, id)
				if tt.early {
					if status, body := w.post("/v1/tool_results", result); status != 400 {
						t.Errorf("results that are not recorded: %d %s", status, body)
					}
				}
				time.Sleep(3 * time.Minute) // the hold of a turn whose end was not recorded lapses, too
				synctest.Wait()
				found, err := w.records.Look(t.Context(), openai.Query{Token: "all", Calls: []string{id}})
				if err != nil || found.Turns[0].State != openai.TurnLost {
					t.Fatalf("%+v %v", found, err)
				}
				if status, body := w.post("/v1/tool_results", result); status != 422 || !strings.Contains(body, "too_late") || f.starts() != 1 {
					t.Errorf("%d %s after %d starts", status, body, f.starts())
				}
			})
		})
	}
}

// TestParkTimeoutAtOnce: a turn ends also when its time is over before the record says that it is parked. A long text makes that record
// take longer than the end's.
func TestParkTimeoutAtOnce(t *testing.T) {
	t.Parallel()
	f := &fake{say: func(upstream.Request) []upstream.Event {
		return append([]upstream.Event{{Kind: upstream.Text, Text: strings.Repeat("a long text ", 1<<20)}}, calls("ls")...)
	}}
	w := newBareWorld(t, f, func(o *openai.Options) { o.ParkTimeout = time.Nanosecond })
	_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
	id := read(t, body).Choices[0].Message.ToolCalls[0].ID
	for deadline := time.Now().Add(time.Minute); ; pause(t) {
		found, err := w.records.Look(t.Context(), openai.Query{Token: "all", Calls: []string{id}})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s is %s, %v", found.Turns[0].ID, found.Turns[0].State, err)
		}
		if found.Turns[0].State == openai.TurnLost {
			return
		}
	}
}

// failingOnce are records whose disk fails once: when a call shall get a state.
type failingOnce struct {
	openai.Records
	state  openai.CallState
	failed atomic.Bool
}

func (r *failingOnce) Save(ctx context.Context, c openai.Change) error {
	for _, call := range c.Calls {
		if call.State == r.state && !r.failed.Swap(true) {
			return errors.New("disk I/O error")
		}
	}
	return r.Records.Save(ctx, c)
}
