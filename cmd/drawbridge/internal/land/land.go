// Package land shows what an agent did for a clone of this machine, merges it, and throws it away.
//
// It runs the person's own git, in the person's clone alone. What is in an agent's workspace it asks package workspace. It speaks to no bridge.
// Rule of thumb: a merge happens whole or not at all, and nothing is thrown away that was not shown.
package land

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/relay/agents/workspace"
)

// Work is what an agent did, as it was at a moment.
type Work struct {
	// Agent is what people call the agent, and Home the name of its workspace.
	Agent, Home string
	// Clone is the clone of the person, an absolute path.
	Clone string
	// At is the commit of the agent's branch in the clone, "" without one, and Kept are refs of the agent beside the branch.
	At   string
	Kept []string
	// Ref has all that the agent committed: the branch, or one of Kept where the branch could not be moved; "" for no commits.
	Ref string
	// Workspace is the agent's folder, "" where it is gone. Dirty counts files in it that are in no commit.
	Workspace string
	Dirty     int
	// Unsaved says what would be lost with the workspace, Names names some of it, and Code stands for all of it. See [workspace.State].
	Unsaved, Names []string
	Code           string
	// Notes say what is not as a person would expect, a sentence each.
	Notes []string
}

// tip is the commit of Ref, as it was at the look.
func (w Work) tip() string {
	if w.Ref == w.Branch() {
		return w.At
	}
	return path.Base(w.Ref) // a kept ref is named by what it holds
}

// Branch is the agent's branch in the clone.
func (w Work) Branch() string { return workspace.BranchPrefix + w.Home }

// Look brings the newest commits of a workspace into its clone, and says what else is there. A workspace that does not exist is a *[workspace.NotFound].
func Look(ctx context.Context, store *workspace.Store, agent, home string) (Work, error) {
	space, err := store.Get(ctx, home)
	if err != nil {
		return Work{}, err
	}
	w := Work{Agent: agent, Home: home, Clone: space.Clone(), Workspace: space.Dir()}
	fetched, err := space.Fetch(ctx, false)
	switch {
	case ctx.Err() != nil:
		return w, context.Cause(ctx)
	case err != nil:
		w.Notes = append(w.Notes, fmt.Sprintf("the newest commits are only in the workspace, not in your clone: %v", err))
	}
	w.Notes = append(w.Notes, fetched.Notes...)
	state, err := space.State(ctx)
	if err != nil {
		return w, err
	}
	w.Dirty, w.Unsaved, w.Names, w.Code = state.Dirty(), state.Unsaved(), state.Names, state.Code
	if w, err = w.Refs(ctx); err == nil && len(fetched.Kept) > 0 {
		w.Ref = fetched.Kept[0]
	}
	return w, err
}

