package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/openai"
	"drawbridge/openai/upstream"
)

// respond is a request of /v1/responses.
func respond(fields string) string { return `{"model":"m",` + fields + `}` }

// responseView is what the tests read of a response.
type responseView struct {
	ID, Status string
	Output     []map[string]any
	Error      *struct{ Code, Message string }
	Details    *struct{ Reason string } `json:"incomplete_details"`
	Usage      *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func decodeAs[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func number(n int64) *int64 { return &n }

// everything is an answer with thoughts, text and two calls.
func everything(upstream.Request) []upstream.Event {
	return []upstream.Event{
		{Kind: upstream.Reasoning, Text: "Let me "}, {Kind: upstream.Reasoning, Text: "see."}, {Kind: upstream.Text, Text: "I "}, {Kind: upstream.Text, Text: "run it."},
		{Kind: upstream.CallPiece, Index: 0, ID: "up_0", Name: "bash", Arguments: `{"command":`}, {Kind: upstream.CallPiece, Index: 1, ID: "up_1", Name: "team__close"}, {Kind: upstream.CallPiece, Index: 0, Arguments: `"ls"}`},
		{Kind: upstream.CallPiece, Index: 2, ID: "up_2", Name: "patch", Arguments: `{"input":"*** Begin"}`},
		{Kind: upstream.Ended, Finish: "tool_calls", Usage: &upstream.Usage{Prompt: number(11), Completion: number(7), Total: number(18)}},
	}
}

const responseTools = `"tools":[{"type":"function","name":"bash","description":"Run.","strict":false,"parameters":{"type":"object"}},{"type":"namespace","name":"team","tools":[{"type":"function","name":"close"}]},` +
	`{"type":"custom","name":"patch","description":"Patch.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},{"type":"web_search"}]`

// TestResponses: a stream tells item by item what the whole answer holds, in the order that clients need.
func TestResponses(t *testing.T) {
	t.Parallel()
	f := &fake{say: everything}
	w := newWorld(t, f)
	status, stream := w.post("/v1/responses", respond(`"stream":true,"input":"go",`+responseTools))
	var kinds []string
	var last struct{ Response json.RawMessage }
	grown := map[string]string{}
	for i, text := range events(stream) {
		e := decodeAs[struct {
			Type   string
			Seq    int    `json:"sequence_number"`
			ItemID string `json:"item_id"`
			Delta  string
		}](t, text)
		if e.Seq != i || !strings.Contains(stream, "event: "+e.Type+"\ndata: "+text) {
			t.Errorf("event %d is %s", i, text)
		}
		if e.Type != "keepalive" {
			kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
		}
		grown[e.ItemID] += e.Delta
		last = decodeAs[struct{ Response json.RawMessage }](t, text)
	}
	want := "created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done output_item.done " +
		"output_item.added function_call_arguments.delta output_item.added function_call_arguments.delta output_item.added function_call_arguments.delta " +
		"function_call_arguments.done output_item.done function_call_arguments.done output_item.done custom_tool_call_input.delta custom_tool_call_input.done output_item.done completed"
	if d := cmp.Diff(strings.Fields(want), kinds); status != 200 || d != "" {
		t.Errorf("%d (-want +got):\n%s", status, d)
	}
	r := decodeAs[responseView](t, string(last.Response))
	if r.Status != "completed" || !strings.HasPrefix(r.ID, "resp_") || r.Usage == nil || r.Usage.Input != 11 || r.Usage.Output != 7 || r.Usage.Total != 18 {
		t.Errorf("%s", last.Response)
	}
	var items []string
	for _, i := range r.Output {
		id, _ := i["id"].(string)
		callID, _ := i["call_id"].(string)
		if text := grown[id]; text == "" {
			t.Errorf("the stream does not tell how %s grew", id)
		}
		delete(i, "id")
		delete(i, "call_id")
		if (callID == "") == strings.Contains(fmt.Sprint(i["type"]), "call") {
			t.Errorf("%v has the call id %q", i, callID)
		}
		raw, _ := json.Marshal(i)
		items = append(items, string(raw))
	}
	wantItems := []string{
		`{"status":"completed","summary":[{"text":"Let me see.","type":"summary_text"}],"type":"reasoning"}`,
		`{"content":[{"annotations":[],"logprobs":[],"text":"I run it.","type":"output_text"}],"role":"assistant","status":"completed","type":"message"}`,
		`{"arguments":"{\"command\":\"ls\"}","name":"bash","status":"completed","type":"function_call"}`,
		`{"arguments":"{}","name":"close","namespace":"team","status":"completed","type":"function_call"}`,
		`{"input":"*** Begin","name":"patch","status":"completed","type":"custom_tool_call"}`,
	}
	if d := cmp.Diff(wantItems, items); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	_, whole := w.post("/v1/responses", respond(`"input":"go",`+responseTools))
	normal := func(id, text string) string {
		return strings.ReplaceAll(text, strings.TrimPrefix(id, "resp_"), "ID")
	}
	v := decodeAs[responseView](t, whole)
	var one, other map[string]any
	_ = json.Unmarshal([]byte(normal(r.ID, string(last.Response))), &one)
	_ = json.Unmarshal([]byte(normal(v.ID, whole)), &other)
	delete(one, "created_at")
	delete(other, "created_at")
	if d := cmp.Diff(one, other); d != "" {
		t.Errorf("the whole answer is another one (-stream +whole):\n%s", d)
	}
	var names []string
	for _, tool := range f.started[0].Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"bash", "team__close", "patch"}) || !strings.Contains(f.started[0].Tools[2].Description, "lark grammar:\nstart: x") {
		t.Errorf("tools %q", f.started[0].Tools)
	}
}

