package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/agents/workspace"
)

// TestKindsOfClones: a workspace comes from every kind of clone, and its commits go back into it.
func TestKindsOfClones(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct {
		name, script string
		init         []string
	}{
		{name: "a worktree", script: `git worktree add -q ../tree other; echo ../tree`},
		{name: "bare", script: `git clone -q --bare . ../bare.git; echo ../bare.git`},
		{name: "a mirror", script: `git clone -q --mirror . ../mirror.git; echo ../mirror.git`},
		{name: "shallow", script: `git clone -q --depth=1 file://$PWD ../shallow; echo ../shallow`},
		{name: "with borrowed objects", script: `git clone -q --shared . ../borrows; echo ../borrows`},
		{name: "with objects borrowed twice", script: `git clone -q --shared . ../borrows; git clone -q --shared ../borrows ../more; echo ../more`},
		{name: "detached", script: `git checkout -q --detach HEAD~1; echo .`},
		{name: "with changes that are not committed", script: `echo x >> README; echo y > new; git add new; echo .`},
		{name: "in the middle of a merge", script: `git merge -q --no-commit --no-ff other >/dev/null; echo .`},
		{name: "with a submodule", script: `git init -q ../lib; git -C ../lib commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add $PWD/../lib lib; git commit -qm sub; echo .`},
		{name: "with LFS files", script: `printf '*.bin filter=lfs diff=lfs merge=lfs -text\n' > .gitattributes; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n' > a.bin
			git add -A; git commit -qm lfs; git config filter.lfs.clean false; git config filter.lfs.smudge false; git config filter.lfs.process false; git config filter.lfs.required true; echo .`},
		{name: "on a branch with an odd name", script: `git checkout -qb 'weird/ünï-$x;y#"'"'"'!'; git commit -q --allow-empty -m odd; echo .`},
		{name: "on a branch that begins with a dash", script: `git update-ref refs/heads/-f HEAD; git symbolic-ref HEAD refs/heads/-f; echo .`},
		{name: "on a ref that is not a branch", script: `git update-ref refs/odd/x HEAD~1; git symbolic-ref HEAD refs/odd/x; echo .`},
		{name: "with SHA-256", init: []string{"--object-format=sha256"}, script: `echo .`},
		{name: "without commits", script: `git init -q ../empty; echo ../empty`},
		{name: "in a folder with an odd name", script: `mkdir "../a b'c\"d;e#f"; cp -r .git README "../a b'c\"d;e#f"; echo "../a b'c\"d;e#f"`},
		{name: "with packed refs and a commit graph", script: `git pack-refs --all; git gc -q; git commit-graph write --reachable 2>/dev/null; git repack -qadb; echo .`},
		{name: "with line endings of its own", script: `printf '*.bat text eol=crlf\n*.txt text\n' > .gitattributes; printf 'a\nb\n' > x.bat; printf 'a\nb\n' > y.txt; printf 'a\r\nb\n' > mixed; git add -A; git commit -qm crlf; git config core.autocrlf true; echo .`},
		{name: "with keywords and other encodings", script: `printf 'id ident\nu16 working-tree-encoding=UTF-16\n' > .gitattributes; printf '$Id$\n' > id; printf 'x\n' | iconv -t UTF-16 > u16; git add -A; git commit -qm forms; echo .`},
		{name: "with settings that start programs", script: `git config core.fsmonitor false; git config core.sshCommand false; git config gc.auto 1; git config core.hooksPath $PWD/.git/evil; mkdir .git/evil
			for h in reference-transaction post-merge post-checkout pre-auto-gc; do printf '#!/bin/sh\nexit 1\n' > .git/evil/$h; chmod +x .git/evil/$h; done; echo .`},
		{name: "with strict settings", script: `git config transfer.fsckObjects true; git config receive.denyNonFastForwards true; git config protocol.file.allow never; git config fetch.prune true; git config fetch.recurseSubmodules true; echo .`},
		{name: "with symbolic and broken refs", script: `git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/gone; git symbolic-ref refs/heads/alias refs/heads/main; echo .`},
		{name: "with a file of every kind", script: `ln -s /etc/passwd out; ln -s nowhere dead; mkdir -p a/b; echo x > a/b/c; chmod +x a/b/c; printf '\000\001' > bin; : > empty; touch "$(printf 'n\nl')"; git add -A; git commit -qm kinds; echo .`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.init...)
			lines := strings.Split(sh(t, w.clone, c.script), "\n")
			w.clone = filepath.Join(w.clone, lines[len(lines)-1])
			before := listing(t, w.clone)
			s := w.make("ada")
			if got := state(t, s); len(got.Unsaved()) != 0 || !got.Clean() {
				t.Fatalf("fresh: %q %q", got.Unsaved(), got.Names)
			}
			if after := listing(t, w.clone); after != before {
				t.Errorf("the clone changed:\n%s\n%s", before, after)
			}
			tip := commit(t, s, "new/file", "new\n")
			f := fetch(t, s, false)
			if f.After != tip || len(f.Notes)+len(f.Kept) != 0 || git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
				t.Errorf("fetched: %+v", f)
			}
			if again := fetch(t, s, true); again.Before != tip || again.After != tip || len(again.Notes)+len(again.Kept) != 0 {
				t.Errorf("fetched again: %+v", again)
			}
			git(t, w.clone, "rev-list", "--objects", "--quiet", "--all")
			must(t, w.store.Remove(t.Context(), "ada", ""))
		})
	}
}

