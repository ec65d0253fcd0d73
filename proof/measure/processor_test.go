//go:build deep

package measure_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what this process has used of the processors. Unlike the time that passed it does not grow with what else runs
// on the machine.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of the times in /proc/PID/stat: USER_HZ is 100 on every Linux (proc(5)).
const tick = 10 * time.Millisecond

// childrenTime is what the processes below this one have used, PostgreSQL's among them: those that run, and those that ended and
// whose parent runs. It is 0 where there is no /proc, and where the server is not ours.
func childrenTime(t testing.TB) time.Duration {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent, used := map[int]int{}, map[int]time.Duration{}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var pid int
		_, _ = fmt.Sscan(string(text), &pid)
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		parent[pid], _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:15] { // utime, stime, cutime, cstime
			n, _ := strconv.Atoi(field)
			used[pid] += time.Duration(n) * tick
		}
	}
	var sum time.Duration
	for pid := range parent {
		for up := parent[pid]; up != 0; up = parent[up] {
			if up == os.Getpid() {
				sum += used[pid]
				break
			}
		}
	}
	return sum
}
