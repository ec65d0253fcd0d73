package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/cmd/drawbridge/internal/local"
)

// The uncommitted changes of a clone become a commit on a new branch: changed, new and deleted files, in the index or not, but nothing that git
// ignores. Index, tree and branch of the clone stay as they are, and earlier changes keep their branch.
func TestChanges(t *testing.T) {
	t.Parallel()
	clone := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := local.Git(t.Context(), clone, &out, append([]string{"-c", "user.name=me", "-c", "user.email=me@x"}, args...)...); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(clone, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := local.Repo{Clone: clone, Name: "local/x"}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "me")
	git("config", "user.email", "me@x")
	write("first", "one")
	if branch, err := r.Changes(t.Context(), "app"); err != nil || branch != "drawbridge-changes/app" || git("log", "--format=%P", branch) != "" || git("show", branch+":first") != "one" {
		t.Fatalf("a clone without a commit: %q %v", branch, err)
	}
	write(".gitignore", "secret\n")
	write("gone", "x")
	git("add", "-A")
	git("commit", "-qm", "one")
	write("first", "two")
	write("staged", "s")
	git("add", "staged")
	write("new file", "n")
	write("secret", "s")
	if err := os.Remove(filepath.Join(clone, "gone")); err != nil {
		t.Fatal(err)
	}
	before := git("status", "--porcelain") + git("rev-parse", "HEAD")
	branch, err := r.Changes(t.Context(), "app")
	if err != nil || branch != "drawbridge-changes/app-2" {
		t.Fatalf("%q %v", branch, err)
	}
	if got, want := git("diff", "--name-status", "main", branch), "M\tfirst\nD\tgone\nA\tnew file\nA\tstaged"; got != want {
		t.Errorf("the commit has %q, want %q", got, want)
	}
	if got := git("rev-parse", branch+"^"); got != git("rev-parse", "main") {
		t.Errorf("its parent is %s", got)
	}
	if after := git("status", "--porcelain") + git("rev-parse", "HEAD"); after != before {
		t.Errorf("the clone was %q and is %q", before, after)
	}
}
