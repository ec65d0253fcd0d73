//go:build deep

package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// A fork bomb is bounded and gone soon after, with nothing left. How many processes it gets to before the keeper is through
// depends on who else wants the processors; a bomb that nobody holds passes the bound here within a second or two. Not
// parallel: everything else would have to wait.
func TestForkBomb(t *testing.T) {
	for _, cgroups := range []bool{false, true} {
		pool, err := keeper.NewPool(cgroups)
		must(t, err)
		fuse := filepath.Join(t.TempDir(), "fuse")
		must(t, os.WriteFile(fuse, nil, 0o600))
		// A plain user's bomb is held by the kernel and goes on being small until its fuse is gone.
		fuseTime := 2 * time.Minute
		if os.Geteuid() != 0 {
			fuseTime = time.Second
		}
		pulled := time.AfterFunc(fuseTime, func() { _ = os.Remove(fuse) })
		began := time.Now()
		end, said, err := script(t.Context(), pool, bomb, marked("bomb-"+fuse), func(c *keeper.Command) { c.Env = append(c.Env, "FUSE="+fuse) })
		took := time.Since(began)
		// How far it grows before that depends on the machine's load.
		if ours := pulled.Stop(); os.Geteuid() == 0 && !(ours && end.Overgrown) {
			t.Errorf("%s: %+v; ended before its fuse was pulled: %v", pool, end, ours)
		}
		if err != nil || end.Left != 0 || !strings.HasPrefix(said, "begun\n") {
			t.Errorf("%s: %+v, %.200q, %v", pool, end, said, err)
		}
		if found := left("bomb-" + fuse); len(found) > 0 {
			t.Errorf("%s: %d left behind", pool, len(found))
		}
		t.Logf("%s: a bomb grew to %d processes and was gone after %s", pool, end.Most, took.Round(time.Millisecond))
		pool.Close()
	}
}

// A bomb that ends its keeper first is left to the relay, which has to win the same race.
func TestForkBombWithoutKeeper(t *testing.T) {
	for _, cgroups := range []bool{false, true} {
		pool, err := keeper.NewPool(cgroups)
		must(t, err)
		fuse := filepath.Join(t.TempDir(), "fuse")
		must(t, os.WriteFile(fuse, nil, 0o600))
		pulled := time.AfterFunc(30*time.Second, func() { _ = os.Remove(fuse) })
		began := time.Now()
		end, said, err := script(t.Context(), pool, "kill -9 $PPID; "+bomb, marked("bomb-"+fuse), func(c *keeper.Command) { c.Env = append(c.Env, "FUSE="+fuse) })
		took := time.Since(began)
		pulled.Stop()
		if !errors.Is(err, keeper.ErrLost) {
			t.Errorf("%s: %+v, %.200q, %v", pool, end, said, err)
		}
		if found := left("bomb-" + fuse); len(found) > 0 {
			t.Errorf("%s: %d left behind", pool, len(found))
		}
		t.Logf("%s: gone after %s", pool, took.Round(time.Millisecond))
		pool.Close()
	}
}

// A program of the same user can end or stop its own keeper. In the first case the relay ends what comes to it, in the second
// it wakes the keeper.
func TestKeeperIsAttacked(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"KILL", "STOP"} {
		pools(t, func(t *testing.T, pool *keeper.Pool) {
			mark := fmt.Sprintf("attack-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
			text := "setsid sleep 300 & (setsid sleep 300 &); kill -" + signal + " $PPID; echo begun; sleep 300"
			end, said, err := endWhenBegun(t, pool, text, mark)
			if signal == "KILL" && !errors.Is(err, keeper.ErrLost) || signal == "STOP" && (err != nil || !end.Cut) {
				t.Errorf("SIG%s: %+v, %q, %v", signal, end, said, err)
			}
			if found := left(mark); len(found) > 0 {
				t.Errorf("SIG%s: left behind: %v", signal, found)
			}
			if end, _, err := script(t.Context(), pool, "exit 3"); err != nil || end.Code != 3 {
				t.Errorf("the next one: %+v, %v", end, err)
			}
		})
	}
}