// TestLineEndingsOfAnEditedFile: a file that git writes with CRLF is judged by its lines when the agent commits it, and a
// change in it is a change.
func TestLineEndingsOfAnEditedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sh(t, w.clone, `printf '*.bat text eol=crlf\n' > .gitattributes; printf 'a\nb\n' > x.bat; git add -A; git commit -qm crlf`)
	s := w.make("ada")
	if text, err := os.ReadFile(filepath.Join(s.Dir(), "x.bat")); err != nil || string(text) != "a\r\nb\r\n" {
		t.Fatalf("%q %v", text, err)
	}
	sh(t, s.Dir(), `printf 'a\r\nb\r\nc\r\n' > x.bat; git commit -qam longer`)
	if got := state(t, s); !got.Clean() {
		t.Errorf("committed: %+v", got)
	}
	sh(t, s.Dir(), `printf 'a\r\nb\r\nC\r\n' > x.bat`)
	if got := state(t, s); got.Modified != 1 {
		t.Errorf("changed: %+v", got)
	}
}

// TestClonesThatAreRefused: what cannot be a listed clone is refused with what to do, and leaves nothing behind.
func TestClonesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, script, says string }{
		{"missing", `echo ../missing`, "does not exist"},
		{"not a repository", `mkdir ../plain; echo ../plain`, "is not a git repository"},
		{"a folder within a repository", `mkdir sub; echo sub`, "is not a git repository"},
		{"a broken worktree", `git worktree add -q ../tree other; rm -rf .git/worktrees; echo ../tree`, "is not a git repository"},
		{"a partial clone", `git config uploadpack.allowFilter true; git clone -q --no-checkout --filter=blob:none file://$PWD ../partial; git -C ../partial remote set-url origin https://localhost/x; echo ../partial`, "is a partial clone"},
		{"a clone whose objects are gone", `git clone -q --shared . ../borrows; rm -rf .git/objects/??; echo ../borrows`, "is missing or damaged in the clone"},
		{"a branch in the way", `git branch drawbridge; echo .`, "rename that branch"},
		{"branches in the way", `git branch drawbridge/ada/x; echo .`, "rename that branch"},
		{"a folder with a newline", "mkdir \"$(printf '../a\\nb')\"; echo \"$(printf '../a\\nb')\"", ""},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			lines := strings.SplitN(sh(t, w.clone, c.script), "\n", 2)
			_, err := w.store.Make(t.Context(), workspace.Spec{Agent: "ada", Clone: filepath.Join(w.clone, strings.Join(lines, "\n"))})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if got, err := w.store.List(t.Context()); err != nil || len(got) != 0 {
				t.Errorf("left %q %v", got, err)
			}
		})
	}
	w := newWorld(t)
	if _, err := w.store.Make(t.Context(), workspace.Spec{Agent: "ada", Clone: "clone"}); err == nil || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("relative: %v", err)
	}
}

// TestCloneOfAnotherUser: git refuses the repository of another user, because its owner chose what git would start in it. The relay says
// what to do, and lets nobody's safe.directory decide.
func TestCloneOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: giving a folder to another user needs root")
	}
	s := w.make("ada")
	commit(t, s, "new", "new\n")
	sh(t, w.clone, `chown -R 12345 .`)
	_, err := w.store.Make(t.Context(), workspace.Spec{Agent: "bob", Clone: w.clone})
	if err == nil || !strings.Contains(err.Error(), "run the relay as the owner of the clone") {
		t.Errorf("make: %v", err)
	}
	if _, err := s.Fetch(t.Context(), false); err == nil || !strings.Contains(err.Error(), "run the relay as the owner of the clone") {
		t.Errorf("fetch: %v", err)
	}
	if got := state(t, s); len(got.Unsaved()) == 0 {
		t.Error("nothing to lose without the clone?")
	}
	sh(t, w.dir, `chown -R 0 clone`)
	if f := fetch(t, s, false); f.After == "" {
		t.Errorf("fetch: %+v", f)
	}
}

