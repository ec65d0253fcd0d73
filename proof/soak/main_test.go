package soak_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drawbridge/proof/pg"
)

var (
	long    = flag.Duration("soak.time", 0, "the long form: how long to go on; 0 is the short form")
	seed    = flag.Int64("soak.seed", 1, "the first seed of what is random")
	rounds  = flag.Int("soak.rounds", 0, "how many seeds each random proof plays; 0 is by the time")
	only    = flag.String("soak.only", "", "TestPoints: kill at this alone, such as sqlite/bridge0/store.commit.after#17")
	workers = flag.Int("soak.workers", 6, "how many stories are played side by side")
)

// programs is the folder of the binaries under test, built with the tag failpoint.
var programs string

func TestMain(m *testing.M) {
	syscall.Umask(0o077) // the relay refuses to run where others may write
	flag.Parse()
	if testing.Short() {
		fmt.Println("SKIPPED: the proofs that kill programs take minutes; run them without -short")
		os.Exit(0)
	}
	if n := flag.Lookup("test.parallel"); n.Value.String() == n.DefValue {
		_ = n.Value.Set(strconv.Itoa(*workers)) // most of a story's time is waiting
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "drawbridge-soak-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	if err := lookAtSources(); err != nil {
		panic(err)
	}
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", dir+string(filepath.Separator), "drawbridge/cmd/drawbridge", "drawbridge/cmd/drawbridge-relay", "drawbridge/proof/acpagent/program")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("build the programs: %v\n%s", err, out)
		return 1
	}
	code := pg.Main(m)
	totals.print()
	return code
}

// lookAtSources makes every source an input of this test, so that its result is not taken from the cache after a change of
// the programs, which it does not import.
func lookAtSources() error {
	return filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another test's, gone already
		}
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".git") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			_, _ = os.Stat(path)
		}
		return err
	})
}

// tally counts what the proofs did and found; it is printed at the end.
type tally struct {
	mu    sync.Mutex // guards count
	count map[string]int
}

var totals = tally{count: map[string]int{}}

func (c *tally) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[what] += n
}

func (c *tally) print() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.count)) {
		fmt.Printf("soak: %6d %s\n", c.count[what], what)
	}
}

// until polls ask until it says yes; every wait ends with the event that it waits for.
func until(t testing.TB, patience time.Duration, ask func() (yes bool, seen string)) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, seen := ask()
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited without success; last seen: %s", seen)
		}
	}
}
