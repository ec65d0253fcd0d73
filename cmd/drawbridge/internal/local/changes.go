package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// changesPrefix begins the branches with uncommitted changes that agents got.
const changesPrefix = "drawbridge-changes/"

// Changes makes a commit of all uncommitted changes of the clone, files that git does not ignore included, and a new branch for it. The clone's
// working tree, its index and its current branch stay as they are.
func (r Repo) Changes(ctx context.Context, agent string) (branch string, err error) {
	dir, err := os.MkdirTemp("", "drawbridge-index-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := call{r.Clone, env, &out}.git(ctx, args...)
		return strings.TrimSpace(out.String()), err
	}
	if err := r.copyIndex(ctx, filepath.Join(dir, "index")); err != nil {
		return "", err
	}
	if _, err := run("add", "--all"); err != nil {
		return "", err
	}
	tree, err := run("write-tree")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-m", "Uncommitted changes of " + filepath.Base(r.Clone), tree}
	if head, err := run("rev-parse", "-q", "--verify", "HEAD"); err == nil {
		args = append(args, "-p", head)
	}
	commit, err := run(args...)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		if branch = changesPrefix + agent; n > 1 {
			branch = fmt.Sprintf("%s%s-%d", changesPrefix, agent, n)
		}
		if _, err := run("rev-parse", "-q", "--verify", "refs/heads/"+branch); err == nil {
			continue // it has earlier changes, which stay
		}
		_, err := run("update-ref", "refs/heads/"+branch, commit, "")
		return branch, err
	}
}

// copyIndex copies the clone's index, so that git need not read each file. A clone may have none yet.
func (r Repo) copyIndex(ctx context.Context, to string) error {
	index, err := git(ctx, r.Clone, "rev-parse", "--git-path", "index")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(index) {
		index = filepath.Join(r.Clone, index)
	}
	data, err := os.ReadFile(index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
