// Package trust says whether a file is ours alone, so that nobody else decides what a relay or a bridge does, or learns its keys.
//
// It looks at owners and modes of a file and of every folder on the way to it. It is not an access control of its own, and it
// does not defend against programs of the same user. Rule of thumb: what decides something is read through this package only.
package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Problem is a reason for refusing something, and what to do about it.
type Problem struct {
	Reason, Remedy string

	cause error
}

// Unwrap returns the system's error behind the reason; nil when the reason is ours.
func (p *Problem) Unwrap() error { return p.cause }

// Because returns a Problem.
func Because(reason, remedy string) *Problem { return &Problem{Reason: reason, Remedy: remedy} }

// Error is reason; remedy.
func (p *Problem) Error() string { return p.Reason + "; " + p.Remedy }

// Read reads a regular file of at most limit bytes that only its owner, who must be us or root, can change: neither the
// file nor any folder on the way to it may be writable for others (facts: relay, rule 1). A sticky folder of root, such as
// /tmp, is accepted, because nobody can replace another user's entry there. Errors are *Problem, without the path.
func Read(path string, limit int64) ([]byte, error) { return read(path, limit, Entry) }

// ReadSecret is Read for keys and tokens: nobody else may read the file, either.
func ReadSecret(path string, limit int64) ([]byte, error) { return read(path, limit, Secret) }

func read(path string, limit int64, judge func(string, fs.FileInfo) error) ([]byte, error) {
	real, err := walk(path)
	if err != nil {
		return nil, err
	}
	// Without O_NONBLOCK a pipe of that name would hold us here.
	file, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, linkError(path, real, err)
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, PathError(err)
	}
	if !stat.Mode().IsRegular() {
		return nil, Because("is not a regular file", "name a plain file")
	}
	if err := judge(real, stat); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, PathError(err)
	}
	if int64(len(data)) > limit {
		return nil, Because(fmt.Sprintf("is larger than %d bytes", limit), "make it smaller")
	}
	return data, nil
}

// linkError is PathError at the end of a link. A link without a file gets words of its own.
func linkError(path, real string, err error) error {
	if info, own := os.Lstat(path); own == nil && info.Mode()&fs.ModeSymlink != 0 && errors.Is(err, fs.ErrNotExist) {
		return Because(fmt.Sprintf("is a link that leads to no file: %q does not exist", real), "put the file back, or correct the link")
	}
	return PathError(err)
}

// walk follows path name by name and returns where it leads without links. It judges each folder in which it looks up a
// name, and each link, because a person who changes one of these chooses the file.
func walk(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", PathError(err)
	}
	dir, rest, links := "/", names(abs), 0
	for len(rest) > 0 {
		if err := entryOf(dir, os.Stat); err != nil {
			return "", err
		}
		next := filepath.Join(dir, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil { // not a link, or missing, which opening it will tell
			dir = next
			continue
		}
		if links++; links > maxLinks {
			return "", Because("leads through too many links", "name the file itself")
		}
		if err := ownLink(next); err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target) // dir has no links, so that .. means what it says
		}
		dir, rest = "/", append(names(target), rest...)
	}
	return dir, nil
}

// names are the parts of a clean path.
func names(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == filepath.Separator })
}

func entryOf(path string, look func(string) (fs.FileInfo, error)) error {
	stat, err := look(path)
	if err != nil {
		return PathError(err)
	}
	return Entry(path, stat)
}

// ownLink refuses a link of another user, which may stand in a sticky folder. The mode of a link says nothing.
func ownLink(path string) error {
	stat, err := os.Lstat(path)
	if err != nil {
		return PathError(err)
	}
	return owned(path, stat)
}

