package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drawbridge/relay/agents/workspace"
)

const settingsFile = ".cursor/mcp.json"

func put(t *testing.T, s *workspace.Space, text string) error {
	t.Helper()
	return s.Put(t.Context(), settingsFile, []byte(text))
}

// TestPut: a file for the agent does not count as work, git does not offer it, and the relay may write it again.
func TestPut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	for _, text := range []string{"first", "first", "second"} {
		must(t, put(t, s, text))
		got, err := os.ReadFile(filepath.Join(s.Dir(), settingsFile))
		if err != nil || string(got) != text {
			t.Errorf("%q %v", got, err)
		}
	}
	if stat, err := os.Stat(filepath.Join(s.Dir(), settingsFile)); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", stat.Mode(), err)
	}
	if got := git(t, s.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("git offers %q", got)
	}
	if got := state(t, w.ada()); len(got.Unsaved()) != 0 {
		t.Errorf("unsaved: %q", got.Unsaved())
	}
	write(t, filepath.Join(s.Dir(), settingsFile), "the agent's own")
	if err := put(t, s, "third"); err == nil || !strings.Contains(err.Error(), "the relay did not write its content") {
		t.Errorf("over the agent's own: %v", err)
	}
	if got := state(t, w.ada()); got.Untracked != 1 {
		t.Errorf("unsaved: %q", got.Unsaved())
	}
}

// TestPutOverwritesNothing: whatever stands in the place or on the way stays as it is.
func TestPutOverwritesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, plant string }{
		{"a tracked file", `mkdir .cursor; echo x > .cursor/mcp.json; git add -Af; git commit -qm x`},
		{"a tracked file that was deleted", `mkdir .cursor; echo x > .cursor/mcp.json; git add -Af; git commit -qm x; rm .cursor/mcp.json`},
		{"a tracked folder", `mkdir -p .cursor/mcp.json; echo x > .cursor/mcp.json/x; git add -A; git commit -qm x; rm -r .cursor`},
		{"a tracked file in place of the folder", `echo x > .cursor; git add -A; git commit -qm x; rm .cursor`},
		{"a staged file", `mkdir .cursor; echo x > .cursor/mcp.json; git add -A`},
		{"a file", `mkdir .cursor; echo x > .cursor/mcp.json`},
		{"an ignored file", `mkdir .cursor; echo '*' > .cursor/.gitignore; echo x > .cursor/mcp.json`},
		{"a link to a file", `mkdir .cursor; echo x > ../victim; ln -s ../../victim .cursor/mcp.json`},
		{"a link to nothing", `mkdir .cursor; ln -s ../../victim .cursor/mcp.json`},
		{"a link within the tree", `mkdir .cursor; ln -s ../README .cursor/mcp.json`},
		{"a hard link", `mkdir .cursor; ln README .cursor/mcp.json`},
		{"a folder", `mkdir -p .cursor/mcp.json`},
		{"a FIFO", `mkdir .cursor; mkfifo .cursor/mcp.json`},
		{"a link on the way", `mkdir ../outside; ln -s ../outside .cursor`},
		{"a link on the way within the tree", `mkdir inside; ln -s inside .cursor`},
		{"a file on the way", `echo x > .cursor`},
		{"a link at info", `mv .git/info ../info; ln -s ../../info .git/info`},
		{"a link at .git", `mv .git ../real; ln -s ../real .git`},
		{"a link at the list of ignored files", `rm -f .git/info/exclude; ln -s ../../README .git/info/exclude`},
		{"a FIFO at the list of ignored files", `rm -f .git/info/exclude; mkfifo .git/info/exclude`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			sh(t, s.Dir(), c.plant)
			before := contents(t, filepath.Dir(s.Dir()))
			err := put(t, s, "secret of the relay")
			if err == nil {
				t.Error("written")
			}
			after := contents(t, filepath.Dir(s.Dir()))
			for path, text := range after {
				if strings.Contains(text, "secret of the relay") {
					t.Errorf("written to %s", path)
				}
			}
			for path, text := range before {
				if after[path] != text {
					t.Errorf("%s was %q and is %q", path, text, after[path])
				}
			}
		})
	}
}

// contents reads each plain file of an agent, and what its links say.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(dir, path); e.IsDir() && (rel == "kept.git" || rel == "view.git" || rel == "look") {
			return filepath.SkipDir
		}
		switch {
		case e.Type().IsRegular():
			text, err := os.ReadFile(path)
			all[path] = string(text)
			return err
		case e.Type()&os.ModeSymlink != 0:
			all[path], err = os.Readlink(path)
		}
		return err
	}))
	return all
}