// Refs reads where the refs of the agent are in the clone.
func (w Work) Refs(ctx context.Context) (Work, error) {
	out, err := w.git(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/"+w.Branch(), workspace.KeptRefs+w.Home)
	if err != nil {
		return w, err
	}
	w.At, w.Ref, w.Kept = "", "", nil
	for line := range strings.Lines(out) {
		at, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "refs/heads/"+w.Branch() {
			w.At, w.Ref = at, w.Branch()
		} else {
			w.Kept = append(w.Kept, name)
		}
	}
	return w, nil
}

// Into is the branch that the clone has checked out. A clone without a working tree or without a branch is an error.
func (w Work) Into(ctx context.Context) (string, error) {
	if bare, err := w.line(ctx, "rev-parse", "--is-bare-repository"); err != nil {
		return "", err
	} else if bare == "true" {
		return "", fmt.Errorf("%s is a bare repository; clone it, and use the branch %s in that clone", w.Clone, w.Ref)
	}
	branch, err := w.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err == nil {
		return branch, nil
	}
	at := local.Quoted(w.Clone)
	for _, folder := range []string{"rebase-merge", "rebase-apply"} {
		if state, err := w.line(ctx, "rev-parse", "--path-format=absolute", "--git-path", folder); err == nil && exists(state) {
			return "", fmt.Errorf("%s is in the middle of a rebase; finish it first: git -C %s rebase --continue, or --abort", w.Clone, at)
		}
	}
	return "", fmt.Errorf("%s has no branch checked out; check one out first: git -C %s switch BRANCH", w.Clone, at)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// Commits lists what the agent has and the checked out branch does not, the newest first, a line each: the short id and the agent's own words.
func (w Work) Commits(ctx context.Context) ([]string, error) {
	args := []string{"log", "--no-show-signature", "--no-color", "--no-decorate", "--format=%h %s", w.tip()}
	if _, err := w.git(ctx, "rev-parse", "--quiet", "--verify", "HEAD"); err == nil {
		args = append(args, "^HEAD")
	}
	out, err := w.git(ctx, append(args, "--")...)
	if out == "" || err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(out, "\n"), "\n"), nil
}

// Diff writes what the agent changed since its work and the checked out branch went apart. With stat it writes a line for each file.
func (w Work) Diff(ctx context.Context, stat bool, to io.Writer) error {
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"}
	if stat {
		args = append(args, "--stat")
	}
	base, err := w.line(ctx, "merge-base", "HEAD", w.tip())
	if err != nil { // they have nothing in common
		if base, err = w.line(ctx, "hash-object", "-t", "tree", "--stdin"); err != nil {
			return err
		}
	}
	return local.Git(ctx, w.Clone, to, append(args, base, w.tip(), "--")...)
}

// Merge merges the agent's work into the branch that is checked out, or changes nothing and says why. The clone's own hooks run.
func (w Work) Merge(ctx context.Context) error {
	at := local.Quoted(w.Clone)
	for name, what := range map[string]string{"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert"} {
		if _, err := w.git(ctx, "rev-parse", "--quiet", "--verify", name); err == nil {
			return fmt.Errorf("%s is in the middle of a %s; finish it first: git -C %s %s --continue, or --abort", w.Clone, what, at, what)
		}
	}
	dirty, err := w.git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return err
	}
	if n := strings.Count(dirty, "\n"); n > 0 {
		return fmt.Errorf("%s in %s; commit them, or put them aside: git -C %s stash", local.Changed(n), w.Clone, at)
	}
	_, err = w.git(ctx, "merge", "--no-edit", "--quiet", "-m", "Merge branch '"+w.Branch()+"'", w.tip())
	if err == nil {
		return nil
	}
	return w.undo(context.WithoutCancel(ctx), err)
}

// undo takes back a merge that failed, and says why it did.
func (w Work) undo(ctx context.Context, failed error) error {
	if _, err := w.git(ctx, "rev-parse", "--quiet", "--verify", "MERGE_HEAD"); err != nil {
		return fmt.Errorf("nothing was merged: %w", failed) // git changed nothing
	}
	out, err := w.git(ctx, "diff", "--name-only", "--diff-filter=U", "-z")
	files := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	if _, undone := w.git(ctx, "merge", "--abort"); undone != nil {
		return fmt.Errorf("%w; the merge is half done; to undo it: git -C %s merge --abort", failed, local.Quoted(w.Clone))
	}
	if err != nil || files[0] == "" {
		return fmt.Errorf("nothing was merged: %w", failed)
	}
	const shown = 5
	names := strings.Trim(fmt.Sprintf("%+q", files[:min(len(files), shown)]), "[]")
	if len(files) > shown {
		names += fmt.Sprintf(" and %d more", len(files)-shown)
	}
	return fmt.Errorf("nothing was merged: your changes and those of the agent conflict in %s; to merge by hand: git -C %s merge %s", names, local.Quoted(w.Clone), w.Ref)
}

