//go:build deep

package turns_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/wire"
)

// What an agent does wrong ends its turn once, with a cause and a reason that the operator can act on. The next turn of the session has
// an end of its own. After an end of the process the turn goes on in the next one. Another agent of the relay is in the middle of a turn meanwhile, and ends it as if nothing had been.
func TestHostileAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env            map[string]string
		script, reason string
		cause          wire.TurnCause
		// next is the cause of the turn after it.
		next wire.TurnCause
	}{
		"garbage at the start":       {map[string]string{"ACPAGENT_START": "garbage"}, "", "", wire.TurnCrashed, wire.TurnCrashed},
		"an exit at the start":       {map[string]string{"ACPAGENT_START": "exit"}, "", "the configuration cannot be read", wire.TurnCrashed, wire.TurnCrashed},
		"another protocol":           {map[string]string{"ACPAGENT_START": "version2"}, "", "version 2 of the protocol", wire.TurnCrashed, wire.TurnCrashed},
		"no login":                   {map[string]string{"ACPAGENT_LOGIN": "missing"}, "", "log in", wire.TurnLoginMissing, wire.TurnLoginMissing},
		"a mode that asks nothing":   {map[string]string{"ACPAGENT_MODE": "open"}, "", "bypassPermissions", wire.TurnCrashed, wire.TurnCrashed},
		"some garbage":               {nil, "do: garbage 100\ndo: say fine", "", wire.TurnAnswered, wire.TurnAnswered},
		"100 MB on a line":           {nil, "do: line 100000000", "", wire.TurnCrashed, wire.TurnAnswered},
		"a million updates":          {nil, "do: updates 1000000", "updates", wire.TurnCrashed, wire.TurnAnswered},
		"an end without an answer":   {nil, "do: exit 0", "", wire.TurnAnswered, wire.TurnAnswered},
		"an end by a signal":         {nil, "do: kill", "", wire.TurnAnswered, wire.TurnAnswered},
		"a session that never was":   {nil, "do: elsewhere SUBAGENT: stray\ndo: say one", "", wire.TurnAnswered, wire.TurnAnswered},
		"two answers":                {nil, "do: twice\ndo: say one", "", wire.TurnAnswered, wire.TurnAnswered},
		"a word after the end":       {nil, "do: late SUBAGENT: late\ndo: say one", "", wire.TurnAnswered, wire.TurnAnswered},
		"an end that does not exist": {nil, "do: stop bored", "bored", wire.TurnCrashed, wire.TurnAnswered},
		"a refusal":                  {nil, "do: stop refusal", "refused", wire.TurnRefused, wire.TurnAnswered},
		"a limit":                    {nil, "do: error -32603 You've hit your usage limit", "limit", wire.TurnLimited, wire.TurnAnswered},
		"an error":                   {nil, "do: error -32603 Internal error", "Internal error", wire.TurnFailed, wire.TurnAnswered},
		"a reply that is too long":   {nil, "do: long 1200000", "1200000 bytes", wire.TurnRefused, wire.TurnAnswered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {env: c.env}, "good": {}}, nil)
			release := filepath.Join(w.dir, "release")
			other := turn("bob", "t1", "do: sh until test -e '"+release+"'; do sleep 0.05; done", "do: say fine")
			other.Agent = "good"
			meanwhile := w.background(other)
			w.eventually("the other agent works", func() bool {
				return slices.ContainsFunc(w.log("good"), func(l acpagent.Line) bool { return l.Event == acpagent.Prompted })
			})
			first := turn("ada", "t1", c.script)
			end := w.run(first)
			if strings.Contains(end.Text, "stray") {
				t.Errorf("it said %q", end.Text)
			}
			if end.Cause != c.cause || !strings.Contains(end.Error, c.reason) {
				t.Errorf("%s%s %q", end.Cause, end.Refusal, end.Error)
			}
			if again := w.run(first); again.Cause != end.Cause || again.Error != end.Error || !again.Replayed {
				t.Errorf("another end: %+v", again)
			}
			if next := w.run(turn("ada", "t2", "do: say on")); next.Cause != c.next || next.Cause == wire.TurnAnswered && next.Text != "on" {
				t.Errorf("the next turn: %+v", next)
			}
			w.must(os.WriteFile(release, nil, 0o600))
			if fine := <-meanwhile; fine.Cause != wire.TurnAnswered || fine.Text != "fine" {
				t.Errorf("the other agent: %+v", fine)
			}
		})
	}
}