// Folders checks dir and every folder above it.
func Folders(dir string) error {
	for {
		stat, err := os.Stat(dir)
		if err != nil {
			return PathError(err)
		}
		if err := Entry(dir, stat); err != nil {
			return err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

// Entry refuses what belongs to another user than us or root, or can be written by others.
func Entry(path string, stat fs.FileInfo) error {
	if err := owned(path, stat); err != nil {
		return err
	}
	owner, _ := stat.Sys().(*syscall.Stat_t)
	sticky := stat.IsDir() && stat.Mode()&fs.ModeSticky != 0 && owner.Uid == 0
	if stat.Mode().Perm()&0o022 != 0 && !sticky {
		return Because(fmt.Sprintf("%s can be written by others (mode %04o)", path, stat.Mode().Perm()),
			fmt.Sprintf("run: chmod go-w %s", path))
	}
	return nil
}

func owned(path string, stat fs.FileInfo) error {
	owner, known := stat.Sys().(*syscall.Stat_t)
	if !known || (owner.Uid != 0 && int(owner.Uid) != os.Geteuid()) {
		return Because(fmt.Sprintf("%s belongs to another user, who could change what runs here", path),
			fmt.Sprintf("run: chown %d %s", os.Geteuid(), path))
	}
	return nil
}

// Secret is Entry for keys and tokens: it also refuses what others can read. Root's file may be readable for a group of ours when we are not
// root: so Kubernetes hands a secret (fsGroup) to a process that is not root, which could not read it otherwise.
func Secret(path string, stat fs.FileInfo) error {
	if err := Entry(path, stat); err != nil {
		return err
	}
	open := stat.Mode().Perm() & 0o044
	if open == 0 || open == 0o040 && handedOver(stat) {
		return nil
	}
	remedy := fmt.Sprintf("run: chmod go-r %s", path)
	if owner, ok := stat.Sys().(*syscall.Stat_t); ok && owner.Uid == 0 && os.Geteuid() != 0 {
		remedy = fmt.Sprintf("mount it with a mode that only this user (%d) or its group (%d) can read, such as mode: 0400 with uid: %d (Docker), or defaultMode: 0440 with fsGroup: %d (Kubernetes)",
			os.Geteuid(), os.Getegid(), os.Geteuid(), os.Getegid())
	}
	return Because(fmt.Sprintf("%s can be read by others (mode %04o)", path, stat.Mode().Perm()), remedy)
}

// handedOver reports whether root gave a file to a group of ours.
func handedOver(stat fs.FileInfo) bool {
	owner, ok := stat.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid != 0 || os.Geteuid() == 0 {
		return false
	}
	groups, err := os.Getgroups()
	return int(owner.Gid) == os.Getegid() || err == nil && slices.Contains(groups, int(owner.Gid))
}

// Executable refuses a program that is missing, cannot be run, or can be rewritten or replaced by others: a name in a folder
// that anybody may write, or that belongs to another user, stands for whatever program they put there. Folders that a group
// may write pass, because package managers keep theirs so. It judges the path; what is then executed by it may be another
// file only if one of those who pass changed it meanwhile.
func Executable(path string) error {
	stat, err := os.Stat(path)
	if err != nil {
		return PathError(err)
	}
	if !stat.Mode().IsRegular() {
		return Because("is not a regular file", "name the program itself")
	}
	if stat.Mode().Perm()&0o111 == 0 {
		return Because("is not executable", fmt.Sprintf("run: chmod +x %s", path))
	}
	if err := Entry(path, stat); err != nil {
		return err
	}
	return way(path)
}

// maxLinks bounds a chain of links, as the kernel does.
const maxLinks = 40

// way judges every folder in which a name on the way to a program can be replaced: those of each link and of the file.
func way(path string) error {
	for range maxLinks {
		real, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return PathError(err)
		}
		for _, dir := range []string{filepath.Dir(path), real} {
			if err := reserved(dir); err != nil {
				return err
			}
		}
		next, err := os.Readlink(path)
		if err != nil {
			return nil // no link: the file itself
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(real, next)
		}
		path = next
	}
	return Because("leads through too many links", "name the program itself")
}

// ProgramFolder refuses a folder of programs that is missing, or into which others could put programs of theirs, by the rules for programs.
func ProgramFolder(dir string) error {
	if err := Dir(dir); err != nil {
		return err
	}
	return reserved(dir)
}

// reserved refuses dir when it or a folder above it belongs to another user, or can be written by everybody.
func reserved(dir string) error {
	for {
		stat, err := os.Stat(dir)
		if err != nil {
			return PathError(err)
		}
		owner, known := stat.Sys().(*syscall.Stat_t)
		if !known || (owner.Uid != 0 && int(owner.Uid) != os.Geteuid()) {
			return Because(fmt.Sprintf("%s belongs to another user, who could replace the program", dir),
				fmt.Sprintf("move the program to a folder of yours, or run: chown %d %s", os.Geteuid(), dir))
		}
		sticky := stat.Mode()&fs.ModeSticky != 0 && owner.Uid == 0
		if stat.Mode().Perm()&0o002 != 0 && !sticky {
			return Because(fmt.Sprintf("%s can be written by everybody (mode %04o), who could replace the program", dir, stat.Mode().Perm()),
				fmt.Sprintf("run: chmod o-w %s", dir))
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

// Program opens an executable and judges what was opened, so that what is then read and executed through it is what was
// judged, whatever happens to the path.
func Program(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, PathError(err)
	}
	stat, err := file.Stat()
	switch {
	case err != nil:
		err = PathError(err)
	case !stat.Mode().IsRegular():
		err = Because("is not a regular file", "name the file itself")
	default:
		err = Entry(path, stat)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// File opens a file that a program reads and that decides what it does, by the rules for programs, but for that of being executable.
func File(path string) (*os.File, error) {
	if err := way(path); err != nil {
		return nil, err
	}
	return Program(path)
}

// Dir refuses what is not an existing folder.
func Dir(path string) error {
	stat, err := os.Stat(path)
	if err != nil {
		return PathError(err)
	}
	if !stat.IsDir() {
		return Because("is not a folder", "name an existing folder")
	}
	return nil
}

// remedies say what the system's errors at a path mean, and what to do.
var remedies = []struct {
	is             error
	reason, remedy string
}{
	{fs.ErrNotExist, "does not exist", "create it or correct the path"},
	{syscall.ENOTDIR, "is not in a folder, because a part of its path is a file", "correct the path"},
	{syscall.ELOOP, "leads through links in a circle", "correct or remove the link, or name the file itself"},
	{syscall.ENAMETOOLONG, "has a name that is too long for the file system", "choose a shorter path"},
	{syscall.EISDIR, "is a folder", "name a file in it"},
	{syscall.EINVAL, "is not a path: it is empty or holds a NUL character", "write the path of a file"},
	{fs.ErrPermission, "may not be used by the user that runs this program", "make it readable for that user, and its folders searchable (chmod u+x)"},
	{syscall.EROFS, "is on a read-only file system", "mount it for writing, or choose another path"},
}

// PathError turns an error of the os package into a reason without the path, which every problem names itself.
func PathError(err error) error {
	var cause *fs.PathError
	reason := err
	if errors.As(err, &cause) {
		reason = cause.Err
	}
	p := Because(reason.Error(), "make it readable for the user that runs this program")
	for _, r := range remedies {
		if errors.Is(err, r.is) {
			p = Because(r.reason, r.remedy)
			break
		}
	}
	p.cause = reason
	return p
}

// Place refuses the path of a file of state, which need not exist, when others could change what is there, or when we cannot.
// Key is the setting that chooses the path.
func Place(path, key string) error {
	if err := Folder(filepath.Dir(path), key); err != nil {
		return err
	}
	for _, file := range []string{path, path + ".lock"} {
		if err := ownFile(file, key); err != nil {
			return err
		}
	}
	return nil
}

// Folder refuses a folder for files of state when others could change what is there, or when we cannot.
func Folder(dir, key string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		if _, own := os.Stat(dir); own != nil { // path/filepath has its own words for a circle of links
			err = own
		}
		return folderError(err)
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		return Because(fmt.Sprintf("needs a folder, and %s is a file", dir), "correct the path")
	}
	for _, folder := range []string{dir, real} {
		if err := Folders(folder); err != nil {
			return err
		}
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return Because(fmt.Sprintf("its folder cannot be written: %v", err),
			"set "+key+": in relay.yaml to a file in a folder of the user that runs the relay")
	}
	return nil
}

// ownFile accepts a file that is missing, or plain and ours alone.
func ownFile(path, key string) error {
	stat, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return PathError(err)
	case !stat.Mode().IsRegular():
		return Because(path+" is not a regular file", "name a plain file with "+key+": in relay.yaml")
	}
	return Entry(path, stat)
}

func folderError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Because("its folder does not exist", "create it or correct the path")
	case errors.Is(err, syscall.ELOOP):
		return Because("its folder leads through links in a circle", "correct or remove the link, or choose another path")
	}
	return PathError(err)
}

// Within reports whether path is dir or below it.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