// TestResponsesInput: what the items of input become for a backend.
func TestResponsesInput(t *testing.T) {
	t.Parallel()
	call := func(id string) string {
		return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"bash","arguments":"{}"}`, id)
	}
	output := func(id string) string {
		return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"done"}`, id)
	}
	for name, c := range map[string]struct{ fields, want string }{
		"text":         {`"input":"hi"`, "user=hi"},
		"instructions": {`"instructions":"Be kind.","input":[{"role":"developer","content":"And quick."},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]`, "system=Be kind. system=And quick. user=a\nb"},
		"an answer":    {`"input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]},` + call("c1") + `,` + call("c2") + `,` + output("c2") + `,` + output("c1") + `]`, "user=a assistant=x+c1+c2 tool(c2)=done tool(c1)=done"},
		"ours apart":   {`"input":[` + call("call_abc_1") + `,` + output("call_abc_1") + `,` + call("call_abc_2") + `,` + output("call_abc_2") + `]`, "assistant=+call_abc_1+call_abc_2 tool(call_abc_1)=done tool(call_abc_2)=done"},
		"two answers":  {`"input":[` + call("call_abc_1") + `,` + output("call_abc_1") + `,` + call("call_xyz_1") + `,` + output("call_xyz_1") + `]`, "assistant=+call_abc_1 tool(call_abc_1)=done assistant=+call_xyz_1 tool(call_xyz_1)=done"},
		"custom":       {`"input":[{"type":"custom_tool_call","call_id":"c","name":"patch","input":"x"},{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"ok"}]}]`, "assistant=+c tool(c)=ok"},
		"a picture":    {`"input":[{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"https://a.example/x.png","detail":"low"}]}]`, "user=see[https://a.example/x.png]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			w := newWorld(t, f)
			if status, body := w.post("/v1/responses", respond(c.fields)); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			var got []string
			for _, m := range f.started[0].Messages {
				text := m.Role
				if m.CallID != "" {
					text += "(" + m.CallID + ")"
				}
				text += "=" + m.Text
				for _, c := range m.Calls {
					text += "+" + c.ID
				}
				for _, i := range m.Images {
					text += "[" + i.URL + "]"
				}
				got = append(got, text)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), c.want)
			}
		})
	}
}

// TestResponsesBody: settings have the names that chat completions give them.
func TestResponsesBody(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	status, body := w.post("/v1/responses", respond(`"input":"hi","temperature":0.5,"max_output_tokens":9,"reasoning":{"effort":"low","summary":"auto"},"metadata":{"a":"b"},"client_metadata":{"t":1},`+
		`"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"tool_choice":{"type":"function","name":"bash"},`+responseTools))
	if status != 200 || !strings.Contains(body, `"temperature":0.5`) || !strings.Contains(body, `"metadata":{"a":"b"}`) {
		t.Fatalf("%d %s", status, body)
	}
	got := decodeAs[map[string]any](t, string(f.started[0].Body))
	delete(got, "tools")
	delete(got, "messages")
	want := map[string]any{"model": "m", "stream": false, "temperature": 0.5, "max_completion_tokens": 9.0, "reasoning_effort": "low", "verbosity": "low",
		"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "n", "schema": map[string]any{"type": "object"}, "strict": true}},
		"tool_choice":     map[string]any{"type": "function", "function": map[string]any{"name": "bash"}}}
	if d := cmp.Diff(want, got); d != "" || f.started[0].Choice != "bash" {
		t.Errorf("choice %q (-want +got):\n%s", f.started[0].Choice, d)
	}
}

