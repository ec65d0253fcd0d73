package wire_test

import (
	"strings"
	"testing"

	"drawbridge/relay/wire"
)

// A turn says in one way where its agent works, with names that can be names of folders, branches and repositories.
func TestHomes(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]wire.Home{
		"none":             {},
		"a clone":          {Name: "ada", Repo: "github.com/me/my-app"},
		"a branch":         {Name: "ada-2", Repo: "local/notes", Ref: "feature/x"},
		"the parent's":     {Name: "bob", Within: "ada"},
		"below the parent": {Name: "bob", Within: "ada", Subdir: "docs/api"},
	} {
		if err := h.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, h := range map[string]wire.Home{
		"no name":            {Repo: "local/notes"},
		"no place":           {Name: "ada"},
		"two places":         {Name: "ada", Repo: "local/notes", Within: "bob"},
		"its own parent":     {Name: "ada", Within: "ada"},
		"a path":             {Name: "../ada", Repo: "local/notes"},
		"dots":               {Name: "a..b", Repo: "local/notes"},
		"a dot at the end":   {Name: "ada.", Repo: "local/notes"},
		"a lock":             {Name: "ada.lock", Repo: "local/notes"},
		"capitals":           {Name: "Ada", Repo: "local/notes"},
		"the parent's path":  {Name: "ada", Within: "a/b"},
		"a parent's branch":  {Name: "ada", Within: "bob", Ref: "main"},
		"a folder of a repo": {Name: "ada", Repo: "local/notes", Subdir: "docs"},
		"an option":          {Name: "ada", Repo: "local/notes", Ref: "--upload-pack=x"},
		"an option as repo":  {Name: "ada", Repo: "-local/notes"},
		"a line end":         {Name: "ada", Repo: "local/notes", Ref: "a\nb"},
		"a long branch":      {Name: "ada", Repo: "local/notes", Ref: strings.Repeat("a", 256)},
		"up":                 {Name: "ada", Within: "bob", Subdir: "a/../../b"},
		"absolute":           {Name: "ada", Within: "bob", Subdir: "/etc"},
		"a dot":              {Name: "ada", Within: "bob", Subdir: "./a"},
		"a slash at the end": {Name: "ada", Within: "bob", Subdir: "a/"},
		"only a folder":      {Subdir: "a"},
	} {
		if err := h.Check(); err == nil {
			t.Errorf("%s: %+v is fine", name, h)
		}
		k := key("bridge")
		s, err := wire.SignTurn(k, wire.TurnOrder{ID: "x", Relay: "laptop", Created: now, For: wire.MaxAge,
			Ask: wire.TurnAsk{Agent: "a", Session: "s", Marker: "m", Text: "t", Home: h}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifier(k).VerifyTurn(s, wire.UseRun); err == nil {
			t.Errorf("%s: a relay takes the turn", name)
		}
	}
}

// A name that is not UTF-8 is refused before JSON changes it.
func TestHomeOfBytes(t *testing.T) {
	t.Parallel()
	if err := (wire.Home{Name: "ada", Repo: "local/\xff"}).Check(); err == nil {
		t.Error("it is fine")
	}
}

// The signature of a turn counts for one use alone.
func TestUsesOfATurn(t *testing.T) {
	t.Parallel()
	k := key("bridge")
	uses := []wire.TurnUse{wire.UseRun, wire.UseLookup, wire.UseStop}
	for _, signed := range uses {
		s, err := wire.SignTurn(k, wire.TurnOrder{ID: "x", Relay: "laptop", Created: now, For: wire.MaxAge, Use: signed,
			Ask: wire.TurnAsk{Agent: "a", Session: "s", Marker: "m", Home: wire.Home{Name: "ada", Within: "bob", Subdir: "docs"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range uses {
			got, err := verifier(k).VerifyTurn(s, use)
			if (err == nil) != (use == signed) {
				t.Errorf("signed for %d and taken for %d: %v", signed, use, err)
			}
			if err == nil && got.Home != (wire.Home{Name: "ada", Within: "bob", Subdir: "docs"}) {
				t.Errorf("%+v", got.Home)
			}
		}
	}
}

// An end is unclear only where the process crashed, and a state belongs to an open turn alone.
func TestUnclearEndsAndStates(t *testing.T) {
	t.Parallel()
	if (wire.TurnEnded{ID: "x", Cause: wire.TurnAnswered, Unclear: true}).Valid("x") || (wire.TurnEnded{ID: "x", Refusal: wire.RefusedBusy, Unclear: true}).Valid("x") {
		t.Error("an unclear end with another cause")
	}
	end := &wire.TurnEnded{ID: "x", Cause: wire.TurnAnswered}
	for name, f := range map[string]wire.TurnFound{
		"an absent turn":  {ID: "x", Known: wire.TurnKnownAbsent, State: wire.TurnQueued},
		"an ended turn":   {ID: "x", Known: wire.TurnKnownEnded, Ended: end, State: wire.TurnWorking},
		"an unknown word": {ID: "x", Known: wire.TurnKnownOpen, State: "bored"},
		"before now":      {ID: "x", Known: wire.TurnKnownOpen, State: wire.TurnSilent, SinceMS: -1},
		"a time alone":    {ID: "x", Known: wire.TurnKnownOpen, SinceMS: 1},
	} {
		if f.Valid("x") {
			t.Errorf("%s: %+v is taken", name, f)
		}
	}
}

// The time to wait for comes with a limit or a refusal alone, and is a time.
func TestUntil(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end wire.TurnEnded
		ok  bool
	}{
		"a limit":         {wire.TurnEnded{ID: "x", Cause: wire.TurnLimited, Until: 5}, true},
		"a refusal":       {wire.TurnEnded{ID: "x", Refusal: wire.RefusedBusy, Until: 5}, true},
		"an answer":       {wire.TurnEnded{ID: "x", Cause: wire.TurnAnswered, Until: 5}, false},
		"before 1970":     {wire.TurnEnded{ID: "x", Cause: wire.TurnLimited, Until: -1}, false},
		"after all times": {wire.TurnEnded{ID: "x", Cause: wire.TurnLimited, Until: 1 << 60}, false},
	} {
		if got := c.end.Valid("x"); got != c.ok {
			t.Errorf("%s: %t", name, got)
		}
	}
}
