package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"drawbridge/internal/trust"
)

// written is a file in the tree that the relay wrote.
type written struct {
	// Blobs are the ids of everything that was written there, the last one last.
	Blobs []string `json:"blobs"`
}

// still reports whether the file is as the relay wrote it.
func (f written) still(root *os.Root, name string) bool {
	data, err := readSmall(root, name, maxOurFile)
	return err == nil && len(f.Blobs) > 0 && slices.Contains(f.Blobs, blobIn(f.Blobs[0], data))
}

const maxOurFile = 1 << 20

// blobIn is the id of some content in the format of another id.
func blobIn(like string, content []byte) string {
	s := Space{record: record{Format: "sha1"}}
	if len(like) == 64 {
		s.record.Format = "sha256"
	}
	return s.blobID(content)
}

// components splits a path below a tree and refuses everything that may lead out of it, or into a repository.
func components(name string) ([]string, error) {
	parts := strings.Split(name, "/")
	for _, part := range parts {
		switch folded := strings.ToLower(strings.TrimRight(part, ". ")); {
		case part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\x00\\"):
			return nil, trust.Because(fmt.Sprintf("%+.200q is not a plain path below the workspace", name), "write a relative path without . and .., such as docs/api")
		case folded == ".git" || folded == "git~1":
			return nil, trust.Because(fmt.Sprintf("%+.200q leads into a repository", name), "name another folder")
		}
	}
	if len(name) > 1024 || len(parts) > 64 {
		return nil, trust.Because(fmt.Sprintf("the path %+.60q... is too long", name), "name a shorter one")
	}
	return parts, nil
}

// folders makes the missing folders of a path and refuses one that is a link or a file.
func folders(root *os.Root, parts []string) error {
	for i := range parts {
		dir := path.Join(parts[:i+1]...)
		if err := root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make folder %s: %w", shown(dir), err)
		}
		stat, err := root.Lstat(dir)
		if err != nil {
			return err
		}
		if !stat.IsDir() {
			return trust.Because(shown(dir)+" is not a folder of the workspace, but a link or a file", "name another folder")
		}
	}
	return nil
}

// Put writes a file for the agent into its tree, such as .cursor/mcp.json. It overwrites nothing but what Put itself wrote
// there and nobody changed since: no tracked file, no link, no folder. Git does not offer the file for a commit, and Fetch refuses
// commits that hold it, whatever the tracked .gitignore files say.
func (s *Space) Put(ctx context.Context, name string, data []byte) error {
	parts, err := components(name)
	if err != nil {
		return err
	}
	if len(data) > maxOurFile {
		return trust.Because(fmt.Sprintf("%s has more than %d bytes", shown(name), maxOurFile), "write less")
	}
	release, err := s.store.work(ctx, s.agent)
	if err != nil {
		return err
	}
	defer release()
	if err := s.reload(); err != nil {
		return err
	}
	v, err := s.look(ctx)
	if err != nil {
		return fmt.Errorf("read workspace of %s: %w", s.agent, err)
	}
	root, err := os.OpenRoot(s.Dir())
	if err != nil {
		return err
	}
	defer root.Close()
	if err := s.mayPut(ctx, v, root, name); err != nil {
		return err
	}
	if err := folders(root, parts[:len(parts)-1]); err != nil {
		return err
	}
	if err := exclude(root, name); err != nil {
		return err
	}
	return s.put(root, name, data)
}

func (s *Space) reload() error {
	now, err := s.store.at(s.agent, s.dir)
	if err == nil {
		s.record = now.record
	}
	return err
}

// mayPut refuses a path at which something stands that is not ours.
func (s *Space) mayPut(ctx context.Context, v *view, root *os.Root, name string) error {
	w := &walker{s: s, v: v, root: root, folders: map[string]bool{}}
	if err := w.load(ctx); err != nil {
		return err
	}
	_, staged := w.index[name]
	if _, committed := w.head[name]; staged || committed || w.folders[name] {
		return trust.Because(shown(name)+" is a tracked file of the repository, which the relay does not overwrite", "let the agent read its settings from another file")
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, tracked := w.index[dir]; tracked {
			return trust.Because(shown(dir)+" is a tracked file of the repository, so the relay cannot make a folder there", "let the agent read its settings from another file")
		}
	}
	stat, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mine, ours := s.record.Files[name]
	if !stat.Mode().IsRegular() || !ours || !mine.still(root, name) {
		return trust.Because(shown(name)+" exists, and the relay did not write its content", "move it away, or let the agent read its settings from another file")
	}
	return nil
}

