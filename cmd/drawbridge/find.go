package main

import (
	"fmt"
	"os"
	"path/filepath"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/internal/trust"
)

// bridgeFile is the configuration of a bridge in its folder.
const bridgeFile = "bridge.yaml"

// find returns the configuration from which address and token are taken, and the command that starts its bridge. Unless one was named, it is the
// one in this folder, that of a drawbridge up which runs, the nearest one in a folder above, or the one that drawbridge up left. When it is not
// in this folder, find says which one it took.
func (t connection) find(a app) (path, start string) {
	here, err := filepath.Abs(bridgeFile)
	if err != nil {
		here = bridgeFile
	}
	if t.Config != "" {
		return t.Config, serving(t.Config)
	}
	if isFile(here) {
		return here, "drawbridge serve"
	}
	folder, err := stateFolder(a)
	upFile := filepath.Join(folder, bridgeFile)
	left := err == nil && isFile(upFile)
	above := fileAbove(filepath.Dir(here))
	switch {
	case left && (above == "" || local.Runs(folder)):
		path, start = upFile, "drawbridge up"
	case above != "":
		path, start = above, serving(above)
	default:
		return here, "drawbridge serve"
	}
	fmt.Fprintf(a.stderr, "drawbridge: using the bridge of %s\n", path)
	return path, start
}

// serving is the command that starts the bridge of a configuration.
func serving(path string) string {
	return "drawbridge serve --config " + local.Quoted(path)
}

// fileAbove returns the nearest bridge.yaml in a folder above. A file that others own or can change does not count: a stranger's /tmp/bridge.yaml must
// not decide which bridge gets our words.
func fileAbove(dir string) string {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		path := filepath.Join(parent, bridgeFile)
		stat, err := os.Stat(path)
		if err != nil || !stat.Mode().IsRegular() {
			continue
		}
		if trust.Entry(path, stat) == nil {
			return path
		}
	}
	return ""
}

func isFile(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.Mode().IsRegular()
}
