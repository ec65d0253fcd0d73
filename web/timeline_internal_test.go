package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// What is tried again and again is one line, where it was tried last. The same word of another turn is another line.
func TestTold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &Page{o: Options{Now: func() time.Time { return now }}}
	of := func(seq int64, kind, turn, text string) api.Event {
		return api.Event{Seq: seq, At: now.Add(time.Duration(seq) * time.Second), Kind: kind, Agent: "agt_1", Name: "main", Turn: turn, Text: text}
	}
	all := p.told([]api.Event{
		of(7, bridge.EventRetry, "trn_2", "third"), of(6, bridge.EventReply, "trn_1", "done"), of(5, bridge.EventRetry, "trn_2", "second"),
		of(4, bridge.EventRetry, "trn_1", "elsewhere"), of(3, bridge.EventRetry, "trn_2", "first"), of(2, bridge.EventReply, "trn_1", "done"),
	})
	var got []string
	for _, k := range all {
		e := k.(event)
		got = append(got, e.Text)
		if e.Text == "third" && (e.Times() != 3 || e.Before[0].Text != "second" || e.Before[1].Text != "first" || !strings.Contains(e.Turn, "/agents/agt_1?turn=trn_2#trn_2")) {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"third", "done", "elsewhere", "done"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	later := p.told([]api.Event{of(8, bridge.EventRetry, "trn_2", "fourth")})
	if all[0].(event).Key != later[0].(event).Key {
		t.Error("the line of a turn that is tried again has another key each time")
	}
}

// An action that ended with another code than 0 is not shown as good.
func TestEventTone(t *testing.T) {
	t.Parallel()
	p := &Page{o: Options{Now: time.Now}}
	for code, want := range map[string]string{"0": "ok", "3": "bad", "-1": "bad"} {
		if got := p.eventOf(api.Event{Kind: bridge.EventExecuted, Fields: map[string]string{"exit_code": code}}).Tone; got != want {
			t.Errorf("exit code %s is %s, want %s", code, got, want)
		}
	}
}
