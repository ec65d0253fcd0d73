package keeper

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/sandbox"
)

// Bounds is true where a Pool honors Processes and Bounds of a Command.
const Bounds = false

// Pool runs programs, each in a process group of its own. There is no keeper here: a program that leaves its group outlives
// its action, and one that was started by a relay that is killed outlives the relay. Program, Processes and Bounds of a
// Command cannot be honored; the path is executed.
type Pool struct{}

// NewPool returns a Pool. The options are of use on Linux only.
func NewPool(bool) (*Pool, error) { return &Pool{}, nil }

// String says by what means trees are ended.
func (*Pool) String() string { return "process group" }

// Warm has nothing to do.
func (*Pool) Warm() error { return nil }

// Close ends nothing, because nothing stays.
func (*Pool) Close() {}

// Main does nothing: there are no keepers here.
func Main() { sandbox.Main() }

// Run runs a program to its end. An error means that nothing ran.
func (*Pool) Run(ctx context.Context, c Command) (End, error) {
	defer c.closeStdin()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Cmd{
		Path: c.Path, Args: c.Argv, Dir: c.Dir, Env: c.Env, Stdout: c.Stdout, Stderr: c.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, WaitDelay: drainFor,
	}
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if cmd.Env == nil {
		// A nil slice would hand down our own environment, token and all.
		cmd.Env = []string{}
	}
	if err := cmd.Start(); err != nil {
		return End{}, err
	}
	c.closeStdin()
	leader := cmd.Process.Pid
	cut := supervise(ctx, leader)
	// The leader is over but not reaped, so its id cannot mean another group yet.
	_ = syscall.Kill(-leader, syscall.SIGKILL)
	_ = cmd.Wait()
	end := End{Code: cmd.ProcessState.ExitCode(), Cut: cut}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.Signal = status.Signal()
	}
	return end, nil
}

// supervise returns when the leader of the group has ended, and reports whether it had to be ended.
func supervise(ctx context.Context, leader int) (cut bool) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		awaitEnd(leader)
	}()
	select {
	case <-over:
		return false
	case <-ctx.Done():
	}
	_ = syscall.Kill(-leader, syscall.SIGTERM)
	grace := time.NewTimer(killAfter)
	defer grace.Stop()
	select {
	case <-over:
		return true
	case <-grace.C:
	}
	_ = syscall.Kill(-leader, syscall.SIGKILL)
	<-over
	return true
}

// awaitEnd returns when the child has ended, and leaves it to be reaped.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	change := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD, Fflags: unix.NOTE_EXIT}
	for {
		_, err := unix.Kevent(queue, []unix.Kevent_t{change}, make([]unix.Kevent_t, 1), nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
