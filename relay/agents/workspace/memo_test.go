package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/agents/workspace"
)

// evidence is what the end of a turn reads: the evidence, and a fetch.
func evidence(t *testing.T, s *workspace.Space, since string) (workspace.Evidence, workspace.Fetched) {
	t.Helper()
	e, err := s.Evidence(t.Context(), since)
	must(t, err)
	return e, fetch(t, s, false)
}

// TestEvidenceThatIsKept: a turn that changes nothing starts no git. After each change the kept view gives the same as a relay that
// has never seen the workspace.
func TestEvidenceThatIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := &observer{}
	o := w.options()
	o.Run = seen
	var err error
	w.store, err = workspace.Open(o)
	must(t, err)
	s := w.make("ada")
	evidence(t, s, "") // it brings the branch, so that the clone is another one after it
	for n, c := range []struct{ name, agent, person string }{
		{name: "a file of the same size and time", agent: `cp -p README ../old; echo HELLO > README; touch -r ../old README`},
		{name: "a file that git is not to look at", agent: `git update-index --assume-unchanged README; echo x > README`},
		{name: "a staged file", agent: `git update-index --no-assume-unchanged README; git add README`},
		{name: "a commit", agent: `git commit -qm one`},
		{name: "a commit that is replaced", agent: `git commit -q --amend -m two`},
		{name: "untracked files", agent: `mkdir sub; echo x > sub/a.o; echo y > b.o`},
		{name: "ignored files", agent: `echo '*.o' > .gitignore`},
		{name: "other ignored files", agent: `echo 'sub/' > .gitignore`},
		{name: "one more ignored file", agent: `echo x > sub/c.o`},
		{name: "a file that git is to ignore by its own settings", agent: `echo d > sub/d; echo d >> .git/info/exclude; git config core.excludesFile /etc/passwd`},
		{name: "rules of the same size and time", agent: `touch -r .gitignore ../old; echo 'sux/' > .gitignore; touch -r ../old .gitignore`},
		{name: "a link in the place of a file", agent: `mv README r2; ln -s r2 README`},
		{name: "the file again", agent: `rm README; mv r2 README`},
		{name: "an index put back", agent: `cp .git/index ../index; git rm -q --cached README; cp -p ../index .git/index`},
		{name: "a mode", agent: `chmod +x README`},
		{name: "a stash", agent: `git stash -q`},
		{name: "a tag", agent: `git tag -a v1 -m v1`},
		{name: "a branch elsewhere", agent: `git checkout -q -b side; git commit -q --allow-empty -m side; git checkout -q drawbridge/ada`},
		{name: "a commit that nothing names", agent: `git checkout -q --detach; git commit -q --allow-empty -m lost; git checkout -q drawbridge/ada`},
		{name: "packed objects and refs", agent: `git gc -q`},
		{name: "a merge under way", agent: `git checkout -q -b m HEAD~1; echo a > README; git commit -qam a; git checkout -q drawbridge/ada; git merge -q m || true`},
		{name: "a merge given up", agent: `git merge --abort`},
		{name: "a repository within the tree", agent: `git init -q sub/inner`},
		{name: "the clone loses the branch", person: `git branch -q -D drawbridge/ada`},
		{name: "the clone packs its refs", person: `git pack-refs --all`},
		{name: "the clone loses the packed branch", person: `git branch -q -D drawbridge/ada`},
		{name: "the clone is collected", person: `git gc -q`},
		{name: "the clone has the branch checked out", agent: `git commit -q --allow-empty -m three`, person: `git checkout -q drawbridge/ada`},
	} {
		if sampled && n == 6 {
			break // the cases build on each other; without the race detector all of them run
		}
		before, _ := evidence(t, s, "")
		seen.runs = nil
		_, err := s.Evidence(t.Context(), before.Head)
		must(t, err)
		if len(seen.runs) > 0 {
			t.Errorf("before %s: nothing changed, and git ran %d times: %q", c.name, len(seen.runs), seen.runs[0].Argv)
		}
		sh(t, s.Dir(), c.agent)
		sh(t, w.clone, c.person)
		got, fetched := evidence(t, s, before.Head)
		fresh, err := workspace.Open(w.options())
		must(t, err)
		other, err := fresh.Get(t.Context(), "ada")
		must(t, err)
		want, again := evidence(t, other, before.Head)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s: -fresh +kept\n%s", c.name, diff)
		}
		if fetched.After != again.After || !cmp.Equal(fetched.Kept, again.Kept) {
			t.Errorf("after %s: fetched %+v, and a fresh store %+v", c.name, fetched, again)
		}
		if c.agent == "" && git(t, w.clone, "rev-parse", "drawbridge/ada") != got.Head {
			t.Errorf("after %s: the clone does not have the commits", c.name)
		}
	}
}

// TestFetchThatIsKept: a turn that changes nothing brings nothing, without git; a clone that lost the branch gets it again.
func TestFetchThatIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := &observer{}
	o := w.options()
	o.Run = seen
	var err error
	w.store, err = workspace.Open(o)
	must(t, err)
	s := w.make("ada")
	tip := commit(t, s, "one", "1\n")
	for range 2 {
		evidence(t, s, "")
	}
	seen.runs = nil
	if _, f := evidence(t, s, tip); len(seen.runs) > 0 || f.Before != tip || f.After != tip {
		t.Errorf("git ran %d times, and the fetch says %+v", len(seen.runs), f)
	}
	must(t, os.Remove(filepath.Join(w.clone, ".git", "refs", "heads", "drawbridge", "ada")))
	if _, f := evidence(t, s, tip); f.Before != "" || f.After != tip || git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
		t.Errorf("the branch was not brought again: %+v", f)
	}
}

// TestMemoOfAnotherLook: a relay does not use its view after another process has looked, and made another copy.
func TestMemoOfAnotherLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	commit(t, s, "one", "1\n")
	for range 2 {
		evidence(t, s, "")
	}
	// A commit that the other process takes and that only its copy has afterwards.
	sh(t, s.Dir(), `git checkout -q --detach; git commit -q --allow-empty -m lost; git checkout -q drawbridge/ada`)
	other, err := workspace.Open(w.options())
	must(t, err)
	seen, err := other.Get(t.Context(), "ada")
	must(t, err)
	state(t, seen)
	sh(t, s.Dir(), `git reflog expire --expire=all --all; git prune --expire=now`)
	if got := state(t, s); got.Elsewhere != 1 {
		t.Errorf("%d commits elsewhere", got.Elsewhere)
	}
	evidence(t, s, "")
	if f := fetch(t, s, true); len(f.Kept) != 1 {
		t.Errorf("the commit was not kept: %+v", f)
	}
}