// TestTrackedFilesCannotTakePutFilesAlong: a tracked .gitignore can have git offer the file again. Then fetch refuses the commit.
func TestTrackedFilesCannotTakePutFilesAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	sh(t, s.Dir(), `printf '!mcp.json\n!.cursor\n' > .gitignore; git add -A; git commit -qm ignores`)
	must(t, put(t, s, `{"token":"first"}`))
	must(t, put(t, s, `{"token":"second"}`))
	if got := git(t, s.Dir(), "status", "--porcelain"); got == "" {
		t.Fatal("git does not offer the file, so that this test shows nothing")
	}
	if got := state(t, w.ada()); !got.Clean() {
		t.Errorf("the relay's own file counts as dirt: %q", got.Names)
	}
	sh(t, s.Dir(), `git add -A; git commit -qm "everything"; git mv .cursor/mcp.json moved; git commit -qm moved`)
	for _, all := range []bool{false, true} {
		if _, err := w.ada().Fetch(t.Context(), all); err == nil || !strings.Contains(err.Error(), "that the relay wrote only for this agent") {
			t.Errorf("fetch: %v", err)
		}
	}
	if out, err := try(t, w.clone, "git", "rev-parse", "-q", "--verify", "drawbridge/ada"); err == nil {
		t.Errorf("it is there: %s", out)
	}
	if got := state(t, w.ada()); got.Unfetched != 3 {
		t.Errorf("unsaved: %q", got.Unsaved())
	}
	tip := sh(t, s.Dir(), `git reset -q --soft HEAD~2; git rm -q --cached moved; git rev-parse HEAD`)
	if f := fetch(t, w.ada(), false); f.After != tip {
		t.Errorf("fetched: %+v", f)
	}
}

// hostilePaths must not name anything below a workspace.
var hostilePaths = []string{
	"", ".", "..", "/", "/etc", "../x", "a/../../x", "a/..", "./a", "a/", "a//b", "a/./b", "/tmp/x", "a\x00b", `a\b`, `..\x`,
	".git", ".GIT", ".git/hooks", "a/.git", "a/.Git/x", ".git.", ".git ", "git~1", strings.Repeat("a/", 80) + "a", strings.Repeat("a", 2000),
}

// TestBelow: a child works below its parent's workspace, in a folder that is made if it does not exist, and nowhere else.
func TestBelow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	for range 2 {
		sub, err := s.Below("docs/api")
		must(t, err)
		if sub.Path != filepath.Join(s.Dir(), "docs", "api") || sub.Same() != nil {
			t.Errorf("%+v %v", sub, sub.Same())
		}
		must(t, sub.File.Close())
	}
	for _, bad := range hostilePaths {
		if sub, err := s.Below(bad); err == nil {
			t.Errorf("%q led to %s", bad, sub.Path)
		}
		if err := s.Put(t.Context(), bad, nil); err == nil {
			t.Errorf("%q was written", bad)
		}
		if _, err := s.Read(bad, 10); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	for _, c := range some([]struct{ plant, path string }{
		{`mkdir ../out; ln -s ../out a1`, "a1"}, {`ln -s ../out a2`, "a2/b"}, {`mkdir -p a3 in; ln -s ../../out a3/b`, "a3/b/c"},
		{`ln -s in a4`, "a4"}, {`ln -s in a5`, "a5/b"}, {`echo x > a6`, "a6"}, {`echo x > a7`, "a7/b"}, {`mkfifo a8`, "a8/b"}, {`ln -s nowhere a9`, "a9"},
	}) {
		sh(t, s.Dir(), c.plant)
		if sub, err := s.Below(c.path); err == nil {
			t.Errorf("%s led to %s", c.plant, sub.Path)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(filepath.Dir(s.Dir()), "out")); err != nil || len(entries) != 0 {
		t.Errorf("outside: %v %v", entries, err)
	}
}

// TestBelowNoticesReplacements: the parent puts something else in the place after the check.
func TestBelowNoticesReplacements(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		`mv docs/api docs/old; mkdir docs/api`, `mv docs/api docs/old; ln -s old docs/api`, `mv docs was; ln -s was docs`, `mv docs was; mkdir -p docs/api`, `rm -r docs`,
	} {
		w := newWorld(t)
		s := w.make("ada")
		sub, err := s.Below("docs/api")
		must(t, err)
		sh(t, s.Dir(), script)
		if sub.Same() == nil {
			t.Errorf("%s: not noticed", script)
		}
		must(t, sub.File.Close())
	}
}

// TestRead: the relay reads files of a workspace for transfer, and nothing that a link leads to.
func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	sh(t, s.Dir(), `mkdir -p a/b; printf text > a/b/c; ln -s a/b/c link; ln -s a way; ln -s /etc/passwd out; mkfifo fifo; truncate -s 8T huge`)
	if text, err := s.Read("a/b/c", 4); err != nil || string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
	if stat, err := os.Stat(filepath.Join(s.Dir(), "huge")); err != nil || stat.Sys().(*syscall.Stat_t).Size == 0 {
		t.Fatal(err)
	}
	for _, bad := range []string{"a/b", "link", "way/b/c", "out", "fifo", "huge", "missing", "a/b/c/d", ".git/config"} {
		if text, err := s.Read(bad, 1000); err == nil {
			t.Errorf("%s: %q", bad, text)
		}
	}
	if _, err := s.Read("a/b/c", 3); err == nil || !strings.Contains(err.Error(), "4 bytes") {
		t.Errorf("too large: %v", err)
	}
}
