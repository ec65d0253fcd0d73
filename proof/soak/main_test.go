//go:build deep

package soak_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"drawbridge/proof/gobuild"
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
	pg.Durable = true
	syscall.Umask(0o077) // the relay refuses to run where others may write
	flag.Parse()
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
	if err := gobuild.Into(dir, "failpoint", "drawbridge/cmd/drawbridge", "drawbridge/cmd/drawbridge-relay", "drawbridge/proof/acpagent/program"); err != nil {
		fmt.Println(err)
		return 1
	}
	code := pg.Main(m)
	totals.print()
	return code
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
