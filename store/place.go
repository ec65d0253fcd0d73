package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"drawbridge/bridge"
	"drawbridge/internal/trust"
)

// checkPlace refuses an absolute path at which a database cannot or must not be, before
// anything is created there.
func checkPlace(path string) error {
	if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return bridge.Errorf(bridge.Invalid, "the database path %+q holds a control character, such as a line break; write the path in one line", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return checkLink(path)
	}
	return nil
}

// checkLink refuses a link without a file. Following it would make a file at a place
// that nobody chose now.
func checkLink(path string) error {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // others are said by their own names
	}
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	return bridge.Errorf(bridge.Invalid, "the database %s is a link that leads to no file: %+q does not exist; put the file back, remove the link, or choose another path. Nothing was created", path, target)
}

// checkDisk refuses a folder on a network file system. SQLite's log needs memory that
// its users share (https://www.sqlite.org/wal.html), and two machines do not see each
// other's locks. A file system that does not say what it is passes.
func checkDisk(path string) error {
	if name := trust.NetworkDisk(filepath.Dir(path)); name != "" {
		return onNetwork(path, name)
	}
	return nil
}

func onNetwork(path, name string) error {
	return bridge.Errorf(bridge.Invalid, "the database %s is on a network file system (%s), where SQLite can lose data; choose a path on a disk of this machine, or use PostgreSQL: postgres://user@host:5432/database", path, name)
}

// mayWrite asks whether this process may write a database and its folder, and changes
// nothing. path has no links.
func mayWrite(path string) error {
	for _, at := range []string{filepath.Dir(path), path} {
		err := unix.Access(at, unix.W_OK)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look at %q: %w", at, err)
		}
	}
	return nil
}
