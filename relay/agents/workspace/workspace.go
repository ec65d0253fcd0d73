// Package workspace gives each agent on this machine a clone of its own, and brings its commits back without losing any.
//
// It starts no agent, and it reads no setting that an agent can write. Git never runs in an agent's clone. The relay copies
// objects out of it as plain data, checks them, and lets git work on repositories of its own; docs/adr/0022-workspaces.md gives the
// reasons. Rule of thumb: what cannot be judged counts as unsaved work, and unsaved work stays.
package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"drawbridge/internal/failpoint"
	"drawbridge/internal/trust"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// Folder is the name of the folder with all workspaces, below the relay's state folder.
const Folder = "workspaces"

// Names within the folder of one workspace. The agent may write to the tree alone.
const (
	treeName   = "tree"
	keptName   = "kept.git"
	viewName   = "view.git"
	lookName   = "look"
	recordName = "record.json"
	// confirmedName marks a workspace whose removal was decided.
	confirmedName = "confirmed"
	// Prefixes of folders on their way in and out. An agent's name does not begin with a dot.
	makingPrefix  = ".making-"
	leavingPrefix = ".leaving-"
	locksName     = ".locks"
)

// BranchPrefix stands before an agent's name in the name of its branch.
const BranchPrefix = "drawbridge/"

// here is called between any two steps that a crash may divide.
var here = failpoint.Here

// Executor runs a program to its end. A *keeper.Pool is one.
type Executor interface {
	Run(ctx context.Context, c keeper.Command) (keeper.End, error)
}

// Limits bound one look at a workspace. A workspace beyond a limit counts as one with unsaved work. A zero field has its default.
type Limits struct {
	// Entries is how many files and folders are visited; 1,000,000 unless set.
	Entries int
	// Bytes is how much is read or copied; 64 GiB unless set.
	Bytes int64
	// Time bounds a whole look; 10 minutes unless set.
	Time time.Duration
}

// Options is what a [Store] needs.
type Options struct {
	// State is the relay's state folder.
	State string
	Run   Executor
	// Ability is what this machine has for sandboxes. Git checks an agent's packs and index in one where there is one.
	Ability sandbox.Ability
	Limits  Limits
	// Git is the absolute path of git; empty looks it up in PATH.
	Git string
}

// Store holds the workspaces of one relay. Several processes may use one folder at once, and all methods are safe for concurrent use.
type Store struct {
	dir    string
	git    git
	limits Limits
}

// Open finds git and makes the folder of the workspaces. It reads no workspace.
func Open(o Options) (*Store, error) {
	state, err := filepath.EvalSymlinks(o.State)
	if err != nil {
		return nil, fmt.Errorf("open state folder: %w", err)
	}
	if state, err = filepath.Abs(state); err != nil {
		return nil, fmt.Errorf("open state folder: %w", err)
	}
	if o.Git == "" {
		if o.Git, err = exec.LookPath("git"); err != nil {
			return nil, trust.Because("git is not in PATH", "install git 2.32 or newer")
		}
	}
	if o.Git, err = filepath.Abs(o.Git); err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	dir := filepath.Join(state, Folder)
	if err := os.MkdirAll(filepath.Join(dir, locksName), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of workspaces: %w", err)
	}
	if err := trust.Folder(dir, "state"); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	s := &Store{dir: dir, git: git{run: o.Run, path: o.Git, ability: o.Ability}, limits: o.Limits}
	s.limits.fill()
	return s, nil
}

func (l *Limits) fill() {
	if l.Entries == 0 {
		l.Entries = 1_000_000
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 30
	}
	if l.Time == 0 {
		l.Time = 10 * time.Minute
	}
}

// Space is the workspace of one agent.
type Space struct {
	store  *Store
	agent  string
	dir    string
	record record
}

// Agent is the name of the agent, or its id.
func (s *Space) Agent() string { return s.agent }

// Dir is the absolute path of the folder in which the agent works. The agent owns everything in it, .git included.
func (s *Space) Dir() string { return filepath.Join(s.dir, treeName) }

// Branch is the agent's branch, here and in the listed clone.
func (s *Space) Branch() string { return BranchPrefix + s.agent }

// Clone is the absolute path of the listed clone.
func (s *Space) Clone() string { return s.record.Clone }

// record is what the relay knows of a workspace. The agent cannot write it.
type record struct {
	Version int    `json:"version"`
	Agent   string `json:"agent"`
	Clone   string `json:"clone"`
	// Format is sha1 or sha256.
	Format string `json:"format"`
	// Base is the commit at which the workspace began; it is empty where the clone had none.
	Base string `json:"base,omitempty"`
	// Given are the branches that the agent got, and where they were.
	Given map[string]string `json:"given,omitempty"`
	// Shallow are the commits at which the clone's history is cut off.
	Shallow []string `json:"shallow,omitempty"`
	// Packs are the packs with what came from the clone.
	Packs []string `json:"packs,omitempty"`
	// Converted are files that git wrote in another form than it stores, such as with CRLF.
	Converted map[string]converted `json:"converted,omitempty"`
	// Files are what the relay wrote into the tree.
	Files map[string]written `json:"files,omitempty"`
	// SetUp is the digest of the command line that set up the tree, "" where none did.
	SetUp   string    `json:"set_up,omitempty"`
	Created time.Time `json:"created"`
}

