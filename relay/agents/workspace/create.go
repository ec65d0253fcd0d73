package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"drawbridge/internal/trust"
)

// Spec says which workspace to make.
type Spec struct {
	// Agent is the name or id of the agent. It names the folder and the branch.
	Agent string
	// Clone is the absolute path of a clone that relay.yaml lists.
	Clone string
	// Branches are the branches that the agent gets; the workspace begins at the first. Without any, it begins at the clone's HEAD.
	Branches []string
}

// Make returns the workspace of an agent and makes it where it does not exist. It may be called again after any crash. It leaves
// the listed clone as it is. A workspace that exists is returned as it is when it belongs to the same clone.
func (st *Store) Make(ctx context.Context, spec Spec) (*Space, error) {
	if err := checkAgent(spec.Agent); err != nil {
		return nil, err
	}
	clone, err := listed(spec.Clone)
	if err != nil {
		return nil, err
	}
	spec.Clone = clone
	if err := st.recover(ctx, spec.Agent); err != nil {
		return nil, err
	}
	release, err := st.work(ctx, spec.Agent)
	if err != nil {
		return nil, err
	}
	defer release()
	s, err := st.open(spec.Agent)
	var missing *NotFound
	switch {
	case errors.As(err, &missing):
		return st.make(ctx, spec)
	case err != nil:
		return nil, err
	case s.record.Clone != spec.Clone:
		return nil, trust.Because(fmt.Sprintf("agent %s already has a workspace of the clone %s", spec.Agent, s.record.Clone),
			"give the agent another name, or remove that workspace with drawbridge-relay workspaces remove "+spec.Agent)
	}
	return s, nil
}

// listed resolves the path of a clone.
func listed(clone string) (string, error) {
	if !filepath.IsAbs(clone) {
		return "", trust.Because(fmt.Sprintf("the path %+.200q of the clone is not absolute", clone), "write the full path")
	}
	if strings.ContainsFunc(clone, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", trust.Because(fmt.Sprintf("the path %+.200q of the clone holds a control character", clone), "rename the folder")
	}
	real, err := filepath.EvalSymlinks(clone)
	if err != nil {
		return "", fmt.Errorf("clone %s: %w", clone, trust.PathError(err))
	}
	return real, nil
}

// make builds the workspace beside its place and moves it there when all of it is on the disk. What a crash left was given to no agent.
func (st *Store) make(ctx context.Context, spec Spec) (*Space, error) {
	making := filepath.Join(st.dir, makingPrefix+spec.Agent)
	if err := forget(making); err != nil {
		return nil, fmt.Errorf("remove the rest of an earlier attempt: %w", err)
	}
	s := &Space{store: st, agent: spec.Agent, dir: making}
	s.record = record{Version: recordVersion, Agent: spec.Agent, Clone: spec.Clone, Given: map[string]string{}, Created: time.Now().UTC()}
	if err := s.build(ctx, spec); err != nil {
		// What is left is removed by the next attempt, too.
		return nil, errors.Join(explain(spec.Clone, err), forget(making))
	}
	here("workspace.make.built")
	place := filepath.Join(st.dir, spec.Agent)
	if err := os.Rename(making, place); err != nil {
		return nil, fmt.Errorf("put workspace in its place: %w", err)
	}
	here("workspace.make.placed")
	if err := syncDir(st.dir); err != nil {
		return nil, fmt.Errorf("put workspace in its place: %w", err)
	}
	s.dir = place
	return s, nil
}

func (s *Space) build(ctx context.Context, spec Spec) error {
	for _, dir := range []string{"", treeName, lookName} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
			return err
		}
	}
	here("workspace.make.folders")
	var err error
	if s.record.Format, err = s.clone(ctx, "rev-parse", "--show-object-format"); err != nil {
		return err
	}
	if err := s.initialize(ctx); err != nil {
		return err
	}
	here("workspace.make.initialized")
	if err := s.fetchGiven(ctx, spec.Branches); err != nil {
		return err
	}
	here("workspace.make.fetched")
	if err := s.checkOut(ctx); err != nil {
		return err
	}
	here("workspace.make.checked-out")
	if err := s.remember(ctx); err != nil {
		return err
	}
	if err := s.makeBare(keptName, nil); err != nil {
		return err
	}
	return s.save()
}

