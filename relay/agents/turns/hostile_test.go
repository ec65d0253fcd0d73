package turns_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// An agent that was replaced by one that speaks another version of the protocol ends its next turn with that as the cause. Once it speaks ours
// again, the session goes on, and the turn that it never got is said.
func TestVersionChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.answers(turn("ada", "t1", "do: say one"), "one")
	w.again()
	a := w.config.Agents["fake"]
	before := a.Env
	a.Env = append(slices.Clone(before), settings.EnvVar{Name: "ACPAGENT_START", Value: "version2"})
	w.config.Agents["fake"] = a // the host has the same map
	if end := w.run(turn("ada", "t2", "do: say two")); end.Cause != wire.TurnCrashed || !strings.Contains(end.Error, "version 2 of the protocol; this relay speaks version 1") {
		t.Errorf("%+v", end)
	}
	a.Env = before
	w.config.Agents["fake"] = a
	w.answers(turn("ada", "t3", "do: say three"), "three")
	if w.count(acpagent.Opened) != 1 || w.said("[bridge t2]") != 0 {
		t.Error("another session was begun, or the turn was said")
	}
}

// A program that is gone is a recorded end. Once it is back, a turn with the same marker is said.
func TestMissingProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {}, "good": {}}, nil)
	program := w.config.Agents["fake"].Argv[0]
	gone := filepath.Join(filepath.Dir(w.dir), "gone")
	w.must(os.Symlink(program, gone))
	w.config.Agents["fake"].Argv[0] = gone // the host has the same map
	w.must(os.Remove(gone))
	first := turn("ada", "t1", "do: say one")
	if end := w.run(first); end.Cause != wire.TurnCrashed || !strings.Contains(end.Error, gone) {
		t.Errorf("%+v", end)
	}
	other := turn("bob", "t1", "do: say fine")
	other.Agent = "good"
	w.answers(other, "fine")
	w.config.Agents["fake"].Argv[0] = program
	first.ID, first.BodyHash = "t2", "another"
	w.answers(first, "one")
}

// A session that the agent lost ends the turn as gone, and the next turn begins a new one. A session that is loaded with nothing in it is
// gone, too.
func TestLostSessions(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{"missing": os.Remove, "empty": func(path string) error { return os.Truncate(path, 0) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {env: map[string]string{"ACPAGENT_SESSIONS": "load"}}}, nil)
			w.answers(turn("ada", "t1", "do: say one"), "one")
			w.again()
			list, err := filepath.Glob(filepath.Join(w.config.AgentHome("fake"), "sessions", "*.jsonl"))
			if err != nil || len(list) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			w.must(lose(list[0]))
			if end := w.run(turn("ada", "t2", "do: say two")); end.Cause != wire.TurnSessionGone {
				t.Errorf("%+v", end)
			}
			w.answers(turn("ada", "t3", "do: say three"), "three")
			if w.count(acpagent.Opened) != 2 || w.said("[bridge t2]") != 0 {
				t.Error("no new session was begun, or the turn was said into the void")
			}
		})
	}
}

// An agent may send the history of a session after it has answered session/load. What it said in earlier turns is not the answer to the
// next one: it may hold commands.
func TestLateHistory(t *testing.T) {
	t.Parallel()
	for sessions, cause := range map[string]wire.TurnCause{"late": wire.TurnAnswered, "later": wire.TurnCrashed} {
		t.Run(sessions, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {env: map[string]string{"ACPAGENT_SESSIONS": sessions}}}, nil)
			w.answers(turn("ada", "t0", "do: say zero"), "zero")
			w.answers(turn("ada", "t1", "do: say SUBAG", "do: say ENT: repo=local/app, prompt=again"), "SUBAGENT: repo=local/app, prompt=again")
			w.again()
			end := w.run(turn("ada", "t2", "do: say two"))
			if end.Cause != cause || strings.Contains(end.Text, "SUBAGENT") || cause == wire.TurnAnswered && end.Text != "two" || strings.Contains(end.Evidence, "noticed") {
				t.Errorf("%+v", end)
			}
			w.again()
			if w.said("do: say ENT") != 1 {
				t.Error("the first turn was said again")
			}
		})
	}
}

// sloppy opens conversations whose agent writes what it should not: noise in its output, and words between two turns.
type sloppy struct {
	turns.Driver
	belated chan struct{}
	mu      sync.Mutex // guards late
	late    string
}

type sloppyTalk struct {
	turns.Conversation
	of *sloppy
}

func (d *sloppy) Open(ctx context.Context, o turns.Opening) (turns.Conversation, error) {
	c, err := d.Driver.Open(ctx, o)
	return sloppyTalk{c, d}, err
}

