package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"
)

// TestSteps: each tool of a turn is told once, with all that it is used on, however the agent says it. What nothing is known of is not told.
func TestSteps(t *testing.T) {
	t.Parallel()
	type said struct {
		in   saidIn
		text string
	}
	begin := func(text string) said { return said{inBegin, text} }
	update := func(text string) said { return said{inUpdate, text} }
	for name, c := range map[string]struct {
		said []said
		want []string
	}{
		"a tail of an earlier turn": {[]said{update(`{"toolCallId":"old","status":"failed"}`)}, nil},
		"several files":             {[]said{begin(`{"toolCallId":1,"kind":"edit","title":"Edit","status":"in_progress","locations":[{"path":"a"},{"path":7},{"path":"b"}]}`)}, []string{"uses edit a b"}},
		"a folder of a command":     {[]said{begin(`{"toolCallId":1,"kind":"execute","title":"bash","locations":[{"path":"/w"}]}`), update(`{"toolCallId":1,"status":"in_progress","rawInput":{"command":"make"}}`)}, []string{"uses execute make"}},
		"the end of the turn":       {[]said{begin(`{"toolCallId":1,"kind":"execute","title":"make","status":"pending"}`)}, []string{"uses execute make"}},
		"ids that come again":       {[]said{begin(`{"toolCallId":1,"title":"one","status":"completed"}`), update(`{"toolCallId":1,"title":"one","status":"completed"}`), begin(`{"toolCallId":1,"title":"two","status":"failed"}`)}, []string{"uses one ", "uses two ", "fails two "}},
		"a question alone":          {[]said{{inQuestion, `{"toolCallId":"q","kind":"read","rawInput":{"path":"/w/a"}}`}}, []string{"uses read /w/a"}},
		"two questions of one call": {[]said{begin(`{"toolCallId":1,"kind":"execute","rawInput":{"command":"a"}}`), {inQuestion, `{"toolCallId":1,"rawInput":{"command":"b"}}`}}, []string{"uses execute a", "uses execute b"}},
		"other forms":               {[]said{begin(`{"toolCallId":1,"kind":7,"title":["x"],"status":{},"rawInput":"x","locations":"y"}`), update(`{}`), update(`{"toolCallId":null}`)}, nil},
	} {
		var did []string
		s := newSteps(func(s agents.Step) { did = append(did, fmt.Sprintf("%s %s %s", s.Kind, s.Tool, s.Text)) })
		for _, each := range c.said {
			var call called
			if err := json.Unmarshal([]byte(each.text), &call); err != nil {
				t.Fatal(err)
			}
			s.tool(call, each.in)
		}
		s.end()
		if !slices.Equal(did, c.want) {
			t.Errorf("%s: %q, want %q", name, did, c.want)
		}
	}
}

// TestManySteps: after any number of tools the next one is told. Calls without an end are bounded.
func TestManySteps(t *testing.T) {
	t.Parallel()
	var did []agents.Step
	s := newSteps(func(s agents.Step) { did = append(did, s) })
	say := func(n int, status string) {
		s.tool(called{ID: json.RawMessage(fmt.Sprint(n)), Title: field(fmt.Sprint("tool ", n)), Status: field(status)}, inBegin)
		s.words("I go on.", true)
	}
	for n := range 3 * maxTools {
		say(n, "completed")
	}
	if last := did[len(did)-1]; last.Tool != fmt.Sprint("tool ", 3*maxTools-1) || len(s.calls) > maxTools {
		t.Errorf("the last is %+v, %d calls are kept", last, len(s.calls))
	}
	for n := range 2 * maxTools {
		say(10_000+n, "pending")
	}
	if len(s.calls) > maxTools {
		t.Errorf("%d calls are kept", len(s.calls))
	}
}

func field(text string) (v loosejson.Value[string]) {
	v.Is = text
	return v
}
