package workspace

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

var looseRest = regexp.MustCompile(`^([0-9a-f]{38}|[0-9a-f]{62})$`)

// intake copies the objects of an agent's repository into the relay's. What it copies is data: loose objects are checked
// against their names here, and packs by git index-pack. It follows no alternates and no links.
type intake struct {
	s       *Space
	objects *os.Root
	// all takes the packs that came from the clone, too.
	all  bool
	left int64
	// count is how many objects were met; problems are those that could not be taken. The others are.
	count    int
	problems []string
}

// skip notes an object that could not be taken and goes on. Whether anything needs it shows later.
func (in *intake) skip(err error) error {
	var p problem
	var over overLimit
	if !errors.As(err, &p) || errors.As(err, &over) {
		return err
	}
	if len(in.problems) < maxProblems {
		in.problems = append(in.problems, err.Error())
	}
	return nil
}

// overLimit is a repository with more than the relay looks at.
type overLimit struct{ problem }

func (in *intake) kept(parts ...string) string {
	return filepath.Join(append([]string{in.s.dir, keptName, "objects"}, parts...)...)
}

// run takes what the relay does not have yet. It may be cut off anywhere and run again.
func (in *intake) run(ctx context.Context) error {
	if err := in.loose(ctx); err != nil {
		return err
	}
	here("workspace.take.loose")
	return in.packs(ctx)
}

