package workspace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of an [Evidence].
const (
	maxEvidenceCommits = 50
	maxEvidenceFiles   = 100
	maxSubject         = 200
)

// Evidence is what the relay itself read from git at the end of a turn, apart from what the agent says. It is a plain value; what
// the agent wrote in it is escaped and bounded.
type Evidence struct {
	Agent  string `json:"agent"`
	Branch string `json:"branch"`
	// On is the branch that is checked out, empty when none is.
	On string `json:"on"`
	// Since is the commit at which the turn began, Head that at which it ended; empty before the first commit.
	Since string `json:"since,omitempty"`
	Head  string `json:"head,omitempty"`
	// Commits are the newest commits since then, the last first; Total counts all of them.
	Commits []Commit `json:"commits"`
	Total   int      `json:"total"`
	// Files are the first files that differ between Since and Head. The sums count all files.
	Files     []FileStat `json:"files"`
	Changed   int        `json:"changed"`
	Additions int        `json:"additions"`
	Deletions int        `json:"deletions"`
	// Clean is true when every file of the tree is in a commit. Otherwise Changes and Problems say what is not.
	Clean    bool     `json:"clean"`
	Changes  Changes  `json:"changes"`
	Problems []string `json:"problems,omitempty"`
}

// Commit is one commit of an agent.
type Commit struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
}

// FileStat counts the lines that changed in a file. A binary file has no lines.
type FileStat struct {
	Path      string `json:"path"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Binary    bool   `json:"binary,omitempty"`
}

// Evidence reads what became of the workspace since a commit; an empty since stands for the commit at which the workspace began.
func (s *Space) Evidence(ctx context.Context, since string) (Evidence, error) {
	release, err := s.store.work(ctx, s.agent)
	if err != nil {
		return Evidence{}, err
	}
	defer release()
	e, _, err := s.evidence(ctx, since)
	return e, err
}

// evidence is Evidence for who holds the lock. It returns what the look came to as well.
func (s *Space) evidence(ctx context.Context, since string) (Evidence, seen, error) {
	if since == "" {
		since = s.record.Base
	}
	state, found, err := s.state(ctx)
	if err != nil {
		return Evidence{}, found, err
	}
	e := Evidence{
		Agent: s.agent, Branch: s.Branch(), On: state.On, Since: since, Head: state.Head, Clean: state.Clean(), Changes: state.Changes,
		Problems: append(state.Problems, state.Operations...), Commits: []Commit{}, Files: []FileStat{},
	}
	if found.view == nil || e.Head == "" {
		return e, found, nil
	}
	if since != "" && !objectID.MatchString(since) {
		return e, found, problemf("%+.80q is not the id of a commit", since)
	}
	if since == e.Head {
		return e, found, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.store.limits.Time, errSlow)
	defer cancel()
	if err := found.view.commits(ctx, &e); err != nil {
		return e, found, err
	}
	return e, found, found.view.differences(ctx, &e)
}

func (v *view) commits(ctx context.Context, e *Evidence) error {
	args := []string{e.Head}
	if e.Since != "" {
		args = append(args, "^"+e.Since)
	}
	out, err := v.git(ctx, append([]string{"rev-list", "--count"}, args...)...)
	if err != nil {
		return err
	}
	if e.Total, err = strconv.Atoi(strings.TrimSpace(out)); err != nil {
		return err
	}
	out, err = v.git(ctx, append([]string{"log", "-z", "--no-color", "--no-decorate", "--no-mailmap", "--no-show-signature", "--max-count=" + strconv.Itoa(maxEvidenceCommits), "--format=%H %s"}, args...)...)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(strings.TrimRight(out, "\x00\n"), "\x00") {
		if id, subject, found := strings.Cut(part, " "); found || id != "" {
			e.Commits = append(e.Commits, Commit{ID: id, Subject: shown(subject)})
		}
	}
	return nil
}

// differences compares the two commits file by file. A repository of ours has no attributes and no program for differences.
func (v *view) differences(ctx context.Context, e *Evidence) error {
	from := e.Since
	if from == "" {
		from = emptyTree[v.s.record.Format]
	}
	for _, commit := range []string{from, e.Head} {
		// Git compares in memory, and a small commit can name a folder a million times.
		err := v.s.store.git.stream(ctx, call{repo: v.dir(), args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", commit}}, v.s.store.limits.Entries, func(string) {})
		if errors.Is(err, errTooMany) {
			e.Problems = append(e.Problems, fmt.Sprintf("commit %s has more than %d files, so the relay does not show differences", commit, v.s.store.limits.Entries))
			return nil
		}
		if err != nil {
			return err
		}
	}
	each := func(part string) {
		added, rest, _ := strings.Cut(part, "\t")
		deleted, name, found := strings.Cut(rest, "\t")
		if !found {
			return
		}
		f := FileStat{Path: shown(name), Binary: added == "-"}
		f.Additions, _ = strconv.Atoi(added)
		f.Deletions, _ = strconv.Atoi(deleted)
		e.Changed++
		e.Additions += f.Additions
		e.Deletions += f.Deletions
		if len(e.Files) < maxEvidenceFiles {
			e.Files = append(e.Files, f)
		}
	}
	return v.s.store.git.stream(ctx, call{repo: v.dir(), args: []string{
		"diff-tree", "-r", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", from, e.Head,
	}}, 2*v.s.store.limits.Entries, each)
}

// emptyTree is the id of a folder without files.
var emptyTree = map[string]string{
	"sha1":   "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
	"sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
