package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/agents/workspace"
)

// TestNothingIsLost: each way to lose work by removing a workspace. Each begins with a workspace that may be removed, so
// that it is this very work which keeps it.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct {
		name, script string
		// says is a part of what the refusal says.
		says string
		// saved is true when fetch --all saves it, so that the removal is possible afterwards.
		saved bool
	}{
		{"changed file", `echo x >> README`, "1 changed file", false},
		{"changed file with its old size and time", `touch -r README ../old; printf 'HELLO\nmore\n' > README; touch -r ../old README`, "1 changed file", false},
		{"changed file that the index calls unchanged", `git update-index --assume-unchanged README; echo x >> README`, "1 changed file", false},
		{"changed file that the index calls skipped", `git update-index --skip-worktree README; echo x >> README`, "1 changed file", false},
		{"executable bit", `chmod +x README`, "1 changed file", false},
		{"link in place of a file", `rm README; ln -s other README`, "1 changed file", false},
		{"folder in place of a file", `rm README; mkdir README; echo x > README/x`, "1 file deleted without a commit", false},
		{"deleted file", `rm README`, "1 file deleted", false},
		{"staged change", `echo x >> README; git add README`, "1 staged change", false},
		{"staged change that the tree does not have", `echo x >> README; git add README; git show HEAD:README > README`, "1 staged change", false},
		{"staged new file", `echo x > new; git add new; rm new`, "1 staged change", false},
		{"intent to add", `echo x > new; git add -N new`, "1 staged change", false},
		{"staged removal", `git rm -q --cached README`, "1 staged change", false},
		{"untracked file", `echo x > new`, "1 untracked file", false},
		{"untracked file in a folder", `mkdir -p a/b; echo x > a/b/new`, "1 untracked file", false},
		{"untracked link", `ln -s /nowhere new`, "1 untracked file", false},
		{"untracked file with an odd name", `touch "$(printf 'a\nb\033')"`, "1 untracked file", false},
		{"ignored file", `echo '*.key' > .git/info/exclude; echo x > a.key`, "1 untracked file", false},
		{"file ignored by a .gitignore that ignores itself", `mkdir venv; echo '*' > venv/.gitignore; echo x > venv/secret`, "2 ignored files", false},
		{"commit", `echo x > new; git add new; git commit -qm x`, "1 commit that was not fetched", true},
		{"stash", `echo x >> README; git stash -q`, "2 commits outside of the branch", true},
		{"stash with untracked files", `echo x > new; git stash -qu`, "3 commits outside of the branch", true},
		{"dropped stash", `echo x >> README; git stash -q; git stash drop -q`, "2 commits outside", true},
		{"second stash", `echo x >> README; git stash -q; echo y >> README; git stash -q; git stash drop -q`, "commits outside", true},
		{"another branch", `git checkout -qb mine; echo x > new; git add new; git commit -qm x; git checkout -q drawbridge/ada`, "1 commit outside", true},
		{"deleted branch", `git checkout -qb mine; git commit -q --allow-empty -m x; git checkout -q drawbridge/ada; git branch -qD mine`, "1 commit outside", true},
		{"detached commit", `git checkout -q --detach; git commit -q --allow-empty -m x`, "1 commit outside", true},
		{"detached commit in the reflog alone", `git checkout -q --detach; git commit -q --allow-empty -m x; git checkout -q drawbridge/ada`, "1 commit outside", true},
		{"amended commit", `git commit -q --allow-empty -m x; git commit -q --amend --allow-empty -m y`, "1 commit outside", true},
		{"commit that nothing names", `git commit-tree -m x HEAD^{tree} > /dev/null`, "1 commit outside", true},
		{"commit after the reflog is gone", `git checkout -q --detach; git commit -q --allow-empty -m x; git checkout -q drawbridge/ada; rm -r .git/logs`, "1 commit outside", true},
		{"commit in a pack", `git commit -q --allow-empty -m x; git checkout -q --detach HEAD~1; git gc -q`, "1 commit that was not fetched", true},
		{"branch renamed", `git commit -q --allow-empty -m x; git branch -m mine`, "1 commit outside", true},
		{"annotated tag", `git tag -am words v1`, "1 tag", true},
		{"note", `git notes add -m words`, "1 commit outside", true},
		{"ref of its own kind", `git update-ref refs/odd/one $(git commit-tree -m x HEAD^{tree})`, "1 commit outside", true},
		{"ref in packed refs", `git update-ref refs/odd/one $(git commit-tree -m x HEAD^{tree}); git pack-refs --all`, "1 commit outside", true},
		{"rebase", `git commit -q --allow-empty -m x; GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -qi --keep-empty HEAD~1`, "a rebase in progress", false},
		{"merge", `git checkout -qb m; echo a > README; git commit -qam a; git checkout -q drawbridge/ada; echo b > README; git commit -qam b; git merge -q m || true`, "a merge in progress", false},
		{"cherry-pick", `git checkout -qb m; echo a > README; git commit -qam a; git checkout -q drawbridge/ada; echo b > README; git commit -qam b; git cherry-pick m || true`, "a cherry-pick in progress", false},
		{"bisect", `git commit -q --allow-empty -m x; git bisect start -q HEAD HEAD~1`, "a bisect in progress", false},
		{"autostash of a rebase", `git commit -q --allow-empty -m x; echo x >> README; GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -qi --autostash --keep-empty HEAD~1`, "commits outside", false},
		{"nested repository", `git init -q sub; cd sub; git commit -q --allow-empty -m x`, "1 repository within the tree", false},
		{"nested repository in an ignored folder", `mkdir v; echo '*' > v/.gitignore; git init -q v/sub`, "1 repository within the tree", false},
		{"nested bare repository", `git init -q --bare sub.git`, "untracked file", false},
		{"submodule", `git -c protocol.file.allow=always submodule --quiet add ./.git sub; git commit -qm sub; cd sub; git commit -q --allow-empty -m x`, "1 repository within the tree", false},
		{"files in the folder of a submodule", `git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; git commit -qm sub; mkdir sub; echo x > sub/x`, "1 untracked file", false},
		{"linked worktree", `git worktree add -q wt; echo x > wt/x`, "1 linked worktree", false},
		{"linked worktree elsewhere", `git worktree add -q ../wt; echo x > ../wt/x`, "1 linked worktree", false},
		{"LFS folder that leads out", `mkdir ../lfs; ln -s ../../lfs .git/lfs`, "unknown", false},
		{"history cut off by a shallow fetch", `git init -q ../up; for i in 1 2 3; do git -C ../up commit -q --allow-empty -m $i; done; git fetch -q --depth=1 file://$PWD/../up HEAD:refs/remotes/up/head`, "history is incomplete", false},
		{"folder that may not be read", `mkdir closed; echo x > closed/x; chmod 0 closed`, "1 untracked file", false},
		{"LFS object", `mkdir -p .git/lfs/objects/aa/bb; echo large > .git/lfs/objects/aa/bb/aabbcc`, "1 large file", false},
		{"annex object", `mkdir -p .git/annex/objects/x/y; echo large > .git/annex/objects/x/y/z`, "1 large file", false},
		{"no .git", `rm -rf .git`, "unknown: .git cannot be read", false},
		{".git that is a file", `mv .git ../elsewhere; echo "gitdir: ../elsewhere" > .git`, "unknown: .git cannot be read", false},
		{".git that is a link", `mv .git ../elsewhere; ln -s ../elsewhere .git`, "unknown: .git cannot be read", false},
		{"commondir", `mkdir ../common; cp -r .git/* ../common; echo ../../common > .git/commondir`, "its repository is in another folder", false},
		{"reftable", `mkdir .git/reftable; echo 0x1.ref > .git/reftable/tables.list`, "reftable", false},
		{"ref that is a link", `mv .git/refs/heads/drawbridge/ada ../ref; ln -s ../../../../../ref .git/refs/heads/drawbridge/ada`, "is not a regular file", false},
		{"index that is damaged", `echo x > .git/index`, "its index cannot be read", false},
		{"index that is a FIFO", `rm .git/index; mkfifo .git/index`, "is not a regular file", false},
		{"object that is missing", `echo x > new; git add new; git commit -qm x; rm -f .git/objects/$(git rev-parse HEAD^{tree} | sed 's,^..,&/,')`, "its history is incomplete", false},
		{"object that is damaged", `git commit -q --allow-empty -m x; o=.git/objects/$(git rev-parse HEAD | sed 's,^..,&/,'); chmod +w $o; echo x > $o`, "is damaged", false},
		{"object under another name", `git commit -q --allow-empty -m x; o=.git/objects/$(git rev-parse HEAD | sed 's,^..,&/,'); p=.git/objects/$(echo a | git hash-object -w --stdin | sed 's,^..,&/,'); chmod +w $o; cp $p $o`, "does not match its id", false},
		{"pack that is damaged", `git commit -q --allow-empty -m x; git repack -qad; for p in .git/objects/pack/*.pack; do chmod +w $p; echo x >> $p; done; true`, "is damaged", false},
		{"pack that is cut off", `git commit -q --allow-empty -m x; git repack -qad; for p in .git/objects/pack/*.pack; do chmod +w $p; truncate -s 40 $p; done; true`, "is damaged", false},
		{"objects elsewhere", `git commit -q --allow-empty -m x; mv .git/objects ../objects; mkdir -p .git/objects/info; echo $PWD/../objects > .git/objects/info/alternates`, "its history is incomplete", false},
		{"odd HEAD", `echo nonsense > .git/HEAD`, "HEAD says", false},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			if got := state(t, s); len(got.Unsaved()) != 0 {
				t.Fatalf("a fresh workspace holds %q", got.Unsaved())
			}
			sh(t, s.Dir(), c.script)
			code := refused(t, w, s, c.says)
			if c.saved {
				fetch(t, s, true)
				git(t, w.clone, "fsck", "--full", "--strict")
				must(t, w.store.Remove(t.Context(), "ada", ""))
				return
			}
			must(t, w.store.Remove(t.Context(), "ada", code))
			if exists(s.Dir()) {
				t.Error("told twice, and still there")
			}
		})
	}
}