// clone runs git in the listed clone and returns what it wrote, without the end of the last line.
func (s *Space) clone(ctx context.Context, args ...string) (string, error) {
	out, err := s.store.git.do(ctx, call{repo: s.record.Clone, within: true, args: args})
	return strings.TrimSuffix(out, "\n"), err
}

// own runs git in the agent's repository. Only make may do so, before the agent has ever seen it.
func (s *Space) own(ctx context.Context, args ...string) (string, error) {
	out, err := s.store.git.do(ctx, call{repo: filepath.Join(s.Dir(), ".git"), args: args, env: []string{"GIT_WORK_TREE=" + s.Dir()}})
	return strings.TrimSuffix(out, "\n"), err
}

// initialize makes the agent's repository. In it git throws no commit away by itself, however old.
func (s *Space) initialize(ctx context.Context) error {
	args := []string{"init", "-q", "--template=", "--object-format=" + s.record.Format, "--initial-branch=" + s.Branch(), s.Dir()}
	if _, err := s.store.git.do(ctx, call{args: args}); err != nil {
		return err
	}
	for _, setting := range [][2]string{
		{"user.name", s.agent}, {"user.email", s.agent + "@drawbridge.invalid"},
		{"gc.reflogExpire", "never"}, {"gc.reflogExpireUnreachable", "never"}, {"gc.pruneExpire", "never"},
	} {
		if _, err := s.own(ctx, "config", setting[0], setting[1]); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(s.Dir(), ".git", "info"), 0o700)
}

// oddRef matches what git allows in no name of a branch.
var oddRef = regexp.MustCompile(`[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(/|$)|(^|/)\.|[./]$|^/|^$`)

// fetchGiven brings the given branches by the protocol of git, so that every object is a copy, whatever form the clone has.
func (s *Space) fetchGiven(ctx context.Context, branches []string) error {
	refs := map[string]string{}
	for _, branch := range branches {
		if oddRef.MatchString(branch) || branch == "@" {
			return trust.Because(fmt.Sprintf("%+.100q cannot be the name of a branch", branch), "name a branch that git branch shows")
		}
		refs["refs/heads/"+branch] = "refs/remotes/origin/" + branch
	}
	if len(branches) == 0 {
		name, target := s.headOf(ctx)
		if target == "" {
			return s.refuseOccupied(ctx)
		}
		refs[name] = target
	}
	if s.record.Base = s.exists(ctx, "refs/heads/"+s.Branch()); s.record.Base != "" {
		// The agent was here before, and goes on where it was.
		refs["refs/heads/"+s.Branch()] = "refs/remotes/origin/" + s.Branch()
	} else if err := s.refuseOccupied(ctx); err != nil {
		return err
	}
	args := []string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--no-recurse-submodules", "--", s.record.Clone}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		missing := s.exists(ctx, name) == ""
		if missing && len(branches) == 0 {
			return trust.Because("the commit of "+strings.TrimPrefix(name, "refs/heads/")+" is missing or damaged in the clone", "check the clone: git fsck")
		}
		if missing {
			return trust.Because(fmt.Sprintf("the clone %s has no branch %+.100q", s.record.Clone, strings.TrimPrefix(name, "refs/heads/")), "name a branch that git branch shows there")
		}
		args = append(args, "+"+name+":"+refs[name])
	}
	if _, err := s.own(ctx, args...); err != nil {
		return err
	}
	return s.noteGiven(ctx, branches, refs)
}

// noteGiven reads where the branches were when they came.
func (s *Space) noteGiven(ctx context.Context, branches []string, refs map[string]string) error {
	for name, target := range refs {
		commit, err := s.own(ctx, "rev-parse", "--verify", "--end-of-options", target+"^{commit}")
		if err != nil {
			return err
		}
		s.record.Given[strings.TrimPrefix(name, "refs/heads/")] = commit
	}
	switch {
	case s.record.Base != "":
		s.record.Base = s.record.Given[s.Branch()]
	case len(branches) > 0:
		s.record.Base = s.record.Given[branches[0]]
	default:
		s.record.Base = slices.Collect(maps.Values(s.record.Given))[0]
	}
	return nil
}