// TestPreviousResponse: a response goes on with the one that it names, with that one's answer and without its instructions.
func TestPreviousResponse(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	first := func(fields string) string {
		t.Helper()
		status, body := w.post("/v1/responses", respond(fields))
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return decodeAs[responseView](t, body).ID
	}
	one := first(`"instructions":"Be kind.","input":"a"`)
	two := first(`"previous_response_id":"` + one + `","input":"b"`)
	three := first(`"previous_response_id":"` + two + `","instructions":"Be quick.","input":"c","store":false`)
	last := f.started[2]
	var got []string
	for _, m := range last.Messages {
		got = append(got, m.Role+"="+m.Text)
	}
	if want := "system=Be quick. user=a assistant=Hello user=b assistant=Hello user=c"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
	if last.New != 5 || last.Session != f.started[0].Session {
		t.Errorf("new from %d in session %s, and the first is %s", last.New, last.Session, f.started[0].Session)
	}
	for _, id := range []string{three, "resp_nobody", "chatcmpl-x", one[:len(one)-1]} {
		if status, body := w.post("/v1/responses", respond(`"previous_response_id":"`+id+`","input":"x"`)); status != http.StatusNotFound || !strings.Contains(body, "previous_response_not_found") {
			t.Errorf("%s: %d %s", id, status, body)
		}
	}
	w.mint(openai.Token{Name: "other", Models: []string{"*"}})
	if status, _ := w.post("/v1/responses", respond(`"previous_response_id":"`+one+`","input":"x"`)); status != http.StatusNotFound {
		t.Errorf("another token reads the response: %d", status)
	}
}

