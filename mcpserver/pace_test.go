package mcpserver_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// TestTooManyCalls: an agent that calls tools without end is refused whichever they are, under all of its tokens, and others
// are not. It guards against records that grow with each of those calls: they are counted, and the timeline tells how many.
func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetChannels, mcpserver.SetTeam}
	door := w.serve(func(o *mcpserver.Options) { o.PerMinute = 3 })
	main, other := w.launch("main"), w.launch("other")
	first := w.connect("main", newEra, "")
	for range 3 {
		good[any](w, first, "do_nothing", nil)
	}
	w.mint(main)
	second := w.connect("main", oldEra, "")
	for _, tool := range []string{"do_nothing", "send_message"} {
		r := w.call(second, tool, args{"recipient": "USER", "text": "Hello."})
		if !r.IsError || !strings.HasPrefix(words(r), "rate_limited: you called tools 3 times within a minute, which is the limit; call again in ") {
			t.Errorf("%s: %s", tool, words(r))
		}
	}
	good[any](w, w.connect("other", newEra, ""), "do_nothing", nil)

	mcpserver.TellRefused(door, t.Context())
	mcpserver.TellRefused(door, t.Context()) // they are told once
	err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		for agent, want := range map[bridge.AgentID]int{main.ID: 6, other.ID: 2} { // a call and its return each
			turn, err := tx.CurrentTurn(agent)
			if err != nil {
				return err
			}
			if all, err := tx.RunMessages(turn.ID, 0, 0); err != nil || len(all) != want {
				t.Errorf("%d messages are on record, want %d: %v", len(all), want, err)
			}
		}
		events, err := tx.Events(0, 1000)
		told := 0
		for _, e := range events {
			if e.Kind == bridge.EventThrottled {
				told++
				if e.Agent != main.ID || e.Turn == "" || e.Fields["calls"] != "2" || e.Text != "refused 2 tool calls of main: it made more than 3 within a minute" {
					t.Errorf("told %+v", e)
				}
			}
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
