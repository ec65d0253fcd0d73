//go:build deep

package soak_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFailingDisk: from some moment on every write that makes a file longer fails (a limit on the size of files, which
// the system reports to SQLite as an I/O error). The bridge goes on and says no, is killed and started again, and when
// the disk is well everything that was acknowledged is there, and nothing else.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	w.raise()
	l := &launcher{w: w}
	l.must(5)
	limit := func(bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(w.bridges[0].cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(uint64(w.walSize()) + 600_000)
	refused := 0
	for range 200 {
		if l.launch(strings.Repeat("Look at the library. ", 500)) != nil {
			refused++
		}
	}
	if refused == 0 || len(l.acknowledged) == 5 {
		t.Fatalf("%d launches were refused, %d acknowledged: the limit was not met in the middle", refused, len(l.acknowledged))
	}
	totals.add("launches refused by a failing disk", refused)
	l.check(t)
	limit(unix.RLIM_INFINITY)
	l.must(5)
	l.check(t)
	limit(uint64(w.walSize()) + 50_000)
	for range 50 {
		_ = l.launch(strings.Repeat("Look at the library. ", 500))
	}
	w.bridges[0].kill()
	w.bridges[0].start()
	w.bridges[0].ready()
	l.check(t)
	l.must(5)
	everyOneLaunchedOnce(t, l)
}
