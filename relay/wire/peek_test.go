package wire_test

import (
	"testing"

	"drawbridge/relay/wire"
)

// A question about workspaces counts as a question alone: never as a turn, and a turn never as one. Malformed ones are refused.
func TestPeeks(t *testing.T) {
	t.Parallel()
	k := key("bridge")
	sign := func(use wire.TurnUse, ask wire.TurnAsk) wire.Signed {
		s, err := wire.SignTurn(k, wire.TurnOrder{ID: "x", Relay: "laptop", Created: now, For: wire.MaxAge, Use: use, Ask: ask})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	state := wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekState}}
	for use, ok := range map[wire.TurnUse]bool{wire.UsePeek: true, wire.UseRun: false, wire.UseLookup: false, wire.UseStop: false} {
		if _, err := verifier(k).VerifyTurn(sign(wire.UsePeek, state), use); (err == nil) != ok {
			t.Errorf("signed as a question and taken for %d: %v", use, err)
		}
		if _, err := verifier(k).VerifyTurn(sign(use, state), use); (err == nil) != ok {
			t.Errorf("a question signed for %d: %v", use, err)
		}
	}
	for _, use := range []wire.TurnUse{wire.UseRun, wire.UseLookup, wire.UseStop} {
		over := wire.TurnAsk{Agent: "a", Session: "s", Over: true}
		if _, err := verifier(k).VerifyTurn(sign(use, over), use); (err == nil) != (use == wire.UseStop) {
			t.Errorf("the end of a session in %d: %v", use, err)
		}
	}
	for name, c := range map[string]struct {
		ask wire.TurnAsk
		ok  bool
	}{
		"all workspaces":          {wire.TurnAsk{Peek: wire.Peek{What: wire.PeekAll}}, true},
		"a file":                  {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekFile, Path: "x"}}, true},
		"a file without a path":   {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekFile}}, false},
		"a state with a path":     {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekState, Path: "x"}}, false},
		"steps":                   {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekLive, After: 7}}, true},
		"steps before the first":  {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekLive, After: -1}}, false},
		"a state after a step":    {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekState, After: 7}}, false},
		"a file of nobody's":      {wire.TurnAsk{Peek: wire.Peek{What: wire.PeekFile, Path: "x"}}, false},
		"nothing":                 {wire.TurnAsk{Agent: "a", Session: "s"}, false},
		"something else":          {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: "remove"}}, false},
		"a path that is too long": {wire.TurnAsk{Agent: "a", Session: "s", Peek: wire.Peek{What: wire.PeekFile, Path: string(make([]byte, 5000))}}, false},
	} {
		if _, err := verifier(k).VerifyTurn(sign(wire.UsePeek, c.ask), wire.UsePeek); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		found wire.TurnFound
		ok    bool
	}{
		"an answer":           {wire.TurnFound{ID: "x", Known: wire.TurnKnownPeeked, Peeked: &wire.Peeked{Data: "[]"}}, true},
		"an error":            {wire.TurnFound{ID: "x", Known: wire.TurnKnownPeeked, Peeked: &wire.Peeked{Error: "no", Missing: true}}, true},
		"both":                {wire.TurnFound{ID: "x", Known: wire.TurnKnownPeeked, Peeked: &wire.Peeked{Data: "[]", Error: "no"}}, false},
		"none":                {wire.TurnFound{ID: "x", Known: wire.TurnKnownPeeked}, false},
		"beside another word": {wire.TurnFound{ID: "x", Known: wire.TurnKnownOpen, Peeked: &wire.Peeked{Data: "[]"}}, false},
	} {
		if c.found.Valid("x") != c.ok {
			t.Errorf("%s: taken is %t", name, !c.ok)
		}
	}
}