// Loss is what exists only in the workspaces and on the branches of agents, a line for each agent. Code stands for exactly this; it is "" for no lines.
type Loss struct {
	Lines []string
	Code  string
}

// NowhereElse says what would be lost with all of the work. A branch that is checked out is an error.
func NowhereElse(ctx context.Context, all []Work) (l Loss, err error) {
	digest := sha256.New()
	others := []string{"--not"} // all refs but those that go
	for _, w := range all {
		others = append(others, "--exclude=refs/heads/"+w.Branch(), "--exclude="+workspace.KeptRefs+w.Home+"/*")
	}
	others = append(others, "--all", "--")
	for _, w := range all {
		found, err := w.nowhereElse(ctx, others)
		if err != nil {
			return Loss{}, err
		}
		if len(found) > 0 {
			l.Lines = append(l.Lines, w.Agent+" would lose "+strings.Join(found, ", "))
			fmt.Fprintf(digest, "%q", append([]string{w.Home, w.Code, w.At}, found...))
		}
	}
	if len(l.Lines) > 0 {
		l.Code = hex.EncodeToString(digest.Sum(nil))[:12]
	}
	return l, nil
}

// nowhereElse says what one agent would lose. others are the arguments of git that name what stays.
func (w Work) nowhereElse(ctx context.Context, others []string) ([]string, error) {
	out, err := w.git(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return nil, err
	}
	if slices.Contains(strings.Split(out, "\n"), "branch refs/heads/"+w.Branch()) {
		return nil, fmt.Errorf("the branch %s is checked out in %s; go to another branch first: git -C %s switch BRANCH", w.Branch(), w.Clone, local.Quoted(w.Clone))
	}
	own := slices.Clone(w.Kept)
	if w.At != "" {
		own = append(own, w.At)
	}
	if len(own) == 0 {
		return w.Unsaved, nil
	}
	n, err := w.line(ctx, append(append([]string{"rev-list", "--count"}, own...), others...)...)
	switch {
	case err != nil:
		return nil, err
	case n == "0":
		return w.Unsaved, nil
	case n == "1":
		return append(slices.Clone(w.Unsaved), "1 commit that no other branch or tag has"), nil
	}
	return append(slices.Clone(w.Unsaved), n+" commits that no other branch or tag has"), nil
}

// Drop deletes the agent's branch and its other refs. A ref that has moved since the look stays, and is an error.
func (w Work) Drop(ctx context.Context) error {
	var failed []error
	for _, ref := range append(slices.Clone(w.Kept), "refs/heads/"+w.Branch()) {
		at := w.At
		if strings.HasPrefix(ref, workspace.KeptRefs) {
			at = path.Base(ref)
		}
		now, err := w.line(ctx, "for-each-ref", "--format=%(objectname)", ref)
		if err == nil && now != "" {
			_, err = w.git(ctx, "update-ref", "-d", ref, at)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// PullRequest says how the agent's branch becomes a pull request: the command that pushes it, and the page that opens one, "" where the remote is not
// on GitHub. Both are "" for a clone without a remote, and where the branch lacks commits.
func (w Work) PullRequest(ctx context.Context) (push, page string) {
	remote, address := local.Remote(ctx, w.Clone)
	if remote == "" || w.Ref != w.Branch() {
		return "", ""
	}
	push = fmt.Sprintf("git -C %s push %s %s", local.Quoted(w.Clone), local.Quoted(remote), w.Branch())
	if repo := local.OnGitHub(address); repo != "" {
		page = "https://" + repo + "/compare/" + w.Branch() + "?expand=1"
	}
	return push, page
}

// line runs git and returns its first line.
func (w Work) line(ctx context.Context, args ...string) (string, error) {
	out, err := w.git(ctx, args...)
	line, _, _ := strings.Cut(out, "\n")
	return line, err
}

// git runs the person's git in the clone.
func (w Work) git(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := local.Git(ctx, w.Clone, &out, args...)
	return out.String(), err
}
