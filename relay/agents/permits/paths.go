package permits

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks bounds the links on the way to a file, as the kernel does.
const maxLinks = 40

// Keys of arguments, folded. A value under any other key that is text means that the call is not understood.
var (
	pathKeys    = strings.Fields("path paths file files filepath filename filepaths notebookpath abspath absolutepath relativepath targetfile directory dir cwd folder oldpath newpath")
	contentKeys = strings.Fields("content contents oldstring newstring oldstr newstr oldtext newtext newsource edits description cellid celltype editmode outputmode")
)

// inside returns nil when every path of a call lies in the workspace. The exact arguments must name one; what the agent
// says beside them (locations) counts only against it.
func inside(s Subject, args map[string]any, edit bool) error {
	var paths []string
	if err := collect("", args, &paths); err != nil {
		return err
	}
	if len(paths) == 0 {
		return errors.New("the arguments do not name a path")
	}
	for _, path := range slices.Concat(paths, s.Paths) {
		if err := fileInside(s.Dir, path, edit); err != nil {
			return err
		}
	}
	return nil
}

// collect gathers the values under keys that name paths.
func collect(key string, value any, paths *[]string) error {
	switch v := value.(type) {
	case map[string]any:
		for key, each := range v {
			if _, nested := each.(map[string]any); nested {
				return fmt.Errorf("the relay does not understand the argument %+.40q", key)
			}
			if err := collect(fold(key), each, paths); err != nil {
				return err
			}
		}
	case []any:
		for _, each := range v {
			if err := collect(key, each, paths); err != nil {
				return err
			}
		}
	case string:
		switch {
		case slices.Contains(pathKeys, key):
			*paths = append(*paths, v)
		case key == "diff":
			return pathsOfDiff(v, paths)
		case !slices.Contains(contentKeys, key):
			return fmt.Errorf("the relay does not understand the argument %+.40q", key)
		}
	case json.Number, bool, nil:
		if slices.Contains(pathKeys, key) {
			return fmt.Errorf("the argument %+.40q is not a path", key)
		}
	}
	return nil
}

// pathsOfDiff gathers the files that a difference names. A line that cannot be part of one file's difference is an error.
func pathsOfDiff(text string, paths *[]string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		name, header := "", false
		for _, prefix := range []string{"Index: ", "--- ", "+++ "} {
			if rest, found := strings.CutPrefix(line, prefix); found {
				name, header = rest, true
			}
		}
		switch {
		case header:
			name, _, _ = strings.Cut(name, "\t")
			*paths = append(*paths, name)
		case line == "" || strings.IndexByte(" +-@\\", line[0]) >= 0 || strings.Trim(line, "=") == "":
		default:
			return errors.New("the relay does not understand the diff")
		}
	}
	return nil
}

// fileInside returns nil when a path is a file or folder of the workspace, or can become one.
func fileInside(root, path string, edit bool) error {
	found, err := settle(root, path)
	if err != nil {
		return err
	}
	if edit && slices.ContainsFunc(strings.Split(found, string(filepath.Separator)), func(part string) bool { return strings.EqualFold(part, ".git") }) {
		return fmt.Errorf("%+.200q belongs to git's own files, from which git starts programs", path)
	}
	info, err := os.Lstat(found)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("%+.200q cannot be checked", path)
	case info.IsDir() && !edit:
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%+.200q is not a plain file", path)
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is && stat.Nlink > 1 {
		return fmt.Errorf("%+.200q has another name elsewhere (a hard link)", path)
	}
	return nil
}

// insideDir returns nil when a folder lies in the workspace.
func insideDir(root, path string) error {
	found, err := settle(root, path)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(found); err != nil || !info.IsDir() {
		return fmt.Errorf("%+.200q is not a folder of the workspace", path)
	}
	return nil
}

// settle returns the resolved path of a file in the workspace. Programs read "a/../b" in two ways: by the names, and by where the link a
// leads. Both must lie inside.
func settle(root, path string) (string, error) {
	if path == "" || strings.HasPrefix(path, "~") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '$' || r == '\ufffd' }) || strings.Contains(path, "://") {
		return "", fmt.Errorf("%+.200q may be read in more than one way", path)
	}
	full := path
	if !filepath.IsAbs(path) {
		full = root + string(filepath.Separator) + path
	}
	var found string
	for _, each := range []string{full, filepath.Clean(full)} {
		var err error
		if found, err = follow(each); err != nil {
			return "", fmt.Errorf("%+.200q %w", path, err)
		}
		if !within(root, found) {
			return "", fmt.Errorf("%+.200q lies outside of the workspace", path)
		}
	}
	return found, nil
}

// follow resolves an absolute path part by part, as the kernel does. Parts that do not exist yet stay as they are.
func follow(path string) (string, error) {
	at, rest, missing := "/", strings.Split(path, "/"), false
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && missing:
			return "", errors.New("has .. after a folder that does not exist")
		case part == "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			missing = true
		case err != nil:
			return "", errors.New("cannot be checked")
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", errors.New("leads through too many links")
			}
			to, err := os.Readlink(next)
			if err != nil {
				return "", errors.New("cannot be checked")
			}
			if filepath.IsAbs(to) {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
			continue
		}
		at = next
	}
	return at, nil
}

// within reports whether a resolved path is the folder root or lies in it. It compares files and not names, because of file systems that do
// not tell capitals apart.
func within(root, path string) bool {
	want, err := os.Stat(root)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Lstat(path); err == nil && os.SameFile(info, want) {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}
