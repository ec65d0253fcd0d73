package keeper

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// orphanEvery is how often AwaitOrphans looks.
const orphanEvery = 20 * time.Millisecond

// Orphans counts the keepers on this machine, with their guards, whose relay has ended. Each has a tree of processes that it is ending.
// Those of other users count, too.
func Orphans() (n int, err error) {
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(list) == 0 {
		return 0, fmt.Errorf("read /proc: it lists no process (%v)", err)
	}
	for _, dir := range list {
		// A process that ends meanwhile has no files any more, and counts as gone.
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		name, parent, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{0}), []byte{0})
		if string(name) != guardName && string(name) != keeperName {
			continue
		}
		if now := parentOf(dir); now > 0 && strconv.Itoa(now) != string(parent) && !inner(dir) {
			n++
		}
	}
	return n, nil
}

// parentOf is the parent of a process, 0 for one that is gone.
func parentOf(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "stat"))
	// The name in brackets may hold anything.
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// inner reports whether a process is in a namespace of its own, such as a container, where its parent has another number. Its relay is not
// one of this machine's.
func inner(dir string) bool {
	text, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(text)) {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			return len(strings.Fields(ids)) > 1
		}
	}
	return false
}

// AwaitOrphans returns when nothing is left of what relays had started here that have ended. The error is the cause of ctx.
func AwaitOrphans(ctx context.Context) error {
	ticker := time.NewTicker(orphanEvery)
	defer ticker.Stop()
	for {
		if n, err := Orphans(); n == 0 || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