// TestBranchOfAPerson: a branch that a person has checked out or has moved stays as it is, and the commits are kept beside it.
func TestBranchOfAPerson(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct {
		name, person string
		note         string
	}{
		{"checked out", `git checkout -q drawbridge/ada`, "is checked out in"},
		{"checked out in a worktree", `git worktree add -q ../other drawbridge/ada`, "is checked out in"},
		{"being rebased", `git checkout -q drawbridge/ada; GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -qi HEAD~1 2>/dev/null`, "checked out"},
		{"committed to", `git checkout -q drawbridge/ada; git commit -q --allow-empty -m person; git checkout -q main`, "has commits that the agent's branch lacks"},
		{"reset", `git branch -f drawbridge/ada other`, "has commits that the agent's branch lacks"},
		{"amended", `git checkout -q drawbridge/ada; git commit -q --amend -m person; git checkout -q main`, "has commits that the agent's branch lacks"},
		{"locked", `touch .git/refs/heads/drawbridge/ada.lock`, "could not be moved"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			commit(t, s, "one", "1\n")
			fetch(t, s, false)
			sh(t, w.clone, c.person)
			before := git(t, w.clone, "rev-parse", "drawbridge/ada")
			status := git(t, w.clone, "status", "--porcelain")
			tip := commit(t, s, "two", "2\n")
			f := fetch(t, s, false)
			if f.After != before || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], c.note) {
				t.Errorf("fetched: %+v", f)
			}
			if got := git(t, w.clone, "rev-parse", "drawbridge/ada"); got != before {
				t.Errorf("the branch moved to %s", got)
			}
			if got := git(t, w.clone, "status", "--porcelain"); got != status {
				t.Errorf("the person's tree changed: %q", got)
			}
			if got := git(t, w.clone, "rev-parse", workspace.KeptRefs+"ada/"+tip); got != tip || len(f.Kept) != 1 {
				t.Errorf("kept %s %q", got, f.Kept)
			}
			if got := state(t, s); len(got.Unsaved()) != 0 {
				t.Errorf("unsaved: %q", got.Unsaved())
			}
		})
	}
	t.Run("moved on", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := w.make("ada")
		commit(t, s, "one", "1\n")
		fetch(t, s, false)
		ahead := sh(t, w.clone, `git checkout -q drawbridge/ada; git commit -q --allow-empty -m person; git rev-parse HEAD`)
		if f := fetch(t, s, false); f.After != ahead || len(f.Notes)+len(f.Kept) != 0 {
			t.Errorf("fetched: %+v", f)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := w.make("ada")
		tip := commit(t, s, "one", "1\n")
		fetch(t, s, false)
		git(t, w.clone, "branch", "-D", "drawbridge/ada")
		if got := state(t, s); got.Unfetched != 1 {
			t.Errorf("state: %+v", got)
		}
		if f := fetch(t, s, false); f.After != tip {
			t.Errorf("fetched: %+v", f)
		}
	})
	t.Run("replaced by a folder", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := w.make("ada")
		tip := commit(t, s, "one", "1\n")
		git(t, w.clone, "branch", "drawbridge/ada/x")
		f := fetch(t, s, false)
		if len(f.Kept) != 1 || len(f.Notes) != 1 || git(t, w.clone, "rev-parse", f.Kept[0]) != tip {
			t.Errorf("fetched: %+v", f)
		}
	})
}

// TestAgentThatRewrites: an agent amends a commit that was fetched. Both stay.
func TestAgentThatRewrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	first := commit(t, s, "one", "1\n")
	fetch(t, s, false)
	git(t, s.Dir(), "commit", "-q", "--amend", "-m", "better")
	second := git(t, s.Dir(), "rev-parse", "HEAD")
	f := fetch(t, s, false)
	if f.After != first || len(f.Kept) != 1 || git(t, w.clone, "rev-parse", f.Kept[0]) != second {
		t.Errorf("fetched: %+v", f)
	}
	if got := state(t, s); len(got.Unsaved()) != 0 {
		t.Errorf("unsaved: %q", got.Unsaved())
	}
}