func (c sloppyTalk) Prompt(ctx context.Context, text string) (acp.Answer, error) {
	a, err := c.Conversation.Prompt(ctx, text)
	a.Noise = agents.Noise{Lines: 2, First: "a banner"}
	return a, err
}

func (c sloppyTalk) Late() (late string) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	late, c.of.late = c.of.late, ""
	return late
}

func (c sloppyTalk) Belated() <-chan struct{} { return c.of.belated }

// writes is what the agent does after its turn.
func (d *sloppy) writes(text string) {
	d.mu.Lock()
	d.late = text
	d.mu.Unlock()
	d.belated <- struct{}{}
}

// What an agent writes beside its answers is told once, over a restart of the relay, too: words that came too late to the agent and in the
// evidence, noise in the evidence. The record has the words while the process still waits for its next turn.
func TestNoticed(t *testing.T) {
	t.Parallel()
	d := &sloppy{belated: make(chan struct{}, 1)}
	w := newWorld(t, nil, func(o *turns.Options) {
		d.Driver = o.Drivers[settings.AgentACP]
		o.Drivers = map[string]turns.Driver{settings.AgentACP: d}
	})
	const noise, late = "in 2 lines of the agent's output; the first begins: a banner", "after the end of an earlier turn the agent wrote: LOCAL_ACTION: x"
	for n, want := range [][]bool{{true, false}, {false, true}, {false, false}} {
		if n == 1 {
			d.writes("LOCAL_ACTION: x\n")
			w.eventually("the record has the late words", func() bool {
				record, err := os.ReadFile(w.recordFile())
				return err == nil && strings.Contains(string(record), `"late":"LOCAL_ACTION: x"`)
			})
			w.again()
		}
		end := w.answers(turn("ada", fmt.Sprint("t", n), "do: say done"), "done")
		if got := []bool{strings.Contains(end.Evidence, noise), strings.Contains(end.Evidence, late)}; !slices.Equal(got, want) {
			t.Errorf("turn %d tells of noise and late words: %v, want %v: %s", n, got, want, end.Evidence)
		}
	}
	if w.said("no command in it ran:\n| LOCAL_ACTION: x") != 1 {
		t.Error("the agent did not hear what came too late")
	}
}

// A turn that may not run is refused in words that say what to add to relay.yaml, and reaches no agent.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {}, "other": {}}, nil)
	w.answers(turn("ada", "t0", "do: say here"), "here")
	w.close()
	text, err := os.ReadFile(w.config.File)
	w.must(err)
	secret := filepath.Join(w.dir, "secret")
	w.git(w.dir, "init", "-q", secret)
	text = append(text, []byte("  local/secret: { clone: '"+secret+"', agents: [other] }\n")...)
	w.must(os.WriteFile(w.config.File, text, 0o600))
	w.open()
	for name, c := range map[string]struct {
		change func(*wire.Turn)
		why    wire.Refusal
		words  string
	}{
		"an agent that is not listed": {func(t *wire.Turn) { t.Agent = "nobody" }, wire.RefusedUnlisted, `agent "nobody" is not listed in `},
		"a repository that is not listed": {func(t *wire.Turn) { t.Home.Repo = "github.com/me/app" }, wire.RefusedUnlisted,
			"add it: repos: { github.com/me/app: { clone: /path/to/your/clone, agents: [fake] } }"},
		"an agent that is not allowed":   {func(t *wire.Turn) { t.Home.Repo = "local/secret" }, wire.RefusedUnlisted, "add it to repos: local/secret: agents:"},
		"a parent that is not there":     {func(t *wire.Turn) { t.Home = wire.Home{Name: "kid", Within: "nobody"} }, wire.RefusedUnsafe, "has no workspace"},
		"a branch that is not there":     {func(t *wire.Turn) { t.Home.Ref = "nowhere" }, wire.RefusedUnsafe, `has no branch "nowhere"`},
		"no marker":                      {func(t *wire.Turn) { t.Marker = "" }, wire.RefusedInvalid, "marker"},
		"a marker that the text lacks":   {func(t *wire.Turn) { t.Marker = "[bridge other]" }, wire.RefusedInvalid, "marker"},
		"a folder that leads out":        {func(t *wire.Turn) { t.Home = wire.Home{Name: "kid", Within: "ada", Subdir: ".git/hooks"} }, wire.RefusedUnsafe, "repository"},
		"another agent of a session":     {func(t *wire.Turn) { t.Session, t.Agent = "ada", "other" }, wire.RefusedConflict, "begin a new session"},
		"another workspace of a session": {func(t *wire.Turn) { t.Session, t.Home.Name = "ada", "elsewhere" }, wire.RefusedConflict, "another workspace"},
		"another text under an id":       {func(t *wire.Turn) { t.Session, t.ID, t.BodyHash, t.Home.Name = "ada", "t0", "another", "ada" }, wire.RefusedConflict, "another text"},
	} {
		tn := turn("new", "t1", "do: say never")
		c.change(&tn)
		if end := w.run(tn); end.Refusal != c.why || !strings.Contains(end.Error, c.words) {
			t.Errorf("%s: %+v", name, end)
		}
	}
	lost := turn("lost", "t1", "do: say never")
	lost.Home = wire.Home{}
	if end := w.run(lost); end.Cause != wire.TurnSessionGone {
		t.Errorf("a session without a record: %+v", end)
	}
	if n := w.said("never"); n != 0 {
		t.Errorf("%d refused turns were said", n)
	}
	// An agent works in the workspace of its parent only where it may work on that clone.
	parent := turn("par", "t2", "do: say here")
	parent.Agent, parent.Home.Repo = "other", "local/secret"
	w.answers(parent, "here")
	child := turn("kid", "t3", "do: say never")
	child.Home = wire.Home{Name: "kid", Within: "par"}
	if end := w.run(child); end.Refusal != wire.RefusedUnlisted || !strings.Contains(end.Error, "repos: local/secret: agents:") {
		t.Errorf("%+v", end)
	}
}

