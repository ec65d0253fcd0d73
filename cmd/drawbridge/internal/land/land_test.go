package land_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/cmd/drawbridge/internal/land"
)

// clone is a clone of a person, in which an agent has a branch with a commit that adds "new" and changes "both".
type clone struct {
	t    *testing.T
	work land.Work
}

func newClone(t *testing.T) *clone {
	c := &clone{t, land.Work{Agent: "ada", Home: "ada-123456", Clone: t.TempDir()}}
	c.git("init", "-q", "-b", "main")
	c.git("config", "user.name", "me")
	c.git("config", "user.email", "me@example.com")
	c.commit("both", "one")
	c.git("switch", "-q", "-c", c.work.Branch())
	c.write("new", "by the agent")
	c.commit("both", "the agent's")
	c.git("switch", "-q", "main")
	c.look()
	return c
}

func (c *clone) look() {
	c.t.Helper()
	var err error
	if c.work, err = c.work.Refs(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", append([]string{"-C", c.work.Clone}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *clone) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.work.Clone, name), []byte(text+"\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) commit(name, text string) {
	c.t.Helper()
	c.write(name, text)
	c.git("add", "--all")
	c.git("commit", "-q", "-m", text)
}

// state is everything that a merge which is refused leaves as it was.
func (c *clone) state() string {
	c.t.Helper()
	return c.git("status", "--porcelain=v2", "--branch") + c.git("for-each-ref") + c.git("diff", "HEAD")
}

// A merge happens whole, or nothing changes and the error says what to do.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*clone)
		wrong  string
	}{
		"forward":             {func(*clone) {}, ""},
		"beside other work":   {func(c *clone) { c.commit("mine", "x") }, ""},
		"beside a new file":   {func(c *clone) { c.write("loose", "x") }, ""},
		"both changed a line": {func(c *clone) { c.commit("both", "mine") }, "your changes and those of the agent conflict in \"both\"; to merge by hand: git -C "},
		"changes without a commit": {func(c *clone) { c.write("both", "x") },
			"1 file has uncommitted changes in "},
		"a new file in the way": {func(c *clone) { c.write("new", "x") }, "nothing was merged: error: The following untracked working tree files would be overwritten"},
		"a hook that refuses": {func(c *clone) {
			c.commit("mine", "x")
			hook := filepath.Join(c.work.Clone, ".git", "hooks", "pre-merge-commit")
			if err := os.WriteFile(hook, []byte("#!/bin/sh\necho not today >&2\nexit 1\n"), 0o700); err != nil {
				c.t.Fatal(err)
			}
		}, "nothing was merged: not today"},
		"in the middle of a merge": {func(c *clone) {
			c.git("switch", "-q", "-c", "other")
			c.commit("mine", "x")
			c.git("switch", "-q", "main")
			c.git("merge", "-q", "--no-ff", "--no-commit", "other")
		}, "is in the middle of a merge; finish it first: git -C "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClone(t)
			c.before(w)
			before := w.state()
			err := w.work.Merge(t.Context())
			if c.wrong == "" {
				if err != nil || w.git("show", "HEAD:new") != "by the agent" {
					t.Errorf("%v\n%s", err, w.state())
				}
				if commits, err := w.work.Commits(t.Context()); err != nil || len(commits) != 0 {
					t.Errorf("left after the merge: %q, %v", commits, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("the error is %v", err)
			}
			if now := w.state(); now != before {
				t.Errorf("it changed\n%s\nto\n%s", before, now)
			}
		})
	}
}

// Only a branch of a working tree is merged into.
func TestInto(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	if into, err := c.work.Into(t.Context()); into != "main" || err != nil {
		t.Errorf("%q, %v", into, err)
	}
	c.git("switch", "-q", "--detach")
	if _, err := c.work.Into(t.Context()); err == nil || !strings.Contains(err.Error(), "has no branch checked out; check one out first: git -C ") {
		t.Error(err)
	}
	c.commit("both", "other")
	c.git("config", "core.editor", "true")
	cmd := exec.CommandContext(t.Context(), "git", "-C", c.work.Clone, "rebase", c.work.Branch())
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("the rebase went through: %s", out)
	}
	if _, err := c.work.Into(t.Context()); err == nil || !strings.Contains(err.Error(), "is in the middle of a rebase; finish it first: git -C ") {
		t.Error(err)
	}
	c.git("config", "core.bare", "true")
	if _, err := c.work.Into(t.Context()); err == nil || !strings.Contains(err.Error(), "is a bare repository; clone it, and use the branch drawbridge/ada-123456 in that clone") {
		t.Error(err)
	}
}