// refused makes sure that a removal is refused, with the right words, and changes nothing; it returns the code.
func refused(t *testing.T, w *world, s *workspace.Space, says string) string {
	t.Helper()
	before := listing(t, s.Dir())
	code := ""
	for _, lose := range []string{"", "000000000000"} {
		err := w.store.Remove(t.Context(), s.Agent(), lose)
		var loss *workspace.Loss
		if !errors.As(err, &loss) || loss.State.Code == "" {
			t.Fatalf("lose %q: %v", lose, err)
		}
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v\nwant %q", err, says)
		}
		code = loss.State.Code
	}
	if after := listing(t, s.Dir()); after != before {
		t.Errorf("the refusal changed the tree:\n%s\n%s", before, after)
	}
	return code
}

// listing names every file of a tree with its times, which a look must not change.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		stat, err := e.Info()
		if err == nil {
			text.WriteString(path + " " + stat.Mode().String() + " " + stat.ModTime().String() + "\n")
		}
		return err
	}))
	return text.String()
}

// TestOldCodeLosesNothingNew: only the loss that was shown can be agreed to.
func TestOldCodeLosesNothingNew(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, before, after string }{
		{"another file", `echo x > new`, `echo y > newer`},
		{"the same file, longer", `echo x > new`, `echo yy > new`},
		{"a staged file, changed again", `echo x > new; git add new`, `echo yy > new`},
		{"another commit", `git commit -q --allow-empty -m x`, `git commit -q --allow-empty -m y`},
		{"an amended commit", `git checkout -qb b; git commit -q --allow-empty -m x`, `git commit -q --allow-empty --amend -m y`},
		{"an ignored file", `mkdir v; echo '*' > v/.gitignore`, `echo x > v/x`},
		{"a file in an ignored folder", `mkdir -p v/w; echo '*' > v/.gitignore; echo x > v/w/x`, `echo yy > v/w/x`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			sh(t, s.Dir(), c.before)
			code := state(t, s).Code
			sh(t, s.Dir(), c.after)
			var loss *workspace.Loss
			if err := w.store.Remove(t.Context(), "ada", code); !errors.As(err, &loss) || !exists(s.Dir()) {
				t.Fatalf("an old code: %v", err)
			}
			must(t, w.store.Remove(t.Context(), "ada", loss.State.Code))
		})
	}
}

