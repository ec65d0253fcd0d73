package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// State is what the relay found in a workspace. It is a plain value, and what the agent wrote in it is escaped and bounded.
type State struct {
	Agent string `json:"agent"`
	Path  string `json:"path"`
	Clone string `json:"clone"`
	// Branch is the agent's branch; On is the branch that is checked out, empty when none is.
	Branch string `json:"branch"`
	On     string `json:"on"`
	// Head is the commit that is checked out, Base that at which the workspace began.
	Head string `json:"head,omitempty"`
	Base string `json:"base,omitempty"`
	Changes
	// Unfetched are commits on the agent's branch that no ref of the clone leads to.
	Unfetched int `json:"unfetched"`
	// Elsewhere are more such commits: on other branches, stashed, detached, or in no branch any more.
	Elsewhere int `json:"elsewhere"`
	// Tags are annotated tags that the clone does not have.
	Tags int `json:"tags,omitempty"`
	// Large are files of Git LFS or git-annex that the clone does not have.
	Large int `json:"large,omitempty"`
	// Operations are what git is in the middle of, such as a rebase.
	Operations []string `json:"operations,omitempty"`
	// Worktrees are linked worktrees, which may hold more work elsewhere.
	Worktrees int `json:"worktrees,omitempty"`
	// Problems say what could not be read. What cannot be read counts as unsaved.
	Problems []string `json:"problems,omitempty"`
	// Bytes is what the workspace takes on the disk.
	Bytes int64 `json:"bytes"`
	// Code stands for everything that is unsaved. It is empty when all is saved.
	Code string `json:"code,omitempty"`
}

