package workspace_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// observer notes every program that the relay runs.
type observer struct {
	mu   sync.Mutex // guards runs
	runs []keeper.Command
}

func (o *observer) Run(ctx context.Context, c keeper.Command) (keeper.End, error) {
	o.mu.Lock()
	o.runs = append(o.runs, c)
	o.mu.Unlock()
	return pool.Run(ctx, c)
}

// TestGitNeverRunsInAnAgentsRepository: once the agent has its workspace, no program gets the path of its tree, in an argument, a
// variable or as its folder. What reads bytes of the agent for the first time runs in a sandbox where the machine has one.
func TestGitNeverRunsInAnAgentsRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := &observer{}
	o := w.options()
	o.Run = seen
	var err error
	w.store, err = workspace.Open(o)
	must(t, err)
	s := w.make("ada")
	touches := func(c keeper.Command) bool {
		return slices.ContainsFunc(slices.Concat(c.Argv, c.Env, []string{c.Dir, c.Path}), func(word string) bool { return strings.Contains(word, s.Dir()) })
	}
	if !slices.ContainsFunc(seen.runs, func(c keeper.Command) bool {
		return slices.ContainsFunc(c.Argv, func(word string) bool { return strings.Contains(word, ".making-ada/tree") })
	}) {
		t.Fatal("not even the making of it was seen, so that this test shows nothing")
	}
	seen.runs = nil
	commit(t, s, "one", "1\n")
	sh(t, s.Dir(), `git gc -q; echo x > new; echo '*.o' > .gitignore`)
	for _, all := range []bool{false, true} {
		fetch(t, s, all)
	}
	_, err = s.Evidence(t.Context(), "")
	must(t, err)
	must(t, s.Put(t.Context(), "a/b", []byte("x")))
	must(t, w.store.Remove(t.Context(), "ada", state(t, s).Code))
	confined := map[string]bool{}
	for _, c := range seen.runs {
		if touches(c) {
			t.Errorf("ran %q in %s with %q", c.Argv, c.Dir, c.Env)
		}
		if c.Dir != "/" || len(c.Env) == 0 {
			t.Errorf("ran %q in %s with %q", c.Argv, c.Dir, c.Env)
		}
		for _, word := range c.Argv {
			if c.Sandbox != nil {
				confined[word] = true
			}
		}
	}
	for _, reads := range []string{"index-pack", "ls-files"} {
		if ability != (sandbox.Ability{}) && !confined[reads] {
			t.Errorf("%s ran without a sandbox", reads)
		}
	}
	if len(seen.runs) < 20 {
		t.Errorf("only %d runs were seen", len(seen.runs))
	}
}

// TestSandboxOfThePacks: git that reads an agent's pack has no network and cannot write outside of the relay's copy.
func TestSandboxOfThePacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := &observer{}
	o := w.options()
	o.Run = seen
	store, err := workspace.Open(o)
	must(t, err)
	s, err := store.Make(t.Context(), workspace.Spec{Agent: "ada", Clone: w.clone})
	must(t, err)
	commit(t, s, "one", "1\n")
	git(t, s.Dir(), "gc", "-q")
	seen.runs = nil
	state(t, s)
	if ability.Landlock == 0 && ability.Bubblewrap == "" {
		t.Skip("SKIPPED: this machine cannot limit which files a program touches")
	}
	at := slices.IndexFunc(seen.runs, func(c keeper.Command) bool { return slices.Contains(c.Argv, "index-pack") })
	if at < 0 {
		t.Fatal("no pack was read")
	}
	plan := seen.runs[at].Sandbox
	if !plan.NoNetwork || len(plan.Write) != 1 || filepath.Base(plan.Write[0]) != "kept.git" {
		t.Fatalf("%+v", plan)
	}
	// The same sandbox, with a program that tries: the folder is there to be written, the state folder is not.
	for path, may := range map[string]bool{filepath.Join(plan.Write[0], "here"): true, filepath.Join(w.dir, "state", "there"): false} {
		end, err := pool.Run(t.Context(), keeper.Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "echo x > " + path}, Dir: "/", Sandbox: plan, Stdout: io.Discard, Stderr: io.Discard})
		must(t, err)
		if (end.Code == 0) != may || exists(path) != may {
			t.Errorf("%s: code %d, want it %t", path, end.Code, may)
		}
	}
}