// TestHeldWorkspaceStays: while a process of the agent runs, nothing is removed, told twice or not.
func TestHeldWorkspaceStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	release, err := s.Hold()
	must(t, err)
	second, err := s.Hold()
	must(t, err)
	second()
	var held *workspace.Held
	if err := w.store.Remove(t.Context(), "ada", ""); !errors.As(err, &held) || held.Agent != "ada" {
		t.Errorf("held: %v", err)
	}
	release()
	must(t, w.store.Remove(t.Context(), "ada", ""))
	if _, err := s.Hold(); err == nil {
		t.Error("held a workspace that is gone")
	}
}

// TestRemovalOfClosedFolders: module caches deny writing to their folders.
func TestRemovalOfClosedFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	sh(t, s.Dir(), `mkdir -p mod/sub; echo x > mod/sub/x; chmod 500 mod/sub mod`)
	must(t, w.store.Remove(t.Context(), "ada", state(t, s).Code))
	if exists(s.Dir()) {
		t.Error("still there")
	}
}

// TestSaved: these leave nothing to lose.
func TestSaved(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, script string }{
		{"touched", `touch README`},
		{"written again", `cat README > x; mv x README; chmod 600 README`},
		{"an empty folder", `mkdir -p a/b`},
		{"a branch at the base", `git branch mine; git tag light`},
		{"a FIFO and a socket", `mkfifo pipe`},
		{"an index written again", `rm .git/index; git reset -q`},
		{"garbage collected", `git gc -q --prune=now`},
		{"switched and back", `git checkout -q --detach; git checkout -q drawbridge/ada`},
		{"a blob that nothing names", `echo x | git hash-object -w --stdin`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			sh(t, s.Dir(), c.script)
			must(t, w.store.Remove(t.Context(), "ada", ""))
		})
	}
}

