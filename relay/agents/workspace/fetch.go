package workspace

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/internal/trust"
)

// KeptRefs is where commits go in the listed clone that cannot go onto the agent's branch: refs/drawbridge/<agent>/<commit>. No ref
// there is ever moved.
const KeptRefs = "refs/drawbridge/"

// Fetched is what came of a fetch.
type Fetched struct {
	Agent  string `json:"agent"`
	Clone  string `json:"clone"`
	Branch string `json:"branch"`
	// Before and After are where the branch of the clone was and is; Before is empty when the branch is new.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Kept are refs that hold commits which could not go onto the branch.
	Kept []string `json:"kept,omitempty"`
	// Notes say why the branch stayed where it was, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Fetch brings the agent's branch back into the listed clone, forward only. A branch that a person has checked out or has moved stays as
// it is; then the commits get a ref of their own, and Notes say so. With all, every other commit that the clone does not have gets
// one, too. Fetch may be cut off anywhere and called again. It changes nothing in the workspace and no file of the clone.
func (s *Space) Fetch(ctx context.Context, all bool) (Fetched, error) {
	release, err := s.store.work(ctx, s.agent)
	if err != nil {
		return Fetched{}, err
	}
	defer release()
	looking, cancel := context.WithTimeoutCause(ctx, s.store.limits.Time, errSlow)
	defer cancel()
	v, err := s.look(looking)
	return s.fetch(looking, seen{v, err}, all)
}

// fetch is Fetch for who holds the lock and has looked.
func (s *Space) fetch(ctx context.Context, found seen, all bool) (Fetched, error) {
	f := Fetched{Agent: s.agent, Clone: s.record.Clone, Branch: s.Branch()}
	v, err := found.view, found.err
	if err != nil {
		return f, fmt.Errorf("read workspace of %s: %w", s.agent, err)
	}
	if v.lost != "" {
		return f, fmt.Errorf("fetch for %s: %s; the commits stay in the workspace", s.agent, v.lost)
	}
	if err := v.refuseOurs(ctx, all); err != nil {
		return f, err
	}
	if err = v.bringBranch(ctx, &f); err == nil && all {
		err = v.bringRest(ctx, &f)
	}
	return f, err
}

// EndTurn is [Space.Evidence] and [Space.Fetch] of the agent's branch with one look at the workspace: the evidence tells of the commits
// that are brought. Nothing is fetched where no look was possible, and the errors say what failed.
func (s *Space) EndTurn(ctx context.Context, since string) (e Evidence, f *Fetched, failed []error) {
	release, err := s.store.work(ctx, s.agent)
	if err != nil {
		return Evidence{}, nil, []error{err}
	}
	defer release()
	e, found, err := s.evidence(ctx, since)
	if err != nil {
		failed = append(failed, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.store.limits.Time, errSlow)
	defer cancel()
	fetched, err := s.fetch(ctx, found, false)
	if err != nil {
		return e, nil, append(failed, err)
	}
	return e, &fetched, failed
}

// bringBranch brings the agent's branch.
func (v *view) bringBranch(ctx context.Context, f *Fetched) error {
	f.Before = v.s.exists(ctx, "refs/heads/"+v.s.Branch())
	if f.After = f.Before; v.tip() == "" {
		return nil
	}
	return v.bring(ctx, f)
}

// bring moves the branch of the clone forward, or keeps the commits beside it.
func (v *view) bring(ctx context.Context, f *Fetched) error {
	s, tip := v.s, v.tip()
	if f.Before == tip || f.Before != "" && v.leads(ctx, tip, f.Before) {
		return nil // the clone has it all
	}
	note := ""
	if where := s.checkedOut(ctx); where != "" {
		note = fmt.Sprintf("the branch %s is checked out in %s, so the relay did not move it; merge the commits there, or switch to another branch and fetch again", s.Branch(), shown(where))
	} else if f.Before != "" && !v.leads(ctx, f.Before, tip) {
		note = fmt.Sprintf("the branch %s has commits that the agent's branch lacks, so the relay did not move it", s.Branch())
	}
	if note == "" {
		here("workspace.fetch.before")
		err := v.fetch(ctx, "refs/out/tip", "refs/heads/"+s.Branch())
		here("workspace.fetch.after")
		if now := s.exists(ctx, "refs/heads/"+s.Branch()); now == tip {
			f.After = tip
			return nil
		}
		if err == nil {
			err = fmt.Errorf("git moved the branch %s, but the branch is now at another commit", s.Branch())
		}
		note = fmt.Sprintf("the branch %s could not be moved (%v)", s.Branch(), err)
	}
	if err := v.keep(ctx, "refs/out/tip", tip, f); err != nil {
		return err
	}
	f.Notes = append(f.Notes, note)
	return nil
}

// leads reports whether a commit is one of the ancestors of another.
func (v *view) leads(ctx context.Context, ancestor, commit string) bool {
	_, err := v.git(ctx, "merge-base", "--is-ancestor", ancestor, commit)
	return err == nil
}

// keep gives a commit a ref of its own in the clone.
func (v *view) keep(ctx context.Context, from, commit string, f *Fetched) error {
	ref := KeptRefs + v.s.agent + "/" + commit
	here("workspace.keep.before")
	if v.s.exists(ctx, ref) != commit {
		if err := v.fetch(ctx, from, ref); err != nil {
			return fmt.Errorf("fetch for %s: %w; the commits stay in the workspace", v.s.agent, explain(v.s.record.Clone, err))
		}
	}
	here("workspace.keep.after")
	f.Kept = append(f.Kept, ref)
	return nil
}

// fetch brings one ref of the view into the clone. Git checks every object that is new there, and moves a ref forward only.
func (v *view) fetch(ctx context.Context, from, to string) error {
	_, err := v.s.clone(ctx, "-c", "fetch.fsckObjects=true", "-c", "transfer.hideRefs=", "fetch", "-q", "--no-tags", "--no-write-fetch-head",
		"--no-auto-maintenance", "--no-recurse-submodules", "--upload-pack=git-upload-pack", "--", v.dir(), from+":"+to)
	return err
}

// checkedOut returns the folder in which the agent's branch is checked out, or "".
func (s *Space) checkedOut(ctx context.Context) string {
	out, err := s.clone(ctx, "worktree", "list", "--porcelain")
	if err != nil {
		return ""
	}
	folder, bare := "", false
	for line := range strings.Lines(out + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if path, found := strings.CutPrefix(line, "worktree "); found {
			folder, bare = path, false
		}
		bare = bare || line == "bare"
		if line == "branch refs/heads/"+s.Branch() && !bare {
			return folder
		}
	}
	return ""
}

// bringRest keeps the ends of everything else: other branches, stashes, detached commits and those that nothing names.
func (v *view) bringRest(ctx context.Context, f *Fetched) error {
	commits, err := v.unsaved(ctx)
	if err != nil {
		return err
	}
	inner := map[string]bool{}
	for _, c := range commits {
		for _, parent := range c.parents {
			inner[parent] = true
		}
	}
	names, err := v.names(commits)
	if err != nil {
		return err
	}
	for _, c := range commits {
		ref := KeptRefs + v.s.agent + "/" + c.id
		if inner[c.id] || c.id == v.tip() || slices.Contains(f.Kept, ref) {
			continue
		}
		if err := v.keep(ctx, names[c.id], c.id, f); err != nil {
			return err
		}
	}
	for _, tag := range v.tags {
		if v.clone[tag] {
			continue
		}
		if err := v.keepTag(ctx, tag, f); err != nil {
			return err
		}
	}
	return nil
}

// names gives each commit a ref in the view, so that it can be fetched by name.
func (v *view) names(commits []unsavedCommit) (map[string]string, error) {
	names := map[string]string{}
	ids := make([]string, 0, len(commits)+len(v.tags))
	for _, c := range commits {
		ids = append(ids, c.id)
	}
	for _, id := range append(ids, v.tags...) {
		names[id] = "refs/rest/" + id
	}
	return names, v.addRefs(names)
}

func (v *view) keepTag(ctx context.Context, tag string, f *Fetched) error {
	ref := KeptRefs + v.s.agent + "/" + tag
	if err := v.fetch(ctx, "refs/rest/"+tag, ref); err != nil {
		return fmt.Errorf("fetch a tag for %s: %w", v.s.agent, explain(v.s.record.Clone, err))
	}
	f.Kept = append(f.Kept, ref)
	return nil
}

// refuseOurs refuses to bring commits with a file that the relay wrote: such a file may hold what only this agent's process may know.
func (v *view) refuseOurs(ctx context.Context, all bool) error {
	blobs := map[string]string{}
	for name, file := range v.s.record.Files {
		for _, blob := range file.Blobs {
			blobs[blob] = name
		}
	}
	if len(blobs) == 0 {
		return nil
	}
	found := ""
	lines := &records{separator: '\n', each: func(line string) {
		id, _, _ := strings.Cut(line, " ")
		if name, ours := blobs[id]; ours {
			found = name
		}
	}}
	which := "--glob=refs/out/*"
	if all {
		which = "--glob=refs/found/*"
	}
	args := []string{"rev-list", "--objects", which, "--not", "--glob=refs/clone/*"}
	if _, err := v.s.store.git.do(ctx, call{repo: v.dir(), args: args, out: lines}); err != nil {
		return err
	}
	if found != "" {
		return trust.Because(fmt.Sprintf("a commit of %s holds %s, a file that the relay wrote only for this agent; the relay fetched nothing", v.s.agent, shown(found)),
			fmt.Sprintf("tell the agent to remove the file from its commits (git rm --cached %s, then git commit --amend), and fetch again", filepath.Base(shown(found))))
	}
	return nil
}
