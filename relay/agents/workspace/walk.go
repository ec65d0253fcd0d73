package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Modes of git's entries.
const (
	modeFile    = "100644"
	modeExec    = "100755"
	modeLink    = "120000"
	modeGitlink = "160000"
)

const (
	// maxNames is how many names a [Changes] shows.
	maxNames = 50
	// maxConverted bounds a file whose form is compared with CRLF as well, in bytes.
	maxConverted = 64 << 20
)

// entry is a file of the index or of a commit.
type entry struct {
	mode, blob string
	// size is known of files of a commit; -1 otherwise.
	size int64
	// skipped files are not in the tree on purpose (sparse checkout).
	skipped bool
	// conflicted files have several versions.
	conflicted bool
}

// parseStage reads an entry of git ls-files -s -z, or with -v when tagged is true.
func parseStage(part string, tagged bool) (name string, e entry, err error) {
	head, name, found := strings.Cut(part, "\t")
	fields := strings.Fields(head)
	e.size = -1
	if tagged && len(fields) > 0 {
		e.skipped = strings.EqualFold(fields[0], "S")
		fields = fields[1:]
	}
	if !found || len(fields) != 3 {
		return "", e, problemf("git listed its index as %+.100q", part)
	}
	e.mode, e.blob, e.conflicted = fields[0], fields[1], fields[2] != "0"
	return name, e, nil
}

// parseTree reads an entry of git ls-tree -r -l -z.
func parseTree(part string) (name string, e entry, err error) {
	head, name, found := strings.Cut(part, "\t")
	fields := strings.Fields(head)
	if !found || len(fields) != 4 {
		return "", e, problemf("git listed a commit as %+.100q", part)
	}
	e = entry{mode: fields[0], blob: fields[2], size: -1}
	if size, err := strconv.ParseInt(fields[3], 10, 64); err == nil {
		e.size = size
	}
	return name, e, nil
}

// list collects the entries that git lists.
func (s *Space) list(ctx context.Context, c call, parse func(string) (string, entry, error)) (map[string]entry, error) {
	entries := map[string]entry{}
	var wrong error
	err := s.store.git.stream(ctx, c, s.store.limits.Entries, func(part string) {
		name, e, err := parse(part)
		if err != nil {
			wrong = err
		}
		entries[name] = e
	})
	return entries, errors.Join(err, wrong)
}

