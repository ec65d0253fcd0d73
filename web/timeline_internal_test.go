package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// What is tried again and again is one line, where it was tried last. After an answer, or at another agent, it is another line.
func TestTold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &Page{o: Options{Now: func() time.Time { return now }}}
	of := func(seq int64, kind, agent, turn, text string) api.Event {
		return api.Event{Seq: seq, At: now.Add(time.Duration(seq) * time.Second), Kind: kind, Agent: agent, Name: agent, Turn: turn, Text: text}
	}
	events := []api.Event{
		of(8, bridge.EventRetry, "ada", "trn_3", "third"), of(7, bridge.EventTurnFailed, "ada", "trn_3", "broke"), of(6, bridge.EventRetry, "ada", "trn_2", "second"),
		of(5, bridge.EventRetry, "bob", "trn_9", "elsewhere"), of(4, bridge.EventRetry, "ada", "trn_1", "first"), of(3, bridge.EventReply, "ada", "trn_0", "done"), of(2, bridge.EventRetry, "ada", "trn_0", "before"),
	}
	all := p.told(events)
	var got []string
	for _, k := range all {
		e := k.(event)
		got = append(got, e.Text)
		if e.Text == "third" && (e.Times() != 3 || e.Before[0].Text != "second" || e.Before[1].Text != "first" || !strings.Contains(e.Turn, "/agents/ada?turn=trn_3#trn_3")) {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"third", "broke", "elsewhere", "done", "before"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Under Trouble no answer parts them.
	if parted := p.told([]api.Event{{Seq: 2, At: now, Kind: bridge.EventRetry, Agent: "ada"}, {Seq: 1, At: now.Add(-apart), Kind: bridge.EventRetry, Agent: "ada"}}); len(parted) != 2 {
		t.Errorf("what is tried again on another day is the same line: %+v", parted)
	}
	later := p.told(append([]api.Event{of(9, bridge.EventRetry, "ada", "trn_4", "fourth")}, events...))
	if all[0].(event).Key != later[0].(event).Key || later[0].(event).Times() != 4 {
		t.Errorf("the line becomes another one: %+v", later[0])
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