type converted struct {
	// Raw is the id of the bytes in the tree, Blob that of the bytes in the repository.
	Raw  string `json:"raw"`
	Blob string `json:"blob"`
}

const recordVersion = 1

var validAgent = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

func checkAgent(agent string) error {
	if !validAgent.MatchString(agent) || strings.Contains(agent, "..") || strings.HasSuffix(agent, ".") || strings.HasSuffix(agent, ".lock") {
		return trust.Because(fmt.Sprintf("%+.80q cannot be the name of a workspace", agent),
			"use 1 to 64 of a-z, 0-9, '_', '.', '-', beginning with a letter or digit, without '..' and without .lock at the end")
	}
	return nil
}

// NotFound is a workspace that does not exist.
type NotFound struct{ Agent string }

// Error names the agent and the command that lists the others.
func (e *NotFound) Error() string {
	return fmt.Sprintf("agent %+.80q has no workspace; to list the workspaces, run: drawbridge-relay workspaces", e.Agent)
}

// Get opens the workspace of an agent. A missing one is a *NotFound.
func (st *Store) Get(ctx context.Context, agent string) (*Space, error) {
	if err := checkAgent(agent); err != nil {
		return nil, err
	}
	if err := st.recover(ctx, agent); err != nil {
		return nil, err
	}
	return st.open(agent)
}

func (st *Store) open(agent string) (*Space, error) {
	return st.at(agent, filepath.Join(st.dir, agent))
}

func (st *Store) at(agent, dir string) (*Space, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFound{Agent: agent}
	}
	s := &Space{store: st, agent: agent, dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err == nil {
		err = json.Unmarshal(data, &s.record)
	}
	if err == nil && (s.record.Version != recordVersion || s.record.Agent != agent) {
		err = fmt.Errorf("it is a record of version %d for agent %+.80q", s.record.Version, s.record.Agent)
	}
	if err != nil {
		return nil, trust.Because(fmt.Sprintf("the record of workspace %s cannot be read (%v)", dir, err),
			"put back "+recordName+" from a backup, or save the work and move the folder away")
	}
	return s, nil
}

// List names the agents that have a workspace, in the order of their names.
func (st *Store) List(ctx context.Context) ([]string, error) {
	entries, err := os.ReadDir(st.dir)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	var agents []string
	for _, e := range entries {
		name, leaving := strings.CutPrefix(e.Name(), leavingPrefix)
		if checkAgent(name) != nil {
			continue
		}
		if leaving {
			if err := st.recover(ctx, name); err != nil {
				return nil, err
			}
		}
		if _, err := os.Lstat(filepath.Join(st.dir, name)); err == nil && !slices.Contains(agents, name) {
			agents = append(agents, name)
		}
	}
	slices.Sort(agents)
	return agents, nil
}

// save writes the record so that a crash leaves the old one or the new one.
func (s *Space) save() error {
	data, err := json.Marshal(s.record)
	if err == nil {
		err = writeSynced(filepath.Join(s.dir, recordName), data)
	}
	if err != nil {
		return fmt.Errorf("write record of workspace %s: %w", s.agent, err)
	}
	return nil
}

// SetUp reports whether this command line was the last that [Space.NoteSetUp] noted.
func (s *Space) SetUp(argv []string) bool { return s.record.SetUp == digestOf(argv) }

// digestOf is the digest of a command line, which may hold secrets.
func digestOf(argv []string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(argv, "\x00"))))
}

// NoteSetUp notes that a command line has set up the workspace.
func (s *Space) NoteSetUp(ctx context.Context, argv []string) error {
	release, err := s.store.work(ctx, s.agent)
	if err != nil {
		return err
	}
	defer release()
	if err := s.reload(); err != nil {
		return err
	}
	s.record.SetUp = digestOf(argv)
	return s.save()
}

// writeSynced replaces a file as a whole and waits for the disk.
func writeSynced(path string, data []byte) error {
	tmp := path + ".new"
	file, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// forget removes a folder of ours. Folders that deny us their content are opened first, as module caches do that.
func forget(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	root, rootErr := os.OpenRoot(dir)
	if rootErr != nil {
		return err
	}
	unlock(root, ".", 0)
	_ = root.Close()
	return os.RemoveAll(dir)
}

// unlock gives us all rights in a folder and those below it.
func unlock(root *os.Root, dir string, depth int) {
	_ = root.Chmod(dir, 0o700)
	file, err := root.Open(dir)
	if err != nil || depth > maxDepth {
		return
	}
	defer file.Close()
	for {
		entries, err := file.ReadDir(1024)
		for _, e := range entries {
			if e.IsDir() {
				unlock(root, filepath.Join(dir, e.Name()), depth+1)
			}
		}
		if err != nil {
			return
		}
	}
}
