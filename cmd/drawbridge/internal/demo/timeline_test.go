package demo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// The attack: an agent's name, reply or near miss that holds an escape sequence,
// a line end or a reversal of direction, to paint something else over the story.
func TestTimelineIsHarmlessToATerminal(t *testing.T) {
	t.Parallel()
	const bad = "a\x1b[2J\rb\u202ec\u009bd\x07"
	for _, kind := range []string{bridge.EventReply, bridge.EventNearMiss, bridge.EventRefused, bridge.EventExecuted, bridge.EventCompleted, "something new"} {
		e := api.Event{Kind: kind, Name: bad, Text: bad, Fields: map[string]string{"text": bad, "line_text": bad, "output": bad, "status": bad}}
		var out bytes.Buffer
		if err := (&timeline{out: &out, start: time.Now()}).show(e); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "a?[2J?b?c?d?") || strings.ContainsAny(out.String(), "\x1b\r\u202e\u009b\x07") {
			t.Errorf("%s: %q", kind, out.String())
		}
	}
}

func TestTimelineAsJSONIsOneLineAnEvent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show := &timeline{out: &out, json: true}
	e := api.Event{Kind: bridge.EventReply, Text: "for the log", Fields: map[string]string{"text": "two\nlines <b>"}}
	if err := show.show(e); err != nil {
		t.Fatal(err)
	}
	show.say("a frame for people")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["event"] != bridge.EventReply || got["text"] != "two\nlines <b>" {
		t.Errorf("%v: %s", err, &out)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, &out)
	}
}
