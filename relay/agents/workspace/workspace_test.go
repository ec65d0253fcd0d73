package workspace_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/agents/workspace"
)

// TestLifeOfAWorkspace: an agent gets a clone of its own, works, and its commits come back under its name.
func TestLifeOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	if on := git(t, s.Dir(), "symbolic-ref", "--short", "HEAD"); on != "drawbridge/ada" {
		t.Errorf("on %q", on)
	}
	if got := git(t, s.Dir(), "for-each-ref", "--format=%(refname)"); got != "refs/heads/drawbridge/ada\nrefs/remotes/origin/main" {
		t.Errorf("refs: %s", got)
	}
	if got := state(t, s); !got.Clean() || len(got.Unsaved()) != 0 || got.Code != "" || got.Bytes == 0 {
		t.Errorf("fresh: %+v", got)
	}
	tip := commit(t, s, "new", "new\n")
	if got := state(t, s); got.Unfetched != 1 || !got.Clean() || got.Code == "" {
		t.Errorf("after a commit: %+v", got)
	}
	f := fetch(t, s, false)
	if f.After != tip || f.Before != "" || len(f.Notes) != 0 || git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
		t.Errorf("fetched: %+v", f)
	}
	if got := git(t, w.clone, "status", "--porcelain"); got != "" {
		t.Errorf("the clone has %s", got)
	}
	if got := state(t, s); len(got.Unsaved()) != 0 {
		t.Errorf("after the fetch: %q", got.Unsaved())
	}
	must(t, w.store.Remove(t.Context(), "ada", ""))
	if exists(s.Dir()) || git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
		t.Error("the removal took too little or too much")
	}
	// The same agent again goes on where it was.
	again := w.make("ada")
	if got := git(t, again.Dir(), "rev-parse", "HEAD"); got != tip {
		t.Errorf("began at %s", got)
	}
	if got := state(t, again); len(got.Unsaved()) != 0 {
		t.Errorf("again: %q", got.Unsaved())
	}
}

// TestEvidence: commits, differences and dirt come from git, bounded and escaped, and survive JSON.
func TestEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	since := git(t, s.Dir(), "rev-parse", "HEAD")
	write(t, filepath.Join(s.Dir(), "a\nb"), "1\n2\n")
	write(t, filepath.Join(s.Dir(), "bin"), "\x00\x01")
	write(t, filepath.Join(s.Dir(), "README"), "hello\n")
	git(t, s.Dir(), "add", "-A")
	git(t, s.Dir(), "commit", "-qm", "evil \x1b[2J\u202e"+strings.Repeat("x", 4000))
	write(t, filepath.Join(s.Dir(), "left"), "")
	e, err := s.Evidence(t.Context(), since)
	must(t, err)
	if e.Total != 1 || len(e.Commits) != 1 || len(e.Commits[0].Subject) > 300 || !strings.HasPrefix(e.Commits[0].Subject, `evil \x1b[2J\u202e`) {
		t.Errorf("commits: %+v", e.Commits)
	}
	want := []workspace.FileStat{{Path: "README", Deletions: 1}, {Path: `a\x0ab`, Additions: 2}, {Path: "bin", Binary: true}}
	if diff := cmp.Diff(want, e.Files); diff != "" || e.Changed != 3 || e.Additions != 2 || e.Deletions != 1 {
		t.Errorf("files: %s %+v", diff, e)
	}
	if e.Clean || e.Changes.Untracked != 1 {
		t.Errorf("dirt: %+v", e.Changes)
	}
	text, err := json.Marshal(e)
	must(t, err)
	var back workspace.Evidence
	must(t, json.Unmarshal(text, &back))
	if diff := cmp.Diff(e, back); diff != "" {
		t.Error(diff)
	}
}

// TestEndTurn: the evidence and the fetch come from one look. Bad evidence holds up no fetch, and a workspace that cannot be read
// says so and brings nothing.
func TestEndTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	base := git(t, s.Dir(), "rev-parse", "HEAD")
	tip := commit(t, s, "one", "1\n")
	e, f, failed := s.EndTurn(t.Context(), base)
	if len(failed) > 0 || f == nil || e.Head != tip || e.Total != 1 || f.After != tip || git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
		t.Errorf("%+v, %+v, %v", e, f, failed)
	}
	tip = commit(t, s, "two", "2\n")
	e, f, failed = s.EndTurn(t.Context(), "--all")
	if len(failed) != 1 || f == nil || e.Head != tip || f.After != tip {
		t.Errorf("a commit that is none: %+v, %+v, %v", e, f, failed)
	}
	must(t, os.RemoveAll(filepath.Join(s.Dir(), ".git", "objects")))
	e, f, failed = s.EndTurn(t.Context(), base)
	if len(failed) != 1 || f != nil || e.Clean || len(e.Problems) == 0 {
		t.Errorf("without objects: %+v, %+v, %v", e, f, failed)
	}
}