// put writes the file beside its place and links it there. A link fails where something appeared meanwhile.
func (s *Space) put(root *os.Root, name string, data []byte) error {
	if s.record.Files == nil {
		s.record.Files = map[string]written{}
	}
	file := s.record.Files[name]
	id := s.blobID(data)
	if slices.Contains(file.Blobs, id) {
		if old, err := readSmall(root, name, maxOurFile); err == nil && s.blobID(old) == id {
			return nil
		}
	} else {
		file.Blobs = append(file.Blobs, id)
	}
	s.record.Files[name] = file
	// The record comes first: a file that the record does not know counts as the agent's work.
	if err := s.save(); err != nil {
		return err
	}
	here("workspace.put.recorded")
	tmp := path.Join(path.Dir(name), ".drawbridge-new")
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil {
		here("workspace.put.written")
		err = root.Link(tmp, name)
	}
	if errors.Is(err, fs.ErrExist) {
		// It was ours a moment ago; one that is not any more stays.
		if file.still(root, name) {
			err = root.Rename(tmp, name)
		} else {
			err = trust.Because(shown(name)+" appeared while the relay wrote it", "try again")
		}
	}
	if removeErr := root.Remove(tmp); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}

// exclude names the file in the repository's own list, through no link.
func exclude(root *os.Root, name string) error {
	dot, err := openFolder(root, ".git")
	if err != nil {
		return err
	}
	defer dot.Close()
	if err := dot.Mkdir("info", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := openFolder(dot, "info")
	if err != nil {
		return err
	}
	defer info.Close()
	old, err := readSmall(info, "exclude", maxIgnoreFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read .git/info/exclude: %w", err)
	}
	line := "/" + escapePattern(name)
	if slices.Contains(strings.Split(string(old), "\n"), line) {
		return nil
	}
	text := strings.TrimSuffix(string(old), "\n")
	if text != "" {
		text += "\n"
	}
	const tmp = "exclude.drawbridge"
	if err := info.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := info.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = out.WriteString(text + line + "\n" + "/" + escapePattern(path.Join(path.Dir(name), ".drawbridge-new")) + "\n")
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return info.Rename(tmp, "exclude")
}

// escapePattern writes a path so that a list of ignored files takes it as it stands.
func escapePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `, "\n", "?").Replace(name)
}

// Below returns the folder in which an agent works below its parent's workspace, and makes it if it does not exist. The path is relative,
// without "..", and no part of it may be a link. The descriptor names that very folder, whatever takes its place later; the
// caller closes it, and calls Same right before it starts a process there.
func (s *Space) Below(subdir string) (*Subdir, error) {
	parts, err := components(subdir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Dir())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := folders(root, parts); err != nil {
		return nil, err
	}
	dir, err := root.OpenFile(subdir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	sub := &Subdir{Path: path.Join(s.Dir(), subdir), File: dir, space: s, parts: parts}
	if err := sub.Same(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return sub, nil
}

// Subdir is a folder below a parent's workspace.
type Subdir struct {
	// Path is absolute. File is the open folder.
	Path  string
	File  *os.File
	space *Space
	parts []string
}

// Same reports with an error when the path leads elsewhere than to the open folder, or through a link.
func (d *Subdir) Same() error {
	root, err := os.OpenRoot(d.space.Dir())
	if err != nil {
		return err
	}
	defer root.Close()
	changed := trust.Because("the folder "+shown(path.Join(d.parts...))+" of the workspace was replaced", "start the agent again")
	var last fs.FileInfo
	for i := range d.parts {
		if last, err = root.Lstat(path.Join(d.parts[:i+1]...)); err != nil || !last.IsDir() {
			return changed
		}
	}
	now, err := d.File.Stat()
	if err != nil || !os.SameFile(last, now) {
		return changed
	}
	return nil
}

// Read reads a file of the workspace for transfer, at most so many bytes. No part of the path may be a link, and the file must be a regular one
// without other hard links.
func (s *Space) Read(name string, most int64) ([]byte, error) {
	parts, err := components(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Dir())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder := root
	for _, part := range parts[:len(parts)-1] {
		next, err := openFolder(folder, part)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", shown(name), err)
		}
		defer next.Close()
		folder = next
	}
	file, stat, err := openRegular(folder, parts[len(parts)-1])
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", shown(name), err)
	}
	defer file.Close()
	if stat.Size() > most {
		return nil, trust.Because(fmt.Sprintf("%s has %d bytes, more than %d", shown(name), stat.Size(), most), "transfer a smaller file")
	}
	if links, ok := stat.Sys().(*syscall.Stat_t); !ok || links.Nlink != 1 { // the other one may stand outside
		return nil, trust.Because(shown(name)+" has other hard links", "copy it, and transfer the copy")
	}
	return io.ReadAll(io.LimitReader(file, most))
}