// headOf returns the ref that HEAD of the clone stands for, and where it goes in the workspace; both are empty in a clone without commits.
func (s *Space) headOf(ctx context.Context) (name, target string) {
	if _, err := s.clone(ctx, "rev-parse", "-q", "--verify", "HEAD"); exit(err) == 1 {
		return "", "" // HEAD names a branch that does not exist yet
	}
	name, err := s.clone(ctx, "symbolic-ref", "-q", "HEAD")
	branch, isBranch := strings.CutPrefix(name, "refs/heads/")
	if err != nil || !isBranch {
		return "HEAD", "refs/remotes/origin/HEAD"
	}
	return name, "refs/remotes/origin/" + branch
}

// exists returns the commit of a ref in the clone, or "".
func (s *Space) exists(ctx context.Context, ref string) string {
	commit, err := s.clone(ctx, "rev-parse", "-q", "--verify", "--end-of-options", ref+"^{commit}")
	if err != nil {
		return ""
	}
	return commit
}

// refuseOccupied refuses a clone in which the agent's branch cannot be made: git keeps no branch a beside a branch a/b.
func (s *Space) refuseOccupied(ctx context.Context) error {
	folder := "refs/heads/" + strings.TrimSuffix(BranchPrefix, "/")
	if s.exists(ctx, folder) != "" {
		return trust.Because(fmt.Sprintf("the clone %s has a branch drawbridge, so git cannot make the branch %s there", s.record.Clone, s.Branch()),
			"rename that branch: git branch -m drawbridge another-name")
	}
	under, err := s.clone(ctx, "for-each-ref", "--count=1", "--format=%(refname)", "refs/heads/"+s.Branch()+"/")
	if err == nil && under != "" {
		return trust.Because(fmt.Sprintf("the clone %s has a branch %+.200q, so git cannot make the branch %s there", s.record.Clone, under, s.Branch()), "rename that branch with git branch -m")
	}
	return err
}

func (s *Space) checkOut(ctx context.Context) error {
	if s.record.Base == "" {
		return nil
	}
	list := call{repo: filepath.Join(s.Dir(), ".git"), args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", s.record.Base}}
	if err := s.store.git.stream(ctx, list, s.store.limits.Entries, func(string) {}); err != nil {
		return err
	}
	// The branch may hold files of an agent that was here before, attributes among them.
	_, err := s.store.git.do(ctx, call{
		repo: filepath.Join(s.Dir(), ".git"), args: []string{"checkout", "-q", "--no-track", "-b", s.Branch(), s.record.Base, "--"},
		env: []string{"GIT_WORK_TREE=" + s.Dir()}, plan: s.store.git.confined([]string{s.Dir()}),
	})
	return err
}

// remember notes what the agent's repository holds at its start, while the relay alone can write there.
func (s *Space) remember(ctx context.Context) error {
	packs, err := os.ReadDir(filepath.Join(s.Dir(), ".git", "objects", "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, p := range packs {
		if packName.MatchString(p.Name()) {
			s.record.Packs = append(s.record.Packs, p.Name())
		}
	}
	shallow, err := os.ReadFile(filepath.Join(s.Dir(), ".git", "shallow"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.record.Shallow = strings.Fields(string(shallow))
	return s.noteConverted(ctx)
}

// noteConverted finds the files that git wrote in another form than it stores, because of attributes such as eol=crlf.
func (s *Space) noteConverted(ctx context.Context) error {
	entries, err := s.list(ctx, call{repo: filepath.Join(s.Dir(), ".git"), args: []string{"ls-files", "-s", "-z"}},
		func(part string) (string, entry, error) { return parseStage(part, false) })
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.Dir())
	if err != nil {
		return err
	}
	defer root.Close()
	for path, e := range entries {
		if e.mode != modeFile && e.mode != modeExec {
			continue
		}
		raw, err := s.hashFile(ctx, root, path)
		if err != nil {
			return err
		}
		if raw != e.blob {
			if s.record.Converted == nil {
				s.record.Converted = map[string]converted{}
			}
			s.record.Converted[path] = converted{Raw: raw, Blob: e.blob}
		}
	}
	return nil
}

// makeBare writes a bare repository of our own, without git: five files, in which nothing else can be set.
func (s *Space) makeBare(name string, alternates []string) error {
	dir := filepath.Join(s.dir, name)
	for _, sub := range []string{"objects/info", "objects/pack", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if s.record.Format == "sha256" {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	files := map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config}
	if len(alternates) > 0 {
		files["objects/info/alternates"] = strings.Join(alternates, "\n") + "\n"
	}
	if len(s.record.Shallow) > 0 {
		files["shallow"] = strings.Join(s.record.Shallow, "\n") + "\n"
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