// A keeper that was killed while it rested has begun nothing: another one takes its place.
func TestKeeperIsKilledWhileItRests(t *testing.T) {
	t.Parallel()
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		_, said, err := script(t.Context(), pool, "echo $PPID")
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(said))
		must(t, err)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		eventually(t, func() bool {
			// Its files are closed with its last thread.
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return len(threads) == 0 || len(threads) == 1 && strings.Contains(string(stat), ") Z ")
		})
		end, said, err := script(t.Context(), pool, "echo here")
		if err != nil || end.Code != 0 || said != "here\n" {
			t.Errorf("%+v, %q, %v", end, said, err)
		}
	})
}

// A relay that is killed leaves nothing behind, whatever its actions have started. What it leaves for a moment counts as orphans.
func TestRelayIsKilled(t *testing.T) {
	t.Parallel()
	killRelay(t, "1")
	for range 10 { // a slow machine may see nothing of that moment
		if killRelay(t, "") > 0 {
			return
		}
	}
	t.Error("nothing ever counted as an orphan")
}

// A program without a sandbox ends the relay and its keeper at one stroke, in either order, or its keeper's guard. Nothing of it lives on.
func TestRelayAndKeeperAreKilledTogether(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	const guard = "$(awk '{ print $4 }' /proc/$PPID/stat)"
	for name, kill := range map[string]string{
		"keeper, relay": "kill -9 $PPID @RELAY", "relay, keeper": "kill -9 @RELAY $PPID", "guard": "kill -9 " + guard, "guard, keeper": "kill -9 " + guard + " $PPID",
		"the group of the keeper": "kill -9 -" + guard, "guard, relay": "kill -9 " + guard + " @RELAY", "relay, guard": "kill -9 @RELAY " + guard,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := fmt.Sprintf("together-%d-%s", os.Getpid(), strings.ReplaceAll(name, " ", "-"))
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = []string{"KEEPER_RELAY=export PATH=/usr/bin:/bin MARK=" + mark +
				"; (setsid sh -c \"trap '' TERM HUP; echo ready; sleep 25\" &); sleep 0.2; " + kill + "; sleep 300"}
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			began := time.Now()
			_, _ = io.Copy(io.Discard, out) // up to the end of the relay's own output, which is its end
			_ = cmd.Wait()
			eventually(t, func() bool { return len(left(mark)) == 0 })
			t.Logf("gone %s after the start", time.Since(began).Round(time.Millisecond))
		})
	}
}

// What a program does to outlive its end or its time: other group, other session, no parent, deaf to signals, output held.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	escapes := map[string]string{
		"background":      "sleep 300 & echo begun",
		"setsid":          "setsid sleep 300 & echo begun",
		"daemon":          "(setsid sh -c 'trap \"\" TERM HUP INT; (sleep 300 &) ; sleep 300' &) ; echo begun",
		"deaf":            "trap '' TERM HUP INT; (trap '' TERM; sleep 300) & echo begun; sleep 300",
		"holds the pipe":  "setsid sh -c 'exec 3>&1; while :; do sleep 1; done' & echo begun; exit 0",
		"stopped":         "sh -c 'kill -STOP $$' & until grep -q '^State:.T' /proc/$!/status; do sleep 0.01; done; echo begun; sleep 300",
		"forks all along": "n=0; while [ $n -lt 100 ]; do setsid sleep 300 & n=$((n+1)); [ $n = 10 ] && echo begun; sleep 0.01; done; sleep 300",
	}
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		for name, text := range escapes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				mark := fmt.Sprintf("escape-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
				end, said, err := endWhenBegun(t, pool, text, mark)
				if err != nil || !strings.HasPrefix(said, begun) || end.Left != 0 {
					t.Errorf("%+v, %q, %v", end, said, err)
				}
				if found := left(mark); len(found) > 0 {
					t.Errorf("left behind: %v", found)
				}
			})
		}
	})
}

// A job is ended without harm to the one beside it.
func TestJobsAreApart(t *testing.T) {
	t.Parallel()
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan string, 1)
		go func() {
			_, said, err := script(t.Context(), pool, "setsid sleep 1 & wait; echo whole")
			first <- fmt.Sprint(said, err)
		}()
		go cancel()
		_, _, _ = script(ctx, pool, "(setsid sleep 300 &); sleep 300")
		if got := <-first; got != "whole\n<nil>" {
			t.Errorf("the other job: %q", got)
		}
	})
}

