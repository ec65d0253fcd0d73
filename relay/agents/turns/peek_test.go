package turns_test

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// A bridge may look at the workspaces of a relay, and at a file below the folder in which a session works. The attacks: links, .git, other
// folders, other agents, devices, and a file that is too large.
func TestPeek(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "slots: 3"}}, nil)
	w.answers(turn("ada", "t1", "do: sh mkdir -p docs; echo plan >docs/plan; echo two >two; git add two; git commit -qm two; ln -s /etc/passwd link; ln -s docs dir; ln two hard; truncate -s 5M large; mkfifo pipe"), "")
	kid := turn("kid", "t2", "do: sh echo mine >own")
	kid.Home = wire.Home{Name: "kid", Within: "ada", Subdir: "docs"}
	w.answers(kid, "")
	dir := filepath.Join(w.config.State, "workspaces", "ada", "tree")
	peek := func(turn wire.Turn, what wire.PeekWhat, path string) wire.Peeked {
		turn.Text, turn.Peek = "", wire.Peek{What: what, Path: path}
		return w.PeekTurn(t.Context(), turn)
	}
	ada := turn("ada", "p1", "")
	for path, want := range map[string]string{"docs/plan": "plan\n", "./docs/plan": "plan\n", filepath.Join(dir, "docs/plan"): "plan\n"} {
		got := peek(ada, wire.PeekFile, path)
		if data, err := base64.StdEncoding.DecodeString(got.Data); err != nil || string(data) != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := peek(kid, wire.PeekFile, "own"); got.Data == "" {
		t.Errorf("a file of the folder below: %+v", got)
	}
	for _, path := range []string{"link", "dir/plan", "../ada/two", "docs/../two", ".git/config", "/etc/passwd", filepath.Join(dir, "../two"), "missing", "large", "pipe", "docs", "hard", "."} {
		if got := peek(ada, wire.PeekFile, path); got.Error == "" || got.Data != "" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := peek(kid, wire.PeekFile, "../two"); got.Data != "" {
		t.Errorf("a relative path above the folder: %+v", got)
	}
	if got := peek(kid, wire.PeekFile, filepath.Join(dir, "two")); !strings.Contains(got.Error, "outside of the folder in which you work") {
		t.Errorf("a file above the folder: %+v", got)
	}
	other := ada
	other.Agent = "other"
	if got := peek(other, wire.PeekFile, "docs/plan"); !got.Missing {
		t.Errorf("by another agent: %+v", got)
	}
	if got := peek(turn("nobody", "p2", ""), wire.PeekState, ""); !got.Missing {
		t.Errorf("a session that never was: %+v", got)
	}
	var one turns.Found
	if err := json.Unmarshal([]byte(peek(ada, wire.PeekState, "").Data), &one); err != nil || one.Clean || one.Agent != "ada" || one.State.Untracked == 0 {
		t.Errorf("%+v %v", one, err)
	}
	var all []turns.Found
	if err := json.Unmarshal([]byte(peek(wire.Turn{}, wire.PeekAll, "").Data), &all); err != nil || len(all) != 1 || all[0].State.Path != dir {
		t.Errorf("%+v %v", all, err)
	}
}

// TestPeekSaysThatThereIsMore: a list that is not whole says so in an entry without a name.
func TestPeekSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {}}, nil)
	w.answers(turn("ada", "t1", "do: say hello"), "hello")
	w.answers(turn("bob", "t2", "do: say hello"), "hello")
	list := func(most int) (all []turns.Found) {
		text, err := w.PeekAtMost(t.Context(), most)
		if err == nil {
			err = json.Unmarshal([]byte(text), &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := list(2); len(all) != 2 || all[1].Agent != "bob" {
		t.Errorf("a whole list: %+v", all)
	}
	all := list(1)
	if len(all) != 2 || all[0].Agent != "ada" || all[1].Agent != "" || !strings.Contains(all[1].Error, "1 of its 2 workspaces") {
		t.Errorf("a list that is not whole: %+v", all)
	}
}

// TestLive: people who watch see what an agent does in its turn, step by step, and each step once. Other sessions' steps stay theirs.
func TestLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {}}, nil)
	live := func(session string, after int64) (l wire.Live, all []string) {
		ask := turn(session, "p1", "")
		ask.Text, ask.Peek = "", wire.Peek{What: wire.PeekLive, After: after}
		if err := json.Unmarshal([]byte(w.PeekTurn(t.Context(), ask).Data), &l); err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Steps {
			all = append(all, strings.TrimSpace(s.Turn+" "+s.Kind+" "+s.Tool+" "+s.Text))
		}
		return l, all
	}
	if _, steps := live("ada", 0); len(steps) > 0 {
		t.Errorf("before any turn: %q", steps)
	}
	dir := filepath.Join(w.config.State, "workspaces", "ada", "tree")
	w.answers(turn("ada", "t1", "do: say one\ndo: tool make -C "+dir+"/sub\ndo: say two"), "one\ntwo")
	w.answers(turn("bob", "t2", "do: say hello"), "hello")
	l, steps := live("ada", 0)
	want := []string{"t1 says  one", "t1 uses execute make -C sub", "t1 says  two"}
	if !slices.Equal(steps, want) || l.Turn != "" || l.Missed {
		t.Errorf("%q, %+v; want %q", steps, l, want)
	}
	w.answers(turn("ada", "t3", "do: tool make -C /usr\ndo: say again"), "again")
	if _, more := live("ada", l.Steps[len(l.Steps)-1].Seq); !slices.Equal(more, []string{"t3 uses execute make -C /usr", "t3 says  again"}) {
		t.Errorf("after those: %q", more)
	}
}
