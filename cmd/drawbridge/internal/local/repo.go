package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"drawbridge/policy"
	"drawbridge/relay/runner/settings"
)

// Repo is a clone that a person named.
type Repo struct {
	// Name is what the allowlist and relay.yaml call it, such as github.com/me/my-app or local/my-app.
	Name string
	// Clone is its absolute folder, with every link resolved.
	Clone string
	// Listed is true where relay.yaml has it.
	Listed bool
	// Note says why the name is not the one that the clone suggests, "" where it is.
	Note string
}

// FindRepo returns the clone that path is in, with the name that relay.yaml gives it or will give it. It runs the person's own git.
func FindRepo(ctx context.Context, path string, listed map[string]settings.Repo) (Repo, error) {
	clone, err := root(ctx, path)
	if err != nil {
		return Repo{}, err
	}
	for name, r := range listed {
		if real, err := filepath.EvalSymlinks(r.Clone); err == nil && real == clone {
			return Repo{Name: name, Clone: clone, Listed: true}, nil
		}
	}
	_, address := Remote(ctx, clone)
	wish := OnGitHub(address)
	if _, taken := listed[wish]; wish != "" && !taken {
		return Repo{Name: wish, Clone: clone}, nil
	}
	r := Repo{Clone: clone, Name: "local/" + LocalName(filepath.Base(clone))}
	if wish != "" {
		r.Note = fmt.Sprintf("%s is already the name of the clone at %s", wish, listed[wish].Clone)
	}
	for base, n := r.Name, 2; ; n++ {
		other, taken := listed[r.Name]
		if !taken {
			return r, nil
		}
		r.Note = fmt.Sprintf("%s is already the name of the clone at %s", r.Name, other.Clone)
		r.Name = fmt.Sprintf("%s-%d", base, n)
	}
}

// root returns the top folder of the repository that path is in.
func root(ctx context.Context, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	top, err := git(ctx, abs, "rev-parse", "--show-toplevel")
	if err != nil || top == "" {
		if top, err = git(ctx, abs, "rev-parse", "--absolute-git-dir"); err == nil && filepath.Base(top) == ".git" {
			err = errors.New("it is inside a .git folder")
		}
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%s is not in a git repository (%w); name a folder with a clone, or make one: git init %s", path, err, path)
	}
	return filepath.EvalSymlinks(top)
}

// Git runs the person's git in a folder. What it prints goes to an output; an error has the words that git writes beside that.
func Git(ctx context.Context, dir string, to io.Writer, args ...string) error {
	return call{dir: dir, to: to}.git(ctx, args...)
}

// call is a call of git: where, with which further variables, and where its output goes.
type call struct {
	dir string
	env []string
	to  io.Writer
}

// git is Git.
func (c call) git(ctx context.Context, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", c.dir}, args...)...)
	cmd.Stdout, cmd.Stderr = c.to, &said
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=") // these speak of another repository where a hook or an alias of git started this program
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"}, name)
	})
	cmd.Env = append(cmd.Env, c.env...)
	err := cmd.Run()
	var failed *exec.ExitError
	switch words := strings.Join(strings.Fields(said.String()), " "); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("git is not on PATH; install it (%w)", err)
	case errors.As(err, &failed) && words != "":
		return errors.New(strings.TrimPrefix(words, "fatal: "))
	}
	if failed != nil {
		if status, is := failed.Sys().(syscall.WaitStatus); is && status.Signal() == syscall.SIGPIPE { // the reader had what it wanted
			return &fs.PathError{Op: "write", Path: "what git prints", Err: syscall.EPIPE}
		}
	}
	return fmt.Errorf("git %s: %w", args[0], err)
}

// git runs the person's git in a folder and returns its first line.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := Git(ctx, dir, &out, args...)
	line, _, _ := strings.Cut(out.String(), "\n")
	return line, err
}

// gitHub are the ways in which git writes a repository of GitHub.
var gitHub = regexp.MustCompile(`^(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com(?::22)?/|git@github\.com:|git://github\.com/)([^/]+/[^/]+?)/?$`)

// Remote returns the remote of a clone and its address: origin, or the only one. Both are "" for a clone without such a remote.
func Remote(ctx context.Context, clone string) (name, address string) {
	name = "origin"
	address, err := git(ctx, clone, "remote", "get-url", name)
	if err == nil {
		return name, address
	}
	all, err := exec.CommandContext(ctx, "git", "-C", clone, "remote").Output()
	names := strings.Fields(string(all))
	if err != nil || len(names) != 1 {
		return "", ""
	}
	if address, err = git(ctx, clone, "remote", "get-url", "--", names[0]); err != nil {
		return "", ""
	}
	return names[0], address
}

