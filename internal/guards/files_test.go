package guards_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxBytesInGit is more than any text of ours needs. What is larger is a program or a database that was added by mistake.
const maxBytesInGit = 512 << 10

func TestNoLargeFileInGit(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Logf("git lists no files here (%v): a copy without its history holds what its maker put into it", err)
		return
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(names) < 50 {
		t.Fatalf("git lists only %d files: the guard looks in the wrong place", len(names))
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join("../..", name))
		if err == nil && info.Size() > maxBytesInGit {
			t.Errorf("%s has %d bytes, more than %d: remove it from git, or make it smaller", name, info.Size(), maxBytesInGit)
		}
	}
}
