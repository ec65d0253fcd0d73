package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"drawbridge/config"
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
		return t.Config, "drawbridge serve --config " + t.Config
	}
	if isFile(here) {
		return here, "drawbridge serve"
	}
	upFile := ""
	if folder, err := stateFolder(a); err == nil {
		upFile = filepath.Join(folder, bridgeFile)
	}
	above := fileAbove(filepath.Dir(here))
	switch {
	case a.answers(upFile), above == "" && isFile(upFile):
		path, start = upFile, "drawbridge up"
	case above != "":
		path, start = above, "drawbridge serve --config "+above
	default:
		return here, "drawbridge serve"
	}
	fmt.Fprintf(a.stderr, "drawbridge: the bridge is that of %s\n", path)
	return path, start
}

// fileAbove returns the nearest bridge.yaml in a folder above. A file of another user does not count: a stranger's /tmp/bridge.yaml must not decide
// which bridge gets our words.
func fileAbove(dir string) string {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		path := filepath.Join(parent, bridgeFile)
		stat, err := os.Stat(path)
		if err != nil || !stat.Mode().IsRegular() {
			continue
		}
		if owner, ok := stat.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == os.Geteuid() {
			return path
		}
	}
	return ""
}

func isFile(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.Mode().IsRegular()
}

// answers reports whether somebody listens where the bridge of a configuration serves its operator.
func (a app) answers(path string) bool {
	if !isFile(path) {
		return false
	}
	cfg, _ := config.LoadToTalk(path, a.getenv)
	if cfg == nil {
		return false
	}
	u, err := url.Parse(cfg.OperatorURL())
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
