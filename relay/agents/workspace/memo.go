package workspace

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	// stampName is a file in the relay's view of a workspace. Each view has another stamp, and a view without one is not used again.
	stampName = "stamp"
	// maxRemembered bounds the entries of all views that a store keeps, and maxRememberedEach those of one view. An entry takes
	// about 250 bytes.
	maxRemembered     = 24_000
	maxRememberedEach = 8_000
	// Bounds of a listed clone whose refs the relay reads by itself: names, and bytes of one file.
	maxCloneNames = 10_000
	maxCloneFile  = 1 << 20
)

// memo is the view of an earlier look, with what shows whether it still holds.
type memo struct {
	view    *view
	stamp   string
	created time.Time
	weight  int
}

// recall takes the memo of an agent out of the store, so that only one look uses it. The caller holds the lock of the workspace.
func (st *Store) recall(agent string) *memo {
	st.mu.Lock()
	defer st.mu.Unlock()
	m := st.memos[agent]
	if m != nil {
		st.remembered -= m.weight
		delete(st.memos, agent)
	}
	return m
}

// retain keeps a view for the next look. A view with a problem is not kept: the next look reads everything again.
func (s *Space) retain(v *view) {
	if v == nil || v.lost != "" || v.cloneSum == "" || len(v.problems) > 0 {
		return
	}
	stamp, err := os.ReadFile(filepath.Join(v.dir(), stampName))
	if err != nil {
		return
	}
	if v.weight() > maxRememberedEach {
		v.index, v.head = listing{}, listing{}
	}
	m := &memo{view: v, stamp: string(stamp), created: s.record.Created, weight: v.weight()}
	if m.weight > maxRememberedEach {
		return
	}
	st := s.store
	st.mu.Lock()
	defer st.mu.Unlock()
	if old := st.memos[s.agent]; old != nil {
		st.remembered -= old.weight
		delete(st.memos, s.agent)
	}
	for other, old := range st.memos {
		if st.remembered+m.weight <= maxRemembered {
			break
		}
		st.remembered -= old.weight
		delete(st.memos, other)
	}
	st.memos[s.agent] = m
	st.remembered += m.weight
}

func (v *view) weight() int {
	n := 1 + len(v.index.entries) + len(v.head.entries) + len(v.heads.refs) + len(v.found) + len(v.tags) + len(v.clone) + len(v.known)
	for _, names := range v.judged {
		n += len(names)
	}
	return n
}

// reuse returns the view of the memo when git would find the same again: nothing came into the relay's copy, and the refs of
// the agent and of the clone are as they were. Otherwise it returns nil.
func (m *memo) reuse(now *view, took bool) *view {
	if m == nil || took || len(now.problems) > 0 || !reflect.DeepEqual(m.view.heads, now.heads) || !m.created.Equal(now.s.record.Created) {
		return nil
	}
	stamp, err := os.ReadFile(filepath.Join(now.dir(), stampName))
	if err != nil || string(stamp) != m.stamp {
		return nil // another process looked meanwhile
	}
	if sum, err := cloneSum(now.s.record.Clone, m.view.common); err != nil || sum != m.view.cloneSum {
		return nil
	}
	m.view.s = now.s
	return m.view
}

// writeStamp marks a view that is complete.
func (v *view) writeStamp() error {
	return os.WriteFile(filepath.Join(v.dir(), stampName), []byte(rand.Text()), 0o600)
}

// spoil takes the stamp away before the relay's copy changes. A crash after that leaves no view that looks complete.
func (s *Space) spoil() error {
	err := os.Remove(filepath.Join(s.dir, viewName, stampName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errOnlyGit is a clone in a form that the relay leaves to git.
var errOnlyGit = errors.New("only git reads the refs of this clone")

// cloneSum is a digest of what decides which commits a listed clone has: its refs, its settings and its packs. It knows the plain
// form of a repository alone, and returns an error for every other one.
func cloneSum(clone, common string) (string, error) {
	dot, err := os.Lstat(filepath.Join(clone, ".git"))
	switch {
	case common == clone && errors.Is(err, fs.ErrNotExist): // a bare repository
	case common == filepath.Join(clone, ".git") && err == nil && dot.IsDir():
	default:
		return "", errors.Join(errOnlyGit, err)
	}
	root, err := os.OpenRoot(common)
	if err != nil {
		return "", err
	}
	defer root.Close()
	sum := sha256.New()
	d := cloneDigest{root: root, to: sum}
	if err := d.run(); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// cloneDigest writes what a clone's files say, one after the other.
type cloneDigest struct {
	root  *os.Root
	to    io.Writer
	names int
}

func (d *cloneDigest) run() error {
	for _, odd := range []string{"commondir", "reftable"} {
		if _, err := d.root.Lstat(odd); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errOnlyGit, err)
		}
	}
	for _, name := range []string{"HEAD", "config"} {
		if err := d.file(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"packed-refs", "shallow", "config.worktree", "objects/info/alternates"} {
		if err := d.file(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range []string{"objects", "objects/pack"} {
		stat, err := d.root.Stat(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.to, "%q %d\n", name, stat.ModTime().UnixNano())
	}
	if err := d.folder("objects/pack", 0, false); err != nil {
		return err
	}
	return d.folder("refs", 0, true)
}

func (d *cloneDigest) file(name string) error {
	data, err := readSmall(d.root, name, maxCloneFile)
	if err == nil {
		fmt.Fprintf(d.to, "%q %q\n", name, data)
	}
	return err
}

// folder adds the names in a folder; with content also what its files hold, and the folders below it.
func (d *cloneDigest) folder(dir string, depth int, content bool) error {
	if depth > maxDepth {
		return errOnlyGit
	}
	var entries []fs.DirEntry
	err := eachEntry(d.root, dir, func(e fs.DirEntry) error {
		if d.names++; d.names > maxCloneNames {
			return errOnlyGit
		}
		entries = append(entries, e)
		return nil
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		fmt.Fprintf(d.to, "%q %v\n", name, e.Type())
		switch {
		case err != nil:
			return err
		case content && e.IsDir():
			err = d.folder(name, depth+1, true)
		case content:
			err = d.file(name)
		}
	}
	return err
}