// A diff has what the agent changed, not what the person did meanwhile, and runs no program that the clone's settings name.
func TestDiff(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	c.commit("mine", "x")
	c.commit(".gitattributes", "* diff=evil")
	c.git("config", "diff.evil.textconv", "echo converted; cat")
	c.git("config", "diff.external", "echo outside")
	var patch, stat bytes.Buffer
	if err := c.work.Diff(t.Context(), false, &patch); err != nil {
		t.Fatal(err)
	}
	if got := patch.String(); !strings.Contains(got, "+by the agent\n") || !strings.Contains(got, "-one\n+the agent's\n") || strings.Contains(got, "mine") || strings.Contains(got, "converted") || strings.Contains(got, "outside") {
		t.Error(got)
	}
	if err := c.work.Diff(t.Context(), true, &stat); err != nil || !strings.Contains(stat.String(), "2 files changed") {
		t.Error(stat.String(), err)
	}
	commits, err := c.work.Commits(t.Context())
	if err != nil || len(commits) != 1 || !strings.HasSuffix(commits[0], " the agent's") {
		t.Errorf("%q, %v", commits, err)
	}
	empty := newClone(t)
	empty.git("switch", "-q", "--orphan", "nothing")
	patch.Reset()
	if err := empty.work.Diff(t.Context(), false, &patch); err != nil || !strings.Contains(patch.String(), "+by the agent\n") {
		t.Errorf("against a branch without a commit: %v\n%s", err, patch.String())
	}
	if commits, err := empty.work.Commits(t.Context()); err != nil || len(commits) != 2 {
		t.Errorf("%q, %v", commits, err)
	}
}

// What is on no other branch is said, and its code is another one after each change. Deleted is what was looked at, and nothing else.
func TestNowhereElse(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	kept := "refs/drawbridge/ada-123456/" + c.git("commit-tree", "-p", "main", "-m", "kept", "main^{tree}")
	c.git("update-ref", kept, filepath.Base(kept))
	c.git("update-ref", "refs/drawbridge/ada-1234567/x", "main") // another agent's
	c.look()
	loses := func(line string) string {
		t.Helper()
		l, err := land.NowhereElse(t.Context(), []land.Work{c.work})
		if err != nil || strings.Join(l.Lines, "\n") != line || (l.Code == "") != (line == "") {
			t.Errorf("lost would be %q, %v, not %q", l, err, line)
		}
		return l.Code
	}
	code := loses("ada would lose 2 commits that no other branch or tag has")
	c.git("merge", "-q", c.work.Branch())
	if loses("ada would lose 1 commit that no other branch or tag has") == code {
		t.Error("the code stands for something else, too")
	}
	c.git("tag", "elsewhere", kept)
	loses("")
	c.work.Unsaved = []string{"1 untracked file"}
	loses("ada would lose 1 untracked file")
	kid := land.Work{Agent: "kid", Home: "kid-123456", Clone: c.work.Clone} // an agent under it has the commit, and goes, too
	c.git("branch", kid.Branch(), kept)
	c.git("tag", "-d", "elsewhere")
	loses("ada would lose 1 untracked file")
	if l, err := land.NowhereElse(t.Context(), []land.Work{c.work, kid}); err != nil || len(l.Lines) != 1 || l.Lines[0] != "ada would lose 1 untracked file, 1 commit that no other branch or tag has" {
		t.Errorf("with the agent under it: %q, %v", l, err)
	}
	c.git("tag", "elsewhere", kept)
	c.git("branch", "-D", kid.Branch())
	c.git("switch", "-q", c.work.Branch())
	if _, err := land.NowhereElse(t.Context(), []land.Work{c.work}); err == nil || !strings.Contains(err.Error(), "is checked out in") {
		t.Error(err)
	}
	c.commit("more", "after the look")
	c.git("switch", "-q", "main")
	if err := c.work.Drop(t.Context()); err == nil {
		t.Error("a branch that moved was deleted")
	}
	c.look()
	for range 2 {
		if err := c.work.Drop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if refs := c.git("for-each-ref", "--format=%(refname)"); refs != "refs/drawbridge/ada-1234567/x\nrefs/heads/main\nrefs/tags/elsewhere" {
		t.Errorf("left: %q", refs)
	}
}

// The commands and addresses for a pull request work as they are shown.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	for remote, page := range map[string]string{
		"": "", "/srv/app.git": "", "git@github.com:Me/My-App.git": "https://github.com/me/my-app/compare/drawbridge/ada-123456?expand=1",
	} {
		c := newClone(t)
		if remote != "" {
			c.git("remote", "add", "upstream", remote)
		}
		push, got := c.work.PullRequest(t.Context())
		if got != page || (push == "") != (remote == "") || remote != "" && push != "git -C "+c.work.Clone+" push upstream drawbridge/ada-123456" {
			t.Errorf("%q: %q %q", remote, push, got)
		}
	}
}
