// Package gobuild builds programs of this repository for tests that start them. It is not for product code. Rule of thumb: a test
// that starts a program gets it here, so that Go's test cache sees a change of the program's sources.
package gobuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Into builds packages, such as drawbridge/cmd/drawbridge-relay, with tags (comma-separated, or "") into the folder dir, which
// exists. It first
// makes every source of the repository an input of the calling test: Go's test cache does not see what a child process reads.
// The error holds the compiler's output.
func Into(dir, tags string, packages ...string) error {
	if err := statSources(); err != nil {
		return err
	}
	args := append([]string{"build", "-tags", tags, "-o", dir + string(filepath.Separator)}, packages...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil { //nolint:noctx // a build ends
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// statSources asks for the state of each file that a program of the module around the working directory may be made of.
func statSources() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return errors.New("no go.mod around the working directory: run the test in the repository")
		}
		root = filepath.Dir(root)
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a file of another test, removed meanwhile
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.IsDir() && filepath.Ext(path) != ".md":
			_, _ = os.Stat(path)
		}
		return nil
	})
}
