package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// opens is this binary as a program that opens a file again and again, at most a hundred times, and says how often it could.
func opens() int {
	n := 0
	for ; n < 100; n++ {
		if _, err := os.Open(os.DevNull); err != nil {
			break
		}
	}
	fmt.Println("opened", n)
	return 0
}

// greedy are programs that want more than they may, each of which is modest if nobody stops it, and what is to come of them.
var greedy = map[string]struct {
	script string
	bounds sandbox.Bounds
	signal syscall.Signal
	free   string
	bound  string
}{
	"memory": {
		script: "head -c 30000000 /dev/zero | tail -c 30000000 2>/dev/null | wc -c",
		bounds: sandbox.Bounds{Memory: 24 << 20}, free: "30000000\n", bound: "0\n",
	},
	"memory of a child": {
		script: "(exec sh -c 'head -c 30000000 /dev/zero | tail -c 30000000 2>/dev/null | wc -c')",
		bounds: sandbox.Bounds{Memory: 24 << 20}, free: "30000000\n", bound: "0\n",
	},
	"open files": {
		script: "export KEEPER_OPENS=1; exec $SELF", bounds: sandbox.Bounds{OpenFiles: 50}, free: "opened 100\n", bound: "opened 4",
	},
	"file size": {
		script: "exec 2>/dev/null; head -c 50000 /dev/zero >$DIR/file; wc -c <$DIR/file", bounds: sandbox.Bounds{FileSize: 10000}, free: "50000\n", bound: "10000\n",
	},
	"file size of the program": {
		script: "exec head -c 50000 /dev/zero >$DIR/file", bounds: sandbox.Bounds{FileSize: 10000}, signal: syscall.SIGXFSZ,
	},
	"its own bounds": {
		script: "ulimit -Sv; ulimit -Hv; ulimit -Sn; ulimit -Hn; ulimit -St; ulimit -Ht",
		bounds: sandbox.Bounds{Memory: 24 << 20, OpenFiles: 50, CPU: 7}, bound: "24576\n24576\n50\n50\n7\n8\n",
	},
}

// What cannot be started says so, also when nothing can be allocated any more.
func TestBoundedNothing(t *testing.T) {
	t.Parallel()
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	path := filepath.Join(t.TempDir(), "broken")
	must(t, os.WriteFile(path, []byte("no program"), 0o700))
	_, said, err := script(t.Context(), pool, "", func(c *keeper.Command) {
		c.Path, c.Argv, c.Bounds = path, []string{path}, sandbox.Bounds{Memory: 16 << 20}
	})
	if err == nil || err.Error() != fmt.Sprintf("start %q: exec format error", path) || said != "" {
		t.Errorf("%q, %v", said, err)
	}
}

// An execution by descriptor stays one with bounds.
func TestBoundedByDescriptor(t *testing.T) {
	t.Parallel()
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	path := filepath.Join(t.TempDir(), "script")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\nulimit -n; echo genuine $1\n"), 0o700))
	program, err := os.Open(path)
	must(t, err)
	defer program.Close()
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, []byte("#!/bin/sh\necho swapped\n"), 0o700))
	_, said, err := script(t.Context(), pool, "", func(c *keeper.Command) {
		c.Path, c.Program, c.Argv, c.Bounds = path, program, []string{path, "arg"}, sandbox.Bounds{OpenFiles: 33}
	})
	if err != nil || said != "33\ngenuine arg\n" {
		t.Errorf("%q, %v", said, err)
	}
}