func (in *intake) loose(ctx context.Context) error {
	for i := range 256 {
		folder := hex.EncodeToString([]byte{byte(i)})
		stat, err := in.objects.Lstat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !stat.IsDir() {
			err = in.skip(problemf(".git/objects/%s is not a folder", folder))
		} else if err == nil {
			err = eachEntry(in.objects, folder, func(e fs.DirEntry) error {
				if !looseRest.MatchString(e.Name()) {
					return nil
				}
				if in.count++; in.count > in.s.store.limits.Entries {
					return overLimit{problem(fmt.Sprintf("its repository holds more than %d objects", in.s.store.limits.Entries))}
				}
				return in.skip(in.looseObject(ctx, folder, e.Name()))
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *intake) looseObject(ctx context.Context, folder, rest string) error {
	place := in.kept(folder, rest)
	if _, err := os.Lstat(place); err == nil {
		return nil
	}
	file, stat, err := openRegular(in.objects, path.Join(folder, rest))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git packed it meanwhile
		}
		return err
	}
	defer file.Close()
	if err := in.spend(stat.Size()); err != nil {
		return err
	}
	if err := os.MkdirAll(in.kept(folder), 0o700); err != nil {
		return err
	}
	// One name for all: what a crash left is written over, and errors read the same each time.
	tmp, err := os.OpenFile(in.kept("tmp_loose"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = copyAll(ctx, tmp, io.LimitReader(file, stat.Size()))
	if err == nil {
		_, err = tmp.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = in.checkLoose(ctx, tmp, folder+rest)
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), place)
	}
	return err
}

// checkLoose compares an object with its name, in bounded memory.
func (in *intake) checkLoose(ctx context.Context, from io.Reader, id string) error {
	inflated, err := zlib.NewReader(from)
	if err != nil {
		return problemf("object %s is damaged: %v", id, err)
	}
	h := newHash(in.s.record.Format)
	bounded := &io.LimitedReader{R: inflated, N: in.left + 1}
	n, err := copyAll(ctx, h, bounded)
	if err == nil {
		err = in.spend(n)
	}
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		return problemf("object %s is damaged: %v", id, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != id {
		return problemf("the content of object %s does not match its id", id)
	}
	return nil
}

// spend counts bytes against the limit of one look.
func (in *intake) spend(n int64) error {
	if in.left -= n; in.left < 0 {
		return overLimit{problem(fmt.Sprintf("the repository has more than %d bytes that the clone does not have yet", in.s.store.limits.Bytes))}
	}
	return nil
}

func (in *intake) packs(ctx context.Context) error {
	stat, err := in.objects.Lstat("pack")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !stat.IsDir() {
		return errors.Join(err, in.skip(problemf(".git/objects/pack is not a folder")))
	}
	return eachEntry(in.objects, "pack", func(e fs.DirEntry) error {
		if !packName.MatchString(e.Name()) || !in.all && slices.Contains(in.s.record.Packs, e.Name()) {
			return nil
		}
		err := in.pack(ctx, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git packed again meanwhile
		}
		return in.skip(err)
	})
}

// pack copies one pack and has git make its index. The agent's own index is not used, because it could lie.
func (in *intake) pack(ctx context.Context, name string) error {
	base := strings.TrimSuffix(name, ".pack")
	index := in.kept("pack", base+".idx")
	if _, err := os.Lstat(index); err == nil {
		return nil
	}
	file, stat, err := openRegular(in.objects, path.Join("pack", name))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := in.spend(stat.Size()); err != nil {
		return err
	}
	dir := in.kept("tmp_pack")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyFile(ctx, filepath.Join(dir, "p.pack"), io.LimitReader(file, stat.Size())); err != nil {
		return err
	}
	here("workspace.take.pack-copied")
	_, err = in.s.store.git.do(ctx, call{
		repo: filepath.Join(in.s.dir, keptName), plan: in.s.store.git.confined([]string{filepath.Join(in.s.dir, keptName)}),
		args: []string{"index-pack", "--object-format=" + in.s.record.Format, "-o", filepath.Join(dir, "p.idx"), filepath.Join(dir, "p.pack")},
	})
	if exit(err) > 0 && ctx.Err() == nil {
		return problemf("pack %s is damaged: %v", name, err)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "p.pack"), in.kept("pack", name)); err != nil {
		return err
	}
	here("workspace.take.pack-moved")
	// A pack counts from the moment when its index is there.
	return os.Rename(filepath.Join(dir, "p.idx"), index)
}

func copyFile(ctx context.Context, to string, from io.Reader) error {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = copyAll(ctx, out, from)
	return errors.Join(err, out.Close())
}

// view is one look at a repository: what its refs say, and a repository of ours in which git can walk its history.
type view struct {
	s     *Space
	heads heads
	// saved is true when the listed clone could be read; without it, nothing counts as saved.
	saved bool
	// lost says why, when it could not be read.
	lost string
	// stores are the folders with the clone's objects.
	stores []string
	// common is the git folder of the clone, which its worktrees share.
	common string
	// found are all commits and annotated tags that the agent's repository holds and that did not come with the clone.
	found, tags []string
	// clone are the ids of the clone's refs.
	clone map[string]bool
	// problems are parts of the repository that could not be read or followed. HEAD and the agent's branch could.
	problems []string
}

func (v *view) dir() string { return filepath.Join(v.s.dir, viewName) }

// git runs git in the view and returns what it wrote.
func (v *view) git(ctx context.Context, args ...string) (string, error) {
	return v.s.store.git.do(ctx, call{repo: v.dir(), args: args})
}

// look reads the agent's repository. An error of the type problem means that it cannot be judged.
func (s *Space) look(ctx context.Context) (*view, error) {
	v, err := s.lookOnce(ctx, false)
	if err == nil && len(v.problems) == 0 || ctx.Err() != nil || err != nil && !judgeable(err) {
		return v, err
	}
	// The clone may have lost what the workspace began with, or our copy was cut off: begin again, and take everything.
	if err := forget(filepath.Join(s.dir, keptName)); err != nil {
		return nil, err
	}
	here("workspace.look.again")
	return s.lookOnce(ctx, true)
}

func (s *Space) lookOnce(ctx context.Context, all bool) (*view, error) {
	root, err := os.OpenRoot(s.Dir())
	if err != nil {
		return nil, problemf("the tree cannot be opened: %v", err)
	}
	defer root.Close()
	dot, err := openFolder(root, ".git")
	if err != nil {
		return nil, problemf(".git cannot be read: %v", err)
	}
	defer dot.Close()
	v := &view{s: s}
	if v.heads, err = readHeads(dot); err != nil {
		return nil, problemf("its refs cannot be read: %v", err)
	}
	objects, err := openFolder(dot, "objects")
	if err != nil {
		return nil, problemf(".git/objects cannot be read: %v", err)
	}
	defer objects.Close()
	if err := s.makeBare(keptName, nil); err != nil {
		return nil, err
	}
	in := &intake{s: s, objects: objects, all: all, left: s.store.limits.Bytes}
	if err := in.run(ctx); err != nil {
		return nil, err
	}
	v.problems = append(v.heads.problems, in.problems...)
	here("workspace.look.taken")
	if err := v.build(ctx); err != nil {
		return nil, err
	}
	return v, v.verify(ctx)
}

// build makes the repository of the view: objects from the relay's copy and from the clone, and a ref for each commit to look at.
func (v *view) build(ctx context.Context) error {
	var listing errgroup.Group
	listing.Go(func() error { return v.enumerate(ctx) })
	alternates := []string{filepath.Join(v.s.dir, keptName, "objects")}
	v.clone = map[string]bool{}
	out, objects, err := v.cloneRefs(ctx)
	if err == nil {
		alternates = append(alternates, objects)
		v.stores, v.saved = stores(objects), true
	}
	if err != nil {
		v.lost = explain(v.s.record.Clone, err).Error()
	}
	if err := listing.Wait(); err != nil {
		return err
	}
	for id := range strings.Lines(out) {
		v.clone[strings.TrimSuffix(id, "\n")] = v.saved
	}
	if err := forget(v.dir()); err != nil {
		return err
	}
	if err := v.s.makeBare(viewName, alternates); err != nil {
		return err
	}
	return v.writeRefs()
}

// cloneRefs returns the ids of the clone's refs, a line each, and the folder of its objects.
func (v *view) cloneRefs(ctx context.Context) (ids, objects string, err error) {
	if objects, err = v.places(ctx); err != nil {
		return "", "", err
	}
	ids, err = v.s.clone(ctx, "for-each-ref", "--format=%(objectname)")
	return ids, objects, err
}

// places finds out where the clone keeps its objects and the rest.
func (v *view) places(ctx context.Context) (objects string, err error) {
	out, err := v.s.clone(ctx, "rev-parse", "--git-path", "objects", "--git-common-dir")
	if err != nil {
		return "", err
	}
	objects, v.common, _ = strings.Cut(out, "\n")
	for _, path := range []*string{&objects, &v.common} {
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(v.s.record.Clone, *path)
		}
	}
	return objects, nil
}

// enumerate lists every commit in the relay's copy: on branches, stashed, detached, or named by nothing any more.
func (v *view) enumerate(ctx context.Context) error {
	lines := &records{separator: '\n', each: func(line string) {
		switch id, kind, _ := strings.Cut(line, " "); kind {
		case "commit":
			v.found = append(v.found, id)
		case "tag":
			v.tags = append(v.tags, id)
		}
	}}
	_, err := v.s.store.git.do(ctx, call{
		repo: filepath.Join(v.s.dir, keptName), out: lines, args: []string{"cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)"},
	})
	return err
}

// writeRefs writes the refs of the view in one file. refs/clone/ are what the listed clone has; refs/found/ are what the agent has.
func (v *view) writeRefs() error {
	var text bytes.Buffer
	text.WriteString("# pack-refs with: peeled \n")
	n := 0
	add := func(folder, id string) {
		n++
		fmt.Fprintf(&text, "%s refs/%s/%s\n", id, folder, strconv.Itoa(n))
	}
	for id, known := range v.clone {
		if known && objectID.MatchString(id) {
			add("clone", id)
		}
	}
	for _, id := range v.found {
		add("found", id)
	}
	for _, id := range v.tips() {
		add("found", id)
	}
	if tip := v.tip(); tip != "" {
		fmt.Fprintf(&text, "%s refs/out/tip\n", tip)
	}
	return os.WriteFile(filepath.Join(v.dir(), "packed-refs"), text.Bytes(), 0o600)
}

// addRefs writes more refs into the view: a name for each id.
func (v *view) addRefs(names map[string]string) error {
	file, err := os.OpenFile(filepath.Join(v.dir(), "packed-refs"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for id, name := range names {
		fmt.Fprintf(&text, "%s %s\n", id, name)
	}
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}

// tip is the commit of the agent's branch, or "".
func (v *view) tip() string { return v.heads.refs["refs/heads/"+v.s.Branch()] }

// tips are the ids that the agent's repository names, without repetition.
func (v *view) tips() []string {
	ids := map[string]bool{}
	for _, id := range v.heads.refs {
		ids[id] = true
	}
	for _, id := range append(slices.Clone(v.heads.pseudo), v.heads.at) {
		if id != "" {
			ids[id] = true
		}
	}
	list := make([]string, 0, len(ids))
	for id := range ids {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// verify makes sure that HEAD and the agent's branch are whole: every commit, folder and file down to what the clone has. What else
// the repository names and does not have is a problem of its own.
func (v *view) verify(ctx context.Context) error {
	var own, others []string
	for _, id := range []string{v.tip(), v.heads.at} {
		if id != "" {
			own = append(own, id)
		}
	}
	if err := v.whole(ctx, own); err != nil {
		var p problem
		if errors.As(err, &p) && len(v.problems) > 0 {
			return problemf("%v; %s", err, strings.Join(v.problems, "; "))
		}
		return err
	}
	for _, id := range v.heads.refs {
		if !v.clone[id] && !slices.Contains(own, id) {
			others = append(others, id)
		}
	}
	slices.Sort(others)
	for batch := range slices.Chunk(slices.Compact(others), 1000) {
		err := v.whole(ctx, batch)
		var p problem
		if errors.As(err, &p) && len(v.problems) < 2*maxProblems {
			v.problems = append(v.problems, err.Error())
		} else if err != nil && !errors.As(err, &p) {
			return err
		}
	}
	return nil
}

func (v *view) whole(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	args := append([]string{"rev-list", "--objects", "--quiet"}, ids...)
	_, err := v.git(ctx, append(args, "--not", "--glob=refs/clone/*")...)
	if exit(err) > 0 {
		return problemf("its history is incomplete: %v", err)
	}
	return err
}