// TestOwnObjects: nothing in either repository needs the other one.
func TestOwnObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	tip := commit(t, s, "new", "new\n")
	if exists(filepath.Join(s.Dir(), ".git", "objects", "info", "alternates")) {
		t.Error("it has alternates")
	}
	must(t, filepath.WalkDir(filepath.Join(s.Dir(), ".git", "objects"), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && links(t, path) != 1 {
			t.Errorf("%s is linked %d times", path, links(t, path))
		}
		return err
	}))
	// The person rewrites the branch, throws the old commits away, and later removes the whole clone.
	sh(t, w.clone, `git checkout -q --orphan fresh; git commit -qm fresh; git branch -D main other; git reflog expire --expire=now --all; git gc -q --prune=now`)
	git(t, s.Dir(), "fsck", "--full")
	got := state(t, s)
	if got.Unfetched != 3 || len(got.Problems) != 0 {
		t.Errorf("after gc in the clone: %+v", got)
	}
	f := fetch(t, s, false)
	if f.After != tip {
		t.Errorf("fetched: %+v", f)
	}
	git(t, w.clone, "fsck", "--full", "--strict")
	// The reverse: the agent removes all it has, and the clone is whole.
	must(t, os.RemoveAll(filepath.Join(s.Dir(), ".git")))
	git(t, w.clone, "fsck", "--full", "--strict")
}

// TestCloneIsGone: a workspace outlives its clone, with everything in it.
func TestCloneIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	commit(t, s, "new", "new\n")
	must(t, os.RemoveAll(w.clone))
	git(t, s.Dir(), "fsck", "--full")
	got := state(t, s)
	if len(got.Unsaved()) == 0 || len(got.Problems) != 1 || got.Unfetched != 3 {
		t.Errorf("state: %+v", got)
	}
	var loss *workspace.Loss
	if err := w.store.Remove(t.Context(), "ada", ""); !errors.As(err, &loss) {
		t.Errorf("removed: %v", err)
	}
	if _, err := s.Fetch(t.Context(), true); err == nil || !strings.Contains(err.Error(), "stay in the workspace") {
		t.Errorf("fetch: %v", err)
	}
}

// TestBranchesThatWereGiven: the agent sees these alone.
func TestBranchesThatWereGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git(t, w.clone, "tag", "v1")
	secret := sh(t, w.clone, `git checkout -q -b secret; echo s > s; git add s; git commit -qm secret; git rev-parse HEAD; git checkout -q main`)
	s := w.make("ada", "other")
	if got := git(t, s.Dir(), "for-each-ref", "--format=%(refname)"); got != "refs/heads/drawbridge/ada\nrefs/remotes/origin/other" {
		t.Errorf("refs: %s", got)
	}
	if out, err := try(t, s.Dir(), "git", "cat-file", "-e", secret); err == nil {
		t.Errorf("the agent has the secret branch: %s", out)
	}
	for _, bad := range []string{"missing", "a:refs/heads/main", "*", "", "..", "-x y", "@{u}", "x^{tree}"} {
		_, err := w.store.Make(t.Context(), workspace.Spec{Agent: "bob", Clone: w.clone, Branches: []string{bad}})
		if err == nil || exists(filepath.Join(w.dir, "state", workspace.Folder, "bob")) {
			t.Errorf("branch %q: %v", bad, err)
		}
	}
	if got := git(t, w.clone, "rev-parse", "main"); got != git(t, w.clone, "rev-parse", "HEAD") {
		t.Error("main moved")
	}
}

func TestAgentNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, bad := range []string{"", ".", "..", "a/b", "A", "a..b", "a.lock", "a.", "-a", "a b", "ä", strings.Repeat("a", 65), ".locks"} {
		if _, err := w.store.Make(t.Context(), workspace.Spec{Agent: bad, Clone: w.clone}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"agt_01kq", "a", "a.b-c_9"} {
		w.make(good)
	}
	got, err := w.store.List(t.Context())
	must(t, err)
	if diff := cmp.Diff([]string{"a", "a.b-c_9", "agt_01kq"}, got); diff != "" {
		t.Error(diff)
	}
}