// OnGitHub returns the canonical name of the repository at an address, "" for one that is not on GitHub.
func OnGitHub(address string) string {
	m := gitHub.FindStringSubmatch(address)
	if m == nil {
		return ""
	}
	repo, err := policy.CanonicalRepo("github.com/" + m[1])
	if err != nil || !listable.MatchString(string(repo)) {
		return ""
	}
	return string(repo)
}

// listable is what relay.yaml takes for a repository of GitHub.
var listable = regexp.MustCompile(`^github\.com/[a-z0-9][a-z0-9_-]{0,38}/[a-z0-9_][a-z0-9._-]{0,99}$`)

var (
	notName = regexp.MustCompile(`[^a-z0-9_.-]+`)
	dots    = regexp.MustCompile(`\.\.+`)
)

// LocalName makes the name of a clone, as it stands after local/, from the name of its folder: lower case, other characters as dashes.
func LocalName(folder string) string {
	name := dots.ReplaceAllString(notName.ReplaceAllString(strings.ToLower(folder), "-"), ".")
	name = strings.TrimLeft(name, "-._")
	if len(name) > 56 { // room for a number
		name = name[:56]
	}
	for trimmed := ""; trimmed != name; {
		trimmed = name
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(name, "-._"), ".git"), ".wiki")
	}
	if name == "" {
		return "repo"
	}
	return name
}

// Uncommitted counts the files of the clone with changes that are in no commit.
func (r Repo) Uncommitted(ctx context.Context) (int, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", r.Clone, "status", "--porcelain").Output()
	if err != nil {
		return 0, fmt.Errorf("read the state of %s: %w", r.Clone, err)
	}
	return strings.Count(string(out), "\n"), nil
}

// Changed says how many files have uncommitted changes.
func Changed(n int) string {
	if n == 1 {
		return "1 file has uncommitted changes"
	}
	return fmt.Sprintf("%d files have uncommitted changes", n)
}

// Branches are the commits of agents' branches in a clone, by the full names of the branches.
type Branches map[string]string

// Branches returns the branches of all agents: drawbridge/<workspace>, and what the relay keeps beside them.
func (r Repo) Branches(ctx context.Context) (Branches, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", r.Clone, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/drawbridge", "refs/drawbridge").Output()
	if err != nil {
		return nil, fmt.Errorf("list the branches of %s: %w", r.Clone, err)
	}
	b := Branches{}
	for line := range strings.Lines(string(out)) {
		name, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		b[name] = at
	}
	return b, nil
}

// Of are the branches of one workspace.
func (b Branches) Of(workspace string) Branches {
	own := maps.Clone(b)
	maps.DeleteFunc(own, func(name, _ string) bool {
		return name != "refs/heads/drawbridge/"+workspace && !strings.HasPrefix(name, "refs/drawbridge/"+workspace+"/")
	})
	return own
}

// maxCommits is how many commits of a branch are listed.
const maxCommits = 20

// Commits returns a line for each branch that moved, with the new commits below it. The subjects are the agent's words.
func (r Repo) Commits(ctx context.Context, before, after Branches) (lines []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == after[name] {
			continue
		}
		args := []string{"-C", r.Clone, "log", "--no-show-signature", "--format=  %h %s", fmt.Sprintf("--max-count=%d", maxCommits), after[name], "--not", "--branches=[!d]*", "--branches=" + changesPrefix + "*", "--remotes"}
		if before[name] != "" {
			args = append(args, before[name])
		}
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return nil, fmt.Errorf("list the commits of %s: %w", name, err)
		}
		new := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		if len(out) == 0 {
			continue
		}
		lines = append(append(lines, "branch "+strings.TrimPrefix(name, "refs/heads/")), new...)
	}
	return lines, nil
}

// Quoted is a word as a shell takes it.
func Quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[a-zA-Z0-9/._@%:,=+-]+$`)

// RepoEntry is the entry of relay.yaml for a clone.
func RepoEntry(r Repo, agent string) string {
	return fmt.Sprintf("%s: { clone: %s, agents: [%s] }", text(r.Name), text(r.Clone), text(agent))
}

// RuleEntry is the rule of an allowlist for a clone.
func RuleEntry(repo, runtime string) string {
	return fmt.Sprintf("{ repo: %s, runtime: %s }", text(repo), text(runtime))
}
