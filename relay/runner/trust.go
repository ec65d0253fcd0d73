package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// distrust says why a path is not ours alone, and what makes it so.
type distrust struct {
	reason, remedy string
}

func (d *distrust) Error() string { return d.reason + "; " + d.remedy }

// readTrusted reads a file that only its owner, who must be us or root, can change: neither the file nor any folder on
// the way to it may be writable for others (facts: relay, rule 1). A sticky folder of root, such as /tmp, is accepted,
// because nobody can replace another user's entry there.
func readTrusted(path string, limit int64) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, pathError(err)
	}
	// The folder of a link decides where the link leads, so it counts as well as the folder of the file.
	for _, leaf := range []string{path, real} {
		if err := checkFolders(filepath.Dir(leaf)); err != nil {
			return nil, err
		}
	}
	// Without O_NONBLOCK a pipe of that name would hold us here.
	file, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError(err)
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, pathError(err)
	}
	if !stat.Mode().IsRegular() {
		return nil, &distrust{"is not a regular file", "name a plain file"}
	}
	if err := checkEntry(real, stat); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, pathError(err)
	}
	if int64(len(data)) > limit {
		return nil, &distrust{fmt.Sprintf("is larger than %d bytes", limit), "make it smaller"}
	}
	return data, nil
}

// checkFolders checks dir and every folder above it.
func checkFolders(dir string) error {
	for {
		stat, err := os.Stat(dir)
		if err != nil {
			return pathError(err)
		}
		if err := checkEntry(dir, stat); err != nil {
			return err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

func checkEntry(path string, stat fs.FileInfo) error {
	owner, known := stat.Sys().(*syscall.Stat_t)
	if !known || (owner.Uid != 0 && int(owner.Uid) != os.Geteuid()) {
		return &distrust{
			fmt.Sprintf("%s belongs to another user, who could change what runs here", path),
			fmt.Sprintf("run: chown %d %s", os.Geteuid(), path),
		}
	}
	sticky := stat.IsDir() && stat.Mode()&fs.ModeSticky != 0 && owner.Uid == 0
	if stat.Mode().Perm()&0o022 != 0 && !sticky {
		return &distrust{
			fmt.Sprintf("%s can be written by others (mode %04o)", path, stat.Mode().Perm()),
			fmt.Sprintf("run: chmod go-w %s", path),
		}
	}
	return nil
}

// checkExecutable refuses a program that is missing, cannot be run, or can be rewritten by others. Its folders are not
// judged: package managers keep theirs writable for a group.
func checkExecutable(path string) error {
	stat, err := os.Stat(path)
	if err != nil {
		return pathError(err)
	}
	if !stat.Mode().IsRegular() {
		return &distrust{"is not a regular file", "name the program itself"}
	}
	if stat.Mode().Perm()&0o111 == 0 {
		return &distrust{"is not executable", fmt.Sprintf("run: chmod +x %s", path)}
	}
	return checkEntry(path, stat)
}

func checkDir(path string) error {
	stat, err := os.Stat(path)
	if err != nil {
		return pathError(err)
	}
	if !stat.IsDir() {
		return &distrust{"is not a folder", "name an existing folder"}
	}
	return nil
}

// pathError turns an error of the os package into a reason without the path, which every problem names itself.
func pathError(err error) error {
	var cause *fs.PathError
	reason := err
	if errors.As(err, &cause) {
		reason = cause.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &distrust{"does not exist", "create it or correct the path"}
	}
	return &distrust{reason.Error(), "make it readable for the user that runs the relay"}
}
