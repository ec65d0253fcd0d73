package workspace

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many folders may lie in each other.
	maxDepth = 512
	maxRefs  = 100_000
	// maxProblems is how many of a kind are told.
	maxProblems = 5
	// Bounds of the small files of a repository, in bytes.
	maxRefFile    = 4 << 10
	maxPackedRefs = 64 << 20
	maxIndex      = 1 << 30
)

var (
	objectID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	packName = regexp.MustCompile(`^pack-([0-9a-f]{40}|[0-9a-f]{64})\.pack$`)
)

// problem is something in an agent's repository that the relay does not read. Whatever it hides counts as unsaved work.
type problem string

func (p problem) Error() string { return string(p) }

func problemf(format string, args ...any) error { return problem(fmt.Sprintf(format, args...)) }

// openRegular opens a file of an agent if it is a regular one. It follows no link that stands there, and a FIFO does not stop it.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, problemf("%+.200q is not a regular file", name)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	now, err := file.Stat()
	if err == nil && (!now.Mode().IsRegular() || !os.SameFile(before, now)) {
		err = problemf("%+.200q changed while it was read", name)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, now, nil
}

// readSmall reads a whole file of an agent.
func readSmall(root *os.Root, name string, most int64) ([]byte, error) {
	file, _, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = problemf("%+.200q is larger than %d bytes", name, most)
	}
	return data, err
}

// openFolder opens a folder of an agent that is not a link.
func openFolder(root *os.Root, name string) (*os.Root, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, problemf("%+.200q is not a folder", name)
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	now, err := sub.Stat(".")
	if err == nil && !os.SameFile(before, now) {
		err = problemf("%+.200q changed while it was read", name)
	}
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return sub, nil
}

// eachEntry calls each for every entry of a folder, in the order of the disk.
func eachEntry(root *os.Root, name string, each func(fs.DirEntry) error) error {
	dir, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if err := each(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func newHash(format string) hash.Hash {
	if format == "sha256" {
		return sha256.New()
	}
	return sha1.New()
}

// blobID is the id that git gives to a file with this content.
func (s *Space) blobID(content []byte) string {
	h := newHash(s.record.Format)
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// hashFile computes the id of a file's bytes as they are, without any conversion.
func (s *Space) hashFile(ctx context.Context, root *os.Root, name string) (string, error) {
	file, stat, err := openRegular(root, name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := newHash(s.record.Format)
	fmt.Fprintf(h, "blob %d\x00", stat.Size())
	n, err := copyAll(ctx, h, io.LimitReader(file, stat.Size()+1))
	if err == nil && n != stat.Size() {
		err = problemf("%+.200q changed while it was read", name)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// copyAll copies until the end or until ctx is done.
func copyAll(ctx context.Context, to io.Writer, from io.Reader) (total int64, err error) {
	for {
		n, err := io.CopyN(to, from, 4<<20)
		total += n
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		case ctx.Err() != nil:
			return total, context.Cause(ctx)
		}
	}
}

// heads is what the refs of an agent's repository say.
type heads struct {
	// at is the commit of HEAD; it is empty before the first commit. on is the branch, or empty when HEAD is detached.
	at, on string
	// refs are all refs with what they name.
	refs map[string]string
	// pseudo are commits named beside the refs, such as MERGE_HEAD.
	pseudo []string
	// operations are what git was in the middle of.
	operations []string
	// worktrees is how many linked worktrees there are.
	worktrees int
	// problems are parts that could not be read; the rest could.
	problems []string
}

func (h *heads) problem(format string, args ...any) {
	if len(h.problems) < maxProblems {
		h.problems = append(h.problems, fmt.Sprintf(format, args...))
	}
}

// readHeads reads HEAD and all refs. The files may say anything; every id is checked later.
func readHeads(dot *os.Root) (heads, error) {
	h := heads{refs: map[string]string{}}
	for _, odd := range []struct{ name, means string }{
		{"commondir", "its repository is in another folder"}, {"reftable", "its refs are in the reftable format"},
	} {
		if _, err := dot.Lstat(odd.name); err == nil {
			return h, problemf(".git/%s exists: %s", odd.name, odd.means)
		}
	}
	if err := h.packed(dot); err != nil {
		return h, err
	}
	if err := h.loose(dot, "refs", 0); err != nil {
		return h, err
	}
	h.head(dot)
	return h, h.beside(dot)
}

func (h *heads) head(dot *os.Root) {
	text, err := readSmall(dot, "HEAD", maxRefFile)
	if err != nil {
		h.problem("HEAD cannot be read: %v", err)
		return
	}
	head := strings.TrimSpace(string(text))
	if name, symbolic := strings.CutPrefix(head, "ref: "); symbolic {
		h.on, h.at = strings.TrimPrefix(name, "refs/heads/"), h.refs[name]
	} else if objectID.MatchString(head) {
		h.at = head
	} else {
		h.problem("HEAD says %+.100q", head)
	}
}

func (h *heads) packed(dot *os.Root) error {
	data, err := readSmall(dot, "packed-refs", maxPackedRefs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read packed refs: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		id, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if found && objectID.MatchString(id) {
			h.refs[name] = id
		}
	}
	if len(h.refs) > maxRefs {
		return problemf("it has more than %d refs", maxRefs)
	}
	return nil
}

func (h *heads) loose(dot *os.Root, dir string, depth int) error {
	if depth > maxDepth {
		return problemf("its refs are nested more than %d folders deep", maxDepth)
	}
	return eachEntry(dot, dir, func(e fs.DirEntry) error {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			return h.loose(dot, name, depth+1)
		}
		if strings.HasSuffix(name, ".lock") {
			return nil
		}
		text, err := readSmall(dot, name, maxRefFile)
		id := strings.TrimSpace(string(text))
		switch {
		case err != nil:
			h.problem("a ref cannot be read: %v", err)
		case objectID.MatchString(id):
			h.refs[name] = id
		case !strings.HasPrefix(id, "ref: "):
			h.problem("ref %+.200q says %+.100q", name, id)
		}
		if len(h.refs) > maxRefs {
			return problemf("it has more than %d refs", maxRefs)
		}
		return nil
	})
}

// underway are the names that git keeps while it waits for the user in the middle of something.
var underway = map[string]string{
	"rebase-merge": "a rebase", "rebase-apply": "a rebase or git am", "MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick",
	"REVERT_HEAD": "a revert", "sequencer": "a cherry-pick or revert of several commits", "BISECT_LOG": "a bisect",
}

// beside reads the names of commits that are not refs, and what is under way.
func (h *heads) beside(dot *os.Root) error {
	look := []string{"rebase-merge/autostash", "rebase-apply/autostash", "rebase-merge/orig-head", "rebase-apply/orig-head"}
	if err := eachEntry(dot, "worktrees", func(fs.DirEntry) error { h.worktrees++; return nil }); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.problem("its linked worktrees cannot be counted: %v", err)
	}
	err := eachEntry(dot, ".", func(e fs.DirEntry) error {
		if what, known := underway[e.Name()]; known {
			h.operations = append(h.operations, what)
		}
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), "_HEAD") || e.Name() == "MERGE_AUTOSTASH" {
			look = append(look, e.Name())
		}
		return nil
	})
	for _, name := range look {
		text, err := readSmall(dot, name, maxPackedRefs)
		if err != nil {
			continue // it is not there, and the commits are found by themselves
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 0 && objectID.MatchString(fields[0]) {
				h.pseudo = append(h.pseudo, fields[0])
			}
		}
	}
	return err
}