// A reviewer reads its parent's workspace and changes nothing there. Without a sandbox it does not start.
func TestReviewer(t *testing.T) {
	t.Parallel()
	if ability().Landlock == 0 && ability().Bubblewrap == "" {
		t.Skip("SKIPPED: nothing limits files here")
	}
	w := newWorld(t, map[string]entry{"fake": {more: "slots: 3, sandbox: {}"}, "open": {}}, nil)
	w.answers(turn("ada", "t1", "do: sh echo 1 >one; mkdir docs"), "")
	for name, home := range map[string]wire.Home{"kid": {Name: "kid", Within: "ada", ReadOnly: true}, "tim": {Name: "tim", Within: "ada", Subdir: "docs", ReadOnly: true}, "own": {Name: "own", Repo: "local/app", ReadOnly: true}} {
		reviewer := turn(name, "r"+name, "do: sh ls >/dev/null; echo 2 >$HOME/kept; if echo 2 >two; then exit 7; fi; if rm -r *; then exit 8; fi")
		reviewer.Home = home
		if name != "kid" {
			reviewer.Text = strings.Replace(reviewer.Text, "if rm -r *; then exit 8; fi", "true", 1)
		}
		w.answers(reviewer, "")
	}
	w.answers(turn("ada", "t2", "do: sh test -e one; test ! -e two; echo 3 >three"), "")
	asks := turn("ann", "t3", "do: say never")
	asks.Agent, asks.Home = "open", wire.Home{Name: "ann", Within: "ada", ReadOnly: true}
	if end := w.run(asks); end.Cause != wire.TurnCrashed || !strings.Contains(end.Error, "its sandbox cannot keep the workspace read-only here: the entry has no sandbox") {
		t.Errorf("%s %s", end.Cause, end.Error)
	}
}

// An agent works in its parent's workspace, or in a folder below it, which the relay makes; its commits are the parent's branch's.
func TestWithinAParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "slots: 3"}}, nil)
	w.answers(turn("ada", "t1", "do: sh echo 1 >one; git add one; git commit -qm one"), "")
	kid := turn("kid", "t2", "do: sh echo 2 >two; git add two; git commit -qm two")
	kid.Home = wire.Home{Name: "kid", Within: "ada", Subdir: "docs/api"}
	if end := w.answers(kid, ""); !strings.Contains(end.Evidence, `"total":1`) || !strings.Contains(end.Evidence, `"path":"docs/api/two"`) || strings.Contains(end.Evidence, `"path":"one"`) {
		t.Errorf("%s", end.Evidence)
	}
	if got := w.git(w.clone, "ls-tree", "-r", "--name-only", "drawbridge/ada"); got != "docs/api/two\none" {
		t.Errorf("the parent's branch has %q", got)
	}
	same := turn("tim", "t3", "do: sh test -e one")
	same.Home = wire.Home{Name: "tim", Within: "ada"}
	w.answers(same, "")
	if _, err := os.Stat(filepath.Join(w.config.State, "workspaces", "kid")); err == nil {
		t.Error("the child got a workspace of its own")
	}
}
