package keeper_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"drawbridge/relay/runner/keeper"
)

// A count finds what a program started, also behind a name that is made to mislead.
func TestCensus(t *testing.T) {
	t.Parallel()
	// Three sleeps and a shell below a shell; the name of one holds a parenthesis and digits.
	dir := t.TempDir()
	must(t, os.Symlink("/bin/sleep", dir+"/x) Z 1 1 ("))
	cmd := exec.Command("/bin/sh", "-c", `sh -c '"$1/x) Z 1 1 (" 1000 & sleep 1000 & echo begun; wait' sh "$1" & sleep 1000`, "sh", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		for _, p := range keeper.Descendants(cmd.Process.Pid) {
			_ = p.Kill()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	var c keeper.Census
	// The first shell may still be about to start its second child. From then on the number stays.
	eventually(t, func() bool { return c.Living(cmd.Process.Pid) == 4 })
	for range 50 {
		if n := c.Living(cmd.Process.Pid); n != 4 {
			t.Fatalf("%d processes below the shell, want 4", n)
		}
	}
	if n := c.Living(1 << 30); n != 0 {
		t.Errorf("%d processes below none", n)
	}
	if got, want := c.Living(os.Getpid()), 4; got < want {
		t.Errorf("%d processes below this one, want at least %d", got, want)
	}
}

// A count allocates nothing: a keeper that watches a program for days collects no garbage. Beside this test others start processes, so that
// a larger table is needed now and then.
func TestCensusAllocatesNothing(t *testing.T) {
	var c keeper.Census
	for range 10 {
		c.Living(os.Getpid())
	}
	if n := testing.AllocsPerRun(200, func() { c.Living(os.Getpid()) }); n >= 1 {
		t.Errorf("%.1f allocations for each count", n)
	}
}