// TestCommitThatUnfoldsToVeryMuch: a few hundred bytes name the same folder a hundred million times.
func TestCommitThatUnfoldsToVeryMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limit(workspace.Limits{Entries: 5000})
	s := w.make("ada")
	tip := sh(t, s.Dir(), `b=$(echo x | git hash-object -w --stdin); t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\tf%s\n' $b $i; done | git mktree)
		for level in 1 2 3 4 5 6 7; do t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\td%s\n' $t $i; done | git mktree); done
		git update-ref HEAD $(git commit-tree -p HEAD -m bomb $t); git rev-parse HEAD`)
	got := state(t, s)
	if !strings.Contains(strings.Join(got.Unsaved(), ", "), "more files than the relay looks at") || got.Unfetched != 1 {
		t.Errorf("state: %q", got.Unsaved())
	}
	e, err := s.Evidence(t.Context(), "")
	must(t, err)
	if e.Clean || len(e.Problems) < 2 || e.Total != 1 || e.Changed != 0 {
		t.Errorf("evidence: %d commits, %d files, %q", e.Total, e.Changed, e.Problems)
	}
	if f := fetch(t, s, false); f.After != tip {
		t.Errorf("fetched: %+v", f)
	}
}

// TestPartOfARepositoryIsDamaged: commits come back although something else in the repository cannot be read.
func TestPartOfARepositoryIsDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, damage string }{
		{"a ref that is a link", `ln -s nowhere .git/refs/heads/x`},
		{"a ref to nothing", `echo 0123456789012345678901234567890123456789 > .git/refs/heads/x`},
		{"an object", `o=.git/objects/$(echo x | git hash-object -w --stdin | sed 's,^..,&/,'); chmod +w $o; echo damaged > $o`},
		{"a pack", `echo damaged > .git/objects/pack/pack-0123456789012345678901234567890123456789.pack`},
		{"a history without its begin", `git init -q ../up; for i in 1 2 3; do git -C ../up commit -q --allow-empty -m $i; done; git fetch -q --depth=1 file://$PWD/../up HEAD:refs/remotes/up/head`},
		{"the index", `echo damaged > .git/index`},
		{"HEAD", `echo damaged > .git/HEAD`},
		{"a linked worktree", `git worktree add -q wt`},
		{"a million files", `mkdir many; cd many; seq 3000 | xargs touch`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limit(workspace.Limits{Entries: 2000})
			s := w.make("ada")
			tip := commit(t, s, "one", "1\n")
			sh(t, s.Dir(), c.damage)
			if got := state(t, s); len(got.Unsaved()) < 2 || got.Clean() {
				t.Errorf("state: %q", got.Unsaved())
			}
			if f := fetch(t, s, false); f.After != tip {
				t.Errorf("fetched: %+v", f)
			}
			if got := state(t, s); len(got.Unsaved()) == 0 {
				t.Error("the damage counts as saved")
			}
		})
	}
}

// TestSparseCheckout: what the agent chose not to have in its tree is not missing.
func TestSparseCheckout(t *testing.T) {
	t.Parallel()
	for _, sparse := range []string{"--no-sparse-index", "--sparse-index"} {
		w := newWorld(t)
		sh(t, w.clone, `mkdir -p a/b c/d; echo x > a/b/f; echo x > c/d/f; git add -A; git commit -qm folders`)
		s := w.make("ada")
		git(t, s.Dir(), "sparse-checkout", "set", "--cone", sparse, "a")
		if exists(filepath.Join(s.Dir(), "c")) {
			t.Fatal("not sparse")
		}
		if got := state(t, s); len(got.Unsaved()) != 0 {
			t.Errorf("%s: %q %q", sparse, got.Unsaved(), got.Names)
		}
		must(t, os.MkdirAll(filepath.Join(s.Dir(), "c", "d"), 0o700))
		write(t, filepath.Join(s.Dir(), "c", "d", "f"), "changed\n")
		if got := state(t, s); got.Dirty() != 1 {
			t.Errorf("%s: %q %q", sparse, got.Unsaved(), got.Names)
		}
	}
}
