package workspace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// pool runs git for all tests, as the relay's does.
var (
	pool    *keeper.Pool
	ability sandbox.Ability
)

func TestMain(m *testing.M) {
	keeper.Main()
	syscall.Umask(0o077)
	var err error
	if pool, err = keeper.NewPool(false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	ability = sandbox.Probe(context.Background(), nil)
	code := m.Run()
	pool.Close()
	_ = os.RemoveAll(made.dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plainEnv is the environment of a person's git and an agent's git in these tests.
func plainEnv(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.com",
		"GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.com", "GIT_TERMINAL_PROMPT=0",
	}
}

// try runs a program in a folder and returns its output.
func try(t *testing.T, dir string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, plainEnv(filepath.Dir(dir))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

func run(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	out, err := try(t, dir, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return run(t, dir, append([]string{"git"}, args...)...)
}

func sh(t *testing.T, dir, script string) string {
	t.Helper()
	return run(t, dir, "sh", "-ec", script)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// world is a listed clone and a store of workspaces.
type world struct {
	t     *testing.T
	dir   string
	clone string
	store *workspace.Store
}

// newWorld has a clone with two commits on main and one on other.
func newWorld(t *testing.T, init ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.clone = filepath.Join(w.dir, "clone")
	if len(init) == 0 {
		run(t, w.dir, "cp", "-a", template(t), w.clone)
	} else {
		fill(t, w.clone, init...)
	}
	w.open()
	return w
}

// stride returns the distance between the rows of a table, or the steps of a crash, that a run takes.
func stride() int {
	if sampled {
		return 10
	}
	return 1
}

// some returns the rows of a table by stride. Each row starts git dozens of times.
func some[T any](rows []T) (out []T) {
	for i := 0; i < len(rows); i += stride() {
		out = append(out, rows[i])
	}
	return out
}

// limit opens the store again with bounds of its own.
func (w *world) limit(l workspace.Limits) {
	w.t.Helper()
	o := w.options()
	o.Limits = l
	var err error
	w.store, err = workspace.Open(o)
	must(w.t, err)
}

func fill(t *testing.T, clone string, init ...string) {
	t.Helper()
	must(t, os.MkdirAll(clone, 0o700))
	git(t, clone, append([]string{"init", "-q", "-b", "main"}, init...)...)
	write(t, filepath.Join(clone, "README"), "hello\n")
	sh(t, clone, `git add -A; git commit -qm one; git branch other; echo more >> README; git commit -qam two
		git checkout -q other; echo other > other; git add -A; git commit -qm third; git checkout -q main`)
}

// made is the usual clone; each test gets a copy.
var made struct {
	once sync.Once
	dir  string
}

func template(t *testing.T) string {
	t.Helper()
	made.once.Do(func() {
		dir, err := os.MkdirTemp("", "workspace")
		must(t, err)
		fill(t, filepath.Join(dir, "clone"))
		made.dir = dir
	})
	return filepath.Join(made.dir, "clone")
}

func (w *world) options() workspace.Options {
	return workspace.Options{State: filepath.Join(w.dir, "state"), Run: pool, Ability: ability}
}

func (w *world) open() {
	w.t.Helper()
	must(w.t, os.MkdirAll(filepath.Join(w.dir, "state"), 0o700))
	store, err := workspace.Open(w.options())
	must(w.t, err)
	w.store = store
}

func (w *world) make(agent string, branches ...string) *workspace.Space {
	w.t.Helper()
	s, err := w.store.Make(w.t.Context(), workspace.Spec{Agent: agent, Clone: w.clone, Branches: branches})
	must(w.t, err)
	return s
}

// commit makes a commit in an agent's tree, as the agent would.
func commit(t *testing.T, s *workspace.Space, name, text string) string {
	t.Helper()
	write(t, filepath.Join(s.Dir(), name), text)
	git(t, s.Dir(), "add", "-A")
	git(t, s.Dir(), "commit", "-qm", "change "+name)
	return git(t, s.Dir(), "rev-parse", "HEAD")
}

func state(t *testing.T, s *workspace.Space) workspace.State {
	t.Helper()
	got, err := s.State(t.Context())
	must(t, err)
	return got
}

func fetch(t *testing.T, s *workspace.Space, all bool) workspace.Fetched {
	t.Helper()
	f, err := s.Fetch(t.Context(), all)
	must(t, err)
	return f
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func links(t *testing.T, path string) uint64 {
	t.Helper()
	stat, err := os.Lstat(path)
	must(t, err)
	return uint64(stat.Sys().(*syscall.Stat_t).Nlink) //nolint:unconvert // its type differs between systems
}
