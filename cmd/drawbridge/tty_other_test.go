//go:build !linux

package main

import (
	"errors"
	"os"
)

// openTTY makes a terminal on Linux alone; scripts that need one say so with [linux].
func openTTY() (keys, terminal *os.File, err error) {
	return nil, nil, errors.New("terminals for tests are made on Linux alone")
}

func cooked(*os.File) bool { return true }