// Unsaved lists what would be lost with the workspace, a line each; none when all is saved.
func (s State) Unsaved() []string {
	var lines []string
	add := func(n int, one, many string) {
		if n == 1 {
			lines = append(lines, "1 "+one)
		} else if n > 1 {
			lines = append(lines, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(s.Staged, "staged change", "staged changes")
	add(s.Modified, "changed file", "changed files")
	add(s.Deleted, "file deleted without a commit", "files deleted without a commit")
	add(s.Untracked, "untracked file", "untracked files")
	add(s.Ignored, "ignored file", "ignored files")
	add(s.Unfetched, "commit that was not fetched", "commits that were not fetched")
	add(s.Elsewhere, "commit outside of the branch "+s.Branch, "commits outside of the branch "+s.Branch)
	add(s.Tags, "tag", "tags")
	add(s.Large, "large file of Git LFS or git-annex", "large files of Git LFS or git-annex")
	add(len(s.Nested), "repository within the tree", "repositories within the tree")
	add(s.Worktrees, "linked worktree", "linked worktrees")
	for _, operation := range s.Operations {
		lines = append(lines, operation+" in progress")
	}
	for _, problem := range s.Problems {
		lines = append(lines, "unknown: "+problem)
	}
	return lines
}

// Clean reports whether every file of the tree is in a commit. Ignored files do not count.
func (s State) Clean() bool {
	return s.Dirty() == 0 && len(s.Operations)+len(s.Problems)+len(s.Nested)+s.Worktrees == 0
}

// State looks at the workspace. An agent's repository that cannot be judged is not an error: Problems says so.
func (s *Space) State(ctx context.Context) (State, error) {
	release, err := s.store.work(ctx, s.agent)
	if err != nil {
		return State{}, err
	}
	defer release()
	state, _, err := s.state(ctx)
	state.Bytes = s.size(ctx)
	return state, err
}

// seen is what a look came to: a view, or why there is none.
type seen struct {
	view *view
	err  error
}

// state looks at the workspace. Only a caller that is gone is an error.
func (s *Space) state(ctx context.Context) (State, seen, error) {
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, s.store.limits.Time, errSlow)
	defer cancel()
	state := State{Agent: s.agent, Path: s.Dir(), Clone: s.record.Clone, Branch: s.Branch(), Base: s.record.Base}
	digest := sha256.New()
	v, err := s.look(ctx)
	found := seen{v, err}
	if err == nil {
		err = v.state(ctx, &state, digest.Write)
	}
	switch {
	case caller.Err() != nil:
		return state, found, context.Cause(caller)
	case errors.Is(context.Cause(ctx), errSlow):
		state.Problems = append(state.Problems, fmt.Sprintf("the relay did not finish reading the workspace within %s", s.store.limits.Time))
	case err != nil:
		state.Problems = append(state.Problems, s.said(err.Error()))
	}
	if unsaved := state.Unsaved(); len(unsaved) > 0 {
		fmt.Fprintf(writer(digest.Write), "%q", unsaved)
		state.Code = hex.EncodeToString(digest.Sum(nil))[:12]
	}
	return state, found, nil
}

// said is an error for people. The place of the workspace changes while it is removed, and must not change the code.
func (s *Space) said(text string) string { return shown(strings.ReplaceAll(text, s.dir+"/", "")) }

var errSlow = errors.New("the relay did not finish reading the workspace in time")

// judgeable reports whether an error is about what a repository holds, so that another look may find more.
func judgeable(err error) bool {
	var p problem
	return errors.As(err, &p) || exit(err) > 0 || errors.Is(err, fs.ErrNotExist)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// state fills in what a view shows.
func (v *view) state(ctx context.Context, state *State, digest writer) error {
	state.On, state.Head = shown(v.heads.on), v.heads.at
	state.Operations = slices.Clone(v.heads.operations)
	slices.Sort(state.Operations)
	state.Worktrees = v.heads.worktrees
	for _, problem := range v.problems {
		state.Problems = append(state.Problems, v.s.said(problem))
	}
	if v.lost != "" {
		state.Problems = append(state.Problems, "the relay cannot read the clone, so every commit counts as not fetched: "+v.lost)
	}
	commits, err := v.unsaved(ctx)
	if err != nil {
		return err
	}
	for _, c := range commits {
		fmt.Fprintln(digest, c.id)
		if c.own {
			state.Unfetched++
		} else {
			state.Elsewhere++
		}
	}
	for _, tag := range v.tags {
		if !v.clone[tag] {
			fmt.Fprintln(digest, tag)
			state.Tags++
		}
	}
	if state.Large, err = v.large(ctx); err != nil {
		return err
	}
	changes, sum, err := v.walk(ctx)
	state.Changes = changes
	fmt.Fprintln(digest, sum)
	return err
}

// unsavedCommit is a commit to which no ref of the clone leads.
type unsavedCommit struct {
	id      string
	parents []string
	// own is true on the agent's branch.
	own bool
}

// unsaved lists every commit that would be lost with the workspace.
func (v *view) unsaved(ctx context.Context) ([]unsavedCommit, error) {
	out, err := v.git(ctx, "rev-list", "--parents", "--glob=refs/found/*", "--not", "--glob=refs/clone/*")
	if err != nil {
		return nil, problemf("its history cannot be followed: %v", err)
	}
	commits := []unsavedCommit{}
	at := map[string]int{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		at[fields[0]] = len(commits)
		commits = append(commits, unsavedCommit{id: fields[0], parents: fields[1:]})
	}
	// What the agent's branch leads to is its own.
	for next := []string{v.tip()}; len(next) > 0; {
		id := next[0]
		next = next[1:]
		if i, found := at[id]; found && !commits[i].own {
			commits[i].own = true
			next = append(next, commits[i].parents...)
		}
	}
	return commits, nil
}

// large counts the files that Git LFS and git-annex keep beside the objects; git does not fetch them.
func (v *view) large(ctx context.Context) (int, error) {
	root, err := os.OpenRoot(v.s.Dir())
	if err != nil {
		return 0, err
	}
	defer root.Close()
	count := 0
	for _, folder := range []string{"lfs/objects", "annex/objects"} {
		theirs := filepath.Join("/nonexistent", folder)
		if v.saved {
			theirs = filepath.Join(v.common, folder)
		}
		n, err := v.largeIn(ctx, root, filepath.Join(".git", folder), theirs)
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}

func (v *view) largeIn(ctx context.Context, root *os.Root, dir, theirs string) (count int, err error) {
	if stat, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, nil
	} else if err != nil || !stat.IsDir() {
		return 0, errors.Join(err, problemf("%s is not a folder", dir))
	}
	err = eachEntry(root, dir, func(e fs.DirEntry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if strings.Count(name, "/") > 16 {
				return problemf("%s has too many folders", dir)
			}
			n, err := v.largeIn(ctx, root, name, filepath.Join(theirs, e.Name()))
			count += n
			return err
		}
		ours, err := root.Lstat(name)
		if err != nil {
			return err
		}
		if there, err := os.Stat(filepath.Join(theirs, e.Name())); err != nil || there.Size() != ours.Size() {
			count++
		}
		return nil
	})
	return count, err
}

// size adds up what the workspace takes on the disk; what cannot be read does not count.
func (s *Space) size(ctx context.Context) (total int64) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return 0
	}
	defer root.Close()
	left := s.store.limits.Entries
	var add func(dir string, depth int)
	add = func(dir string, depth int) {
		_ = eachEntry(root, dir, func(e fs.DirEntry) error {
			if left--; left < 0 || depth > maxDepth || ctx.Err() != nil {
				return fs.SkipAll
			}
			name := filepath.Join(dir, e.Name())
			if stat, err := root.Lstat(name); err == nil {
				if sys, ok := stat.Sys().(*syscall.Stat_t); ok {
					total += sys.Blocks * 512
				}
			}
			if e.IsDir() {
				add(name, depth+1)
			}
			return nil
		})
	}
	add(".", 0)
	return total
}