// Changes counts what of a tree is in no commit. Names are escaped and bounded.
type Changes struct {
	// Staged differ between the last commit and the index, Modified and Deleted between the index and the tree.
	Staged   int `json:"staged"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
	// Untracked files are in no commit; Ignored ones are named by a .gitignore besides.
	Untracked int `json:"untracked"`
	Ignored   int `json:"ignored"`
	// Special are sockets, FIFOs and devices, which have no content to lose.
	Special int `json:"special,omitempty"`
	// Names are the first paths, each after a letter: S, M, D, U (untracked) or I (ignored, or a folder of ignored files).
	Names []string `json:"names,omitempty"`
	// Nested are folders with a repository of their own.
	Nested []string `json:"nested,omitempty"`
}

// Dirty is how many files differ from the last commit or are untracked. Ignored files do not count.
func (c Changes) Dirty() int { return c.Staged + c.Modified + c.Deleted + c.Untracked }

// walker compares a tree with its index and its last commit, without git and without any setting of the agent.
type walker struct {
	s     *Space
	v     *view
	root  *os.Root
	index map[string]entry
	head  map[string]entry
	// folders are those with tracked files below.
	folders map[string]bool
	seen    map[string]bool
	// others are paths that are not tracked; folders end with a slash.
	others  []string
	ignores *ignores
	changes Changes
	// digest changes with everything that is in no commit.
	digest  hash.Hash
	entries int
}

// walk looks at the whole tree. The digest changes when anything changes that would be lost with the tree.
func (v *view) walk(ctx context.Context) (Changes, string, error) {
	root, err := os.OpenRoot(v.s.Dir())
	if err != nil {
		return Changes{}, "", err
	}
	defer root.Close()
	w := &walker{s: v.s, v: v, root: root, folders: map[string]bool{}, seen: map[string]bool{}, digest: sha256.New()}
	if w.ignores, err = newIgnores(v); err != nil {
		return Changes{}, "", err
	}
	if err := w.load(ctx); err != nil {
		return Changes{}, "", err
	}
	w.staged()
	if err := w.folder(ctx, ".", 0); err != nil {
		return w.changes, "", err
	}
	if err := w.judgeOthers(ctx); err != nil {
		return w.changes, "", err
	}
	w.missing()
	slices.Sort(w.changes.Names)
	return w.changes, hex.EncodeToString(w.digest.Sum(nil)), nil
}

// load reads the index, from a copy, and the last commit.
func (w *walker) load(ctx context.Context) error {
	w.index, w.head = map[string]entry{}, map[string]entry{}
	var both errgroup.Group
	both.Go(func() (err error) {
		if at := w.v.heads.at; at != "" {
			if w.head, err = w.s.list(ctx, call{repo: w.v.dir(), args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", at}}, parseTree); err != nil {
				return problemf("its last commit cannot be read: %v", err)
			}
		}
		return nil
	})
	if err := errors.Join(w.loadIndex(ctx), both.Wait()); err != nil {
		return err
	}
	for name, e := range w.index {
		for dir := path.Dir(name); dir != "." && !w.folders[dir]; dir = path.Dir(dir) {
			w.folders[dir] = true
		}
		if e.mode == modeGitlink {
			w.folders[name] = true
		}
	}
	return nil
}

// loadIndex has git list a copy of the index.
func (w *walker) loadIndex(ctx context.Context) error {
	data, err := readSmall(w.root, ".git/index", maxIndex)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	look := filepath.Join(w.s.dir, lookName)
	if err := os.WriteFile(filepath.Join(look, "index"), data, 0o600); err != nil {
		return err
	}
	w.index, err = w.s.list(ctx, call{
		repo: w.v.dir(), args: []string{"ls-files", "-s", "-v", "-z"}, env: []string{"GIT_INDEX_FILE=" + filepath.Join(look, "index")},
		plan: w.s.store.git.confined([]string{look, w.v.dir(), filepath.Join(w.s.dir, keptName)}, w.v.stores...),
	}, func(part string) (string, entry, error) { return parseStage(part, true) })
	if err != nil {
		return problemf("its index cannot be read: %v", err)
	}
	return nil
}

// staged compares the index with the last commit.
func (w *walker) staged() {
	for _, name := range slices.Sorted(maps.Keys(w.index)) {
		e := w.index[name]
		if old, known := w.head[name]; !known || old.mode != e.mode || old.blob != e.blob || e.conflicted {
			w.note('S', name, e.blob)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.head)) {
		if _, known := w.index[name]; !known {
			w.note('S', name, "gone")
		}
	}
}

// note counts one difference. What identifies it goes into the digest.
func (w *walker) note(kind byte, name, what string) {
	switch kind {
	case 'S':
		w.changes.Staged++
	case 'M':
		w.changes.Modified++
	case 'D':
		w.changes.Deleted++
	case 'U':
		w.changes.Untracked++
	case 'I':
		w.changes.Ignored++
	}
	fmt.Fprintf(w.digest, "%c %q %s\n", kind, name, what)
	if len(w.changes.Names) < maxNames {
		w.changes.Names = append(w.changes.Names, string(kind)+" "+shown(name))
	}
}

// visit counts an entry against the limit.
func (w *walker) visit(ctx context.Context, depth int) error {
	if w.entries++; w.entries > w.s.store.limits.Entries {
		return problemf("its tree holds more than %d files", w.s.store.limits.Entries)
	}
	if depth > maxDepth {
		return problemf("its folders are nested more than %d deep", maxDepth)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// folder looks at a folder with tracked files in it.
func (w *walker) folder(ctx context.Context, dir string, depth int) error {
	return eachEntry(w.root, dir, func(e fs.DirEntry) error {
		if err := w.visit(ctx, depth); err != nil {
			return err
		}
		name := path.Join(dir, e.Name())
		if strings.EqualFold(e.Name(), ".git") {
			if name != ".git" {
				w.nested(dir)
			}
			return nil
		}
		if e.Name() == ".gitignore" {
			w.ignores.take(w.root, name)
		}
		tracked, known := w.index[name]
		switch {
		case e.IsDir() && w.folders[name]:
			return w.folder(ctx, name, depth+1)
		case e.IsDir():
			w.others = append(w.others, name+"/")
		case known:
			w.seen[name] = true
			return w.compare(ctx, name, tracked)
		case e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0:
			w.others = append(w.others, name)
		default:
			w.changes.Special++
		}
		return nil
	})
}

func (w *walker) nested(dir string) {
	fmt.Fprintf(w.digest, "nested %q\n", dir)
	if len(w.changes.Nested) < maxNames {
		w.changes.Nested = append(w.changes.Nested, shown(dir))
	}
}

// compare finds out whether a tracked file is as the index has it.
func (w *walker) compare(ctx context.Context, name string, e entry) error {
	stat, err := w.root.Lstat(name)
	if err != nil {
		return err
	}
	same, err := w.same(ctx, name, e, stat)
	if err != nil {
		return err
	}
	if !same {
		w.note('M', name, stamp(stat))
	}
	return nil
}

func stamp(stat fs.FileInfo) string {
	return fmt.Sprintf("%v %d %d", stat.Mode(), stat.Size(), stat.ModTime().UnixNano())
}

func (w *walker) same(ctx context.Context, name string, e entry, stat fs.FileInfo) (bool, error) {
	switch e.mode {
	case modeLink:
		target, err := w.root.Readlink(name)
		return err == nil && stat.Mode()&fs.ModeSymlink != 0 && w.s.blobID([]byte(target)) == e.blob, nil
	case modeFile, modeExec:
	default:
		return false, nil
	}
	if !stat.Mode().IsRegular() || (stat.Mode()&0o100 != 0) != (e.mode == modeExec) {
		return false, nil
	}
	conv, isConverted := w.s.record.Converted[name]
	if head := w.head[name]; !isConverted && (head.blob != e.blob || head.size != stat.Size()) {
		if head.blob != e.blob {
			// A staged file is a difference already; the digest follows what became of it since.
			fmt.Fprintf(w.digest, "%q %s\n", name, stamp(stat))
		}
		// A file of another size is another file.
		return head.blob != e.blob, nil
	}
	raw, err := w.s.hashFile(ctx, w.root, name)
	if err != nil {
		return false, err
	}
	if raw == e.blob || isConverted && raw == conv.Raw && e.blob == conv.Blob {
		return true, nil
	}
	return isConverted && w.sameLines(name, e.blob), nil
}

// sameLines compares a file that git writes with CRLF with what git stores of it.
func (w *walker) sameLines(name, blob string) bool {
	data, err := readSmall(w.root, name, maxConverted)
	return err == nil && w.s.blobID(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))) == blob
}

// judgeOthers tells untracked from ignored files, one level of folders after the other, as git does.
func (w *walker) judgeOthers(ctx context.Context) error {
	for depth := 0; len(w.others) > 0; depth++ {
		candidates := w.others
		w.others = nil
		slices.Sort(candidates)
		ignored, err := w.ignores.judge(ctx, candidates)
		if err != nil {
			return err
		}
		for _, name := range candidates {
			if err := w.other(ctx, name, other{ignored[name], depth}); err != nil {
				return err
			}
		}
	}
	return nil
}

// other is what is known of a path that is not tracked.
type other struct {
	ignored bool
	depth   int
}

func (w *walker) other(ctx context.Context, name string, o other) error {
	dir, isDir := strings.CutSuffix(name, "/")
	if !isDir {
		return w.untracked(name, o.ignored)
	}
	return eachEntry(w.root, dir, func(e fs.DirEntry) error {
		if err := w.visit(ctx, o.depth); err != nil {
			return err
		}
		inner := path.Join(dir, e.Name())
		switch {
		case strings.EqualFold(e.Name(), ".git"):
			w.nested(dir)
		case e.IsDir() && o.ignored:
			return w.other(ctx, inner+"/", other{true, o.depth + 1})
		case e.IsDir():
			w.others = append(w.others, inner+"/")
		case !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0:
			w.changes.Special++
		case o.ignored:
			return w.untracked(inner, true)
		default:
			if e.Name() == ".gitignore" {
				w.ignores.take(w.root, inner)
			}
			w.others = append(w.others, inner)
		}
		return nil
	})
}

// untracked counts a file. What the relay wrote itself, and nobody changed, does not count.
func (w *walker) untracked(name string, ignored bool) error {
	stat, err := w.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if mine, ours := w.s.record.Files[name]; ours && mine.still(w.root, name) {
		return nil
	}
	kind := byte('U')
	if ignored {
		kind = 'I'
	}
	w.note(kind, name, stamp(stat))
	return nil
}

// missing counts tracked files that the tree does not have.
func (w *walker) missing() {
	for _, name := range slices.Sorted(maps.Keys(w.index)) {
		if e := w.index[name]; !w.seen[name] && !e.skipped && e.mode != modeGitlink {
			w.note('D', name, "")
		}
	}
}
