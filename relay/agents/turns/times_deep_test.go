//go:build deep

package turns_test

import (
	"strings"
	"testing"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// An agent that takes too long, or is silent for too long, is ended with the cause hung; one that runs a tool is not silent. The
// limits leave a busy machine the seconds that it needs to start a process and to answer.
func TestHung(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more, script, reason string
		cause                wire.TurnCause
	}{
		"too long":     {"turn_timeout: 10s", "do: busy 10m", "turn_timeout (10s)", wire.TurnHung},
		"silent":       {"silent_after: 10s", "do: hang", "silent_after (10s)", wire.TurnHung},
		"deaf":         {"silent_after: 10s", "do: deaf", "silent_after (10s)", wire.TurnHung},
		"a long tool":  {"silent_after: 10s", "do: busy 11s", "", wire.TurnAnswered},
		"a dead model": {"silent_after: 10s", "do: busy 100ms\ndo: hang", "silent_after (10s)", wire.TurnHung},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {more: c.more}}, nil)
			end := w.run(turn("ada", "t1", c.script))
			if end.Cause != c.cause || !strings.Contains(end.Error, c.reason) {
				t.Errorf("%+v", end)
			}
			if c.cause == wire.TurnHung && w.Processes() != 0 {
				t.Error("the process lives")
			}
			w.answers(turn("ada", "t2", "do: say on"), "on")
		})
	}
}

// The time in which a person is asked is not the turn's; the turn shows as asking. A question that is open for ask_hold ends the process.
func TestAsking(t *testing.T) {
	t.Parallel()
	p := &people{reply: make(chan acp.Reply)}
	w := newWorld(t, map[string]entry{
		"fake": {more: "turn_timeout: 10s, silent_after: 10s, ask_hold: 1h"}, "short": {more: "ask_hold: 3s"},
	}, func(o *turns.Options) { o.Asker = p })
	end := w.background(turn("ada", "t1", "do: ask execute make"))
	w.eventually("the person is asked for longer than the turn may take", func() bool {
		found := w.LookupTurn(turn("ada", "t1"))
		return found.State == wire.TurnAskingNow && found.SinceMS > 10500
	})
	p.reply <- acp.Allow
	if e := <-end; e.Cause != wire.TurnAnswered || e.Text != "asked for make: allow_once" {
		t.Errorf("%+v", e)
	}
	if len(p.asked) != 1 || p.asked[0].Agent != "fake" || p.asked[0].Session != "ada" || p.asked[0].Turn != "t1" || !strings.HasSuffix(p.asked[0].Dir, "/workspaces/ada/tree") {
		t.Errorf("asked for %+v", p.asked)
	}
	short := func(id, script string) wire.Turn {
		t := turn("bob", id, script)
		t.Agent = "short"
		return t
	}
	e := w.run(short("t2", "do: ask execute make"))
	if e.Cause != wire.TurnAsking || !strings.Contains(e.Error, "ask_hold (3s)") || w.Processes() != 1 { // the first agent's rests
		t.Errorf("%+v, %d processes", e, w.Processes())
	}
	w.answers(short("t3", "do: say on"), "on")
}