// TestIgnoredIsAsGitSays: for the evidence, ignored files are those that git ignores.
func TestIgnoredIsAsGitSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	write(t, filepath.Join(w.clone, ".gitignore"), "build/\n*.o\n!keep.o\n/only-here\n:(top)x\n")
	write(t, filepath.Join(w.clone, "sub", ".gitignore"), "!a.o\nlocal\n")
	sh(t, w.clone, `git add -A; git commit -qm ignores`)
	s := w.make("ada")
	sh(t, s.Dir(), `mkdir -p build/deep sub/build new/objs only-here2 venv/lib
		touch build/deep/x a.o keep.o only-here sub/only-here sub/a.o sub/b.o sub/local sub/build/y new/objs/c.o new/objs/d.c ':(top)x' venv/lib/z file build2
		echo '*' > venv/.gitignore; ln -s build linked`)
	got := state(t, s)
	untracked := strings.Count(git(t, s.Dir(), "ls-files", "-o", "--exclude-standard"), "\n") + 1
	ignored := strings.Count(git(t, s.Dir(), "ls-files", "-o", "-i", "--exclude-standard"), "\n") + 1
	if got.Untracked != untracked || got.Ignored != ignored || untracked < 6 || ignored < 8 {
		t.Errorf("untracked %d, git says %d; ignored %d, git says %d\n%q", got.Untracked, untracked, got.Ignored, ignored, got.Names)
	}
}