// Not parallel, so that the memory is this test's own. Ten gigabytes take a while; this is what fits into the limit.
func TestOutputFlood(t *testing.T) {
	pool, err := keeper.NewPool(true)
	must(t, err)
	defer pool.Close()
	var count counter
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	end, err := pool.Run(ctx, keeper.Command{
		Path: "/usr/bin/head", Argv: []string{"head", "-c", "10000000000", "/dev/zero"}, Dir: "/", Stdout: &count, Stderr: &count,
	})
	if err != nil || !end.Cut && count < 1e10 {
		t.Errorf("%+v, %v after %d bytes", end, err, count)
	}
	t.Logf("%d MB in %s, %s resident", count/1e6, time.Since(began).Round(time.Millisecond), resident(t))
}

// A program that computes without end is told after its second, and whoever started it goes on. This one has an end: a hundred seconds
// or so.
func TestProcessorTimeIsBounded(t *testing.T) {
	t.Parallel()
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	const spin = "exec 2>/dev/null; sh -c 'i=0; while [ $i -lt 300000000 ]; do i=$((i+1)); done'; echo $?"
	end, said, err := script(t.Context(), pool, spin, func(c *keeper.Command) { c.Bounds = sandbox.Bounds{CPU: 1} })
	if want := fmt.Sprintln(128 + int(syscall.SIGXCPU)); err != nil || end.Code != 0 || said != want {
		t.Errorf("%+v, %q, %v", end, said, err)
	}
}

// What a program may use is bounded for it and for what it starts, with a sandbox and without, and for nobody else.
func TestBounds(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	plan := sandbox.Probe(t.Context(), nil).Plan(sandbox.Wish{Read: []string{filepath.Dir(self)}, Network: true})
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	for name, g := range greedy {
		for _, box := range []*sandbox.Plan{nil, &plan} {
			dir := t.TempDir()
			with := func(c *keeper.Command) {
				c.Env = append(c.Env, "SELF="+self, "DIR="+dir)
				if c.Sandbox = box; box != nil {
					within := *box
					within.Write = []string{dir}
					c.Sandbox = &within
				}
			}
			if g.free != "" {
				if _, said, err := script(t.Context(), pool, g.script, with); err != nil || said != g.free {
					t.Errorf("%s, not bounded: %q, %v", name, said, err)
				}
			}
			end, said, err := script(t.Context(), pool, g.script, with, func(c *keeper.Command) { c.Bounds = g.bounds })
			if err != nil || end.Signal != g.signal || !strings.HasPrefix(said, g.bound) {
				t.Errorf("%s, sandbox %t: %+v, %q, %v", name, box != nil, end, said, err)
			}
		}
	}
	if _, said, err := script(t.Context(), pool, "ulimit -v; grep NoNewPrivs /proc/self/status"); err != nil || said != "unlimited\nNoNewPrivs:\t0\n" {
		t.Errorf("the next program: %q, %v", said, err)
	}
}

// A program that does not read holds no writer: the deadline ends the write, and so does the program's end.
func TestInputThatNobodyReads(t *testing.T) {
	t.Parallel()
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		theirs, ours, err := keeper.Input()
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := pool.Run(ctx, keeper.Command{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Dir: "/", Stdin: theirs, Stdout: &safe{}, Stderr: &safe{}})
			over <- err
		}()
		must(t, ours.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		if _, err := ours.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write to a program that does not read: %v", err)
		}
		cancel()
		must(t, <-over)
		must(t, ours.SetWriteDeadline(time.Time{}))
		if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a program that has ended: %v", err)
		}
		must(t, ours.Close())
	})
}

// TestSlowRelayLosesNoOutput: what a program wrote before its end is taken, although the relay came to it after its patience.
func TestSlowRelayLosesNoOutput(t *testing.T) {
	t.Parallel()
	rest := strings.Repeat("r", 60_000)
	if got, err := keeper.SlowOutput("first ", rest); err != nil || got != "first "+rest {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