// TestResponsesPark: a turn that waits for the caller's tools goes on with their outputs, also behind previous_response_id.
func TestResponsesPark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ named, items bool }{{false, true}, {true, false}, {true, true}} { // some clients send the calls again, and name the response
		f := &fake{say: func(upstream.Request) []upstream.Event {
			return append(calls("ls", "pwd"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
		}}
		w := newWorld(t, f)
		_, body := w.post("/v1/responses", respond(`"input":"go",`+responseTools))
		r := decodeAs[responseView](t, body)
		if len(r.Output) != 2 {
			t.Fatal(body)
		}
		before, input := "", `{"role":"user","content":"go"},`
		if c.named {
			before, input = `"previous_response_id":"`+r.ID+`",`, ""
		}
		if c.items {
			for _, i := range r.Output {
				raw, _ := json.Marshal(i)
				input += string(raw) + ","
			}
		}
		for n, i := range r.Output {
			input += fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"out %d"},`, i["call_id"], n)
		}
		status, body := w.post("/v1/responses", respond(before+`"input":[`+strings.TrimSuffix(input, ",")+`],`+responseTools))
		if status != 200 || !strings.Contains(body, `"text":"Done"`) || f.starts() != 1 {
			t.Fatalf("%+v: %d %s; %d starts", c, status, body, f.starts())
		}
		if got, _ := json.Marshal(f.turns[f.started[0].Turn].got); !strings.Contains(string(got), `"CallID":"up_0","Text":"out 0"`) || !strings.Contains(string(got), `"CallID":"up_1","Text":"out 1"`) {
			t.Errorf("results: %s", got)
		}
	}
}

// TestResponsesEnds: how an answer ends that is cut off, fails or breaks.
func TestResponsesEnds(t *testing.T) {
	t.Parallel()
	say := func(events ...upstream.Event) func(upstream.Request) []upstream.Event {
		return func(upstream.Request) []upstream.Event { return events }
	}
	half := upstream.Event{Kind: upstream.Text, Text: "half"}
	for name, c := range map[string]struct {
		say                   func(upstream.Request) []upstream.Event
		event, status, detail string
	}{
		"too long": {say(half, upstream.Event{Kind: upstream.Ended, Finish: "length"}), "response.incomplete", "incomplete", "max_output_tokens"},
		"filtered": {say(half, upstream.Event{Kind: upstream.Ended, Finish: "content_filter"}), "response.incomplete", "incomplete", "content_filter"},
		"broken":   {say(half), "response.failed", "failed", "invalid_prompt"}, // Codex repeats after every word but a few
	} {
		w := newWorld(t, &fake{say: c.say})
		status, body := w.post("/v1/responses", respond(`"stream":true,"input":"go"`))
		all := events(body)
		e := decodeAs[struct {
			Type     string
			Response responseView
		}](t, all[len(all)-1])
		got := ""
		if e.Response.Error != nil {
			got = e.Response.Error.Code
		}
		if e.Response.Details != nil {
			got = e.Response.Details.Reason
		}
		if status != 200 || e.Type != c.event || e.Response.Status != c.status || got != c.detail {
			t.Errorf("%s: %d %s", name, status, all[len(all)-1])
		}
	}
	w := newWorld(t, &fake{refuse: &upstream.Error{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "no money", NothingHappened: true}})
	if status, body := w.post("/v1/responses", respond(`"stream":true,"input":"go"`)); status != http.StatusTooManyRequests || !strings.Contains(body, "no money") {
		t.Errorf("%d %s", status, body)
	}
}

// TestResponsesRefused: what the door does not do is named, and begins nothing.
func TestResponsesRefused(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	for fields, param := range map[string]string{
		`"input":"x","background":true`: "background", `"input":"x","conversation":"c"`: "conversation", `"input":"x","prompt":{"id":"p"}`: "prompt", `"input":"x","top_logprobs":3`: "top_logprobs", `"stream":true`: "input",
		`"input":7`: "input", `"input":[{"type":"item_reference","id":"x"}]`: "input[0].type", `"input":[{"role":"user","content":[{"type":"input_file"}]}]`: "input[0].content[0].type", `"input":"x","instructions":{}`: "instructions",
		`"input":[{"type":"function_call","name":"x"}]`: "input[0]", `"input":[{"type":"function_call_output","output":"x"}]`: "input[0].call_id", `"input":"x","text":{"format":{"type":"xml"}}`: "text.format.type",
		`"input":"x","tools":[{"type":"function","name":"a"},{"type":"custom","name":"a"}]`: "tools[1].name", `"input":"x","tools":[{"type":"function","name":"a"}],"tool_choice":{"type":"web_search"}`: "tool_choice",
		`"input":"x","tools":[{"type":"web_search"}],"tool_choice":"required"`: "tool_choice", `"input":"x","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}`: "tool_choice",
		`"input":"x","tools":[{"type":"function","name":"a"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}`: "tool_choice",
		`"input":[{"role":"robot","content":"x"}]`: "messages[0].role",
	} {
		status, body := w.post("/v1/responses", respond(fields))
		if status != http.StatusBadRequest || !strings.Contains(body, fmt.Sprintf(`"param":%q`, param)) {
			t.Errorf("%s: %d %s", fields, status, body)
		}
	}
	if f.starts() != 0 {
		t.Errorf("%d turns began", f.starts())
	}
}

// TestResponsesQuiet: while nothing is said, events show that somebody is there. A repeat of a broken request meets its turn, whatever it says about
// itself.
func TestResponsesQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{gate: make(chan struct{}), say: func(upstream.Request) []upstream.Event {
			return []upstream.Event{{Kind: upstream.Text, Text: "(gate)"}, {Kind: upstream.Text, Text: "late"}, {Kind: upstream.Ended, Finish: "stop"}}
		}}
		w := newBareWorld(t, f)
		ctx, cut := context.WithTimeout(t.Context(), 25*time.Second)
		defer cut()
		resp, err := w.try(ctx, "/v1/responses", respond(`"stream":true,"input":"go","client_metadata":{"try":1}`))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		if n := strings.Count(string(raw), "event: keepalive"); n != 3 || !strings.Contains(string(raw), "event: response.created") {
			t.Errorf("%d signs in 25 seconds: %s", n, raw)
		}
		close(f.gate)
		status, body := w.post("/v1/responses", respond(`"stream":true,"input":"go","client_metadata":{"try":2}`))
		if status != 200 || !strings.Contains(body, "late") || f.starts() != 1 {
			t.Errorf("the repeat: %d %s; %d starts", status, body, f.starts())
		}
		w.stop()
	})
}
