//go:build !linux

package workspace_test

import (
	"errors"
	"os"
)

var errNoMount = errors.New("only Linux has small disks in memory here")

func mountSmall(string, string) error { return errNoMount }

func mountLarger(string, string) error { return errNoMount }

func unmount(string) error { return errNoMount }

// swap is three steps here.
func swap(a, b string) {
	_ = os.Rename(a, a+".tmp")
	_ = os.Rename(b, a)
	_ = os.Rename(a+".tmp", b)
}
