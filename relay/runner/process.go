package runner

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// killAfter is how long a process group has between SIGTERM and SIGKILL, and how long its output may stay open after
// its end (facts: relay, rule 4).
const killAfter = 2 * time.Second

// defaultPath is the PATH of an action that sets none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// ended is how a process came to its end.
type ended struct {
	// code is the exit code, wire.NoExitCode when there is none.
	code   int
	signal syscall.Signal
	// cut is true when the relay ended the process, because ctx was done.
	cut bool
}

// execute runs an action to its end and writes its output to out and errs, which it does not use after it returns.
// When ctx is done it ends the whole process group. Nothing of the group is left when it returns, unless a process
// moved itself into another group. An error means that nothing ran.
func execute(ctx context.Context, a settings.Action, out, errs *output.Tail) (ended, error) {
	// The kernel delivers the parent-death signal when the thread that forked ends, not the process, so that thread has to
	// live and to stay ours for as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Cmd{
		Path: a.Argv[0], Args: a.Argv, Dir: a.Dir, Env: environment(a.Env),
		Stdout: out, Stderr: errs,
		SysProcAttr: processAttributes(),
		WaitDelay:   killAfter,
	}
	if err := cmd.Start(); err != nil {
		return ended{}, fmt.Errorf("start %q: %w", a.Argv[0], pathless(err))
	}
	leader := cmd.Process.Pid
	cut := superviseGroup(ctx, leader)
	// The leader is over but not reaped, so its id cannot mean another group yet.
	signalGroup(leader, syscall.SIGKILL)
	// The error repeats what the state says, or tells of an output that stayed open; neither changes the outcome.
	_ = cmd.Wait()
	return endOf(&cmd, cut), nil
}

// superviseGroup returns when the leader of the group has ended, and reports whether it had to be ended.
func superviseGroup(ctx context.Context, leader int) (cut bool) {
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
	signalGroup(leader, syscall.SIGTERM)
	grace := time.NewTimer(killAfter)
	defer grace.Stop()
	select {
	case <-over:
		return true
	case <-grace.C:
	}
	signalGroup(leader, syscall.SIGKILL)
	<-over
	return true
}

// signalGroup ignores errors: the only likely one says that the group is gone, which is what was wanted.
func signalGroup(leader int, signal syscall.Signal) {
	_ = syscall.Kill(-leader, signal)
}

func endOf(cmd *exec.Cmd, cut bool) ended {
	e := ended{code: cmd.ProcessState.ExitCode(), cut: cut}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	return e
}

// environment starts from nothing: a nil slice would hand the relay's own environment, token and all, to the child.
func environment(pairs []settings.EnvVar) []string {
	env := make([]string, 0, len(pairs)+1)
	hasPath := false
	for _, pair := range pairs {
		env = append(env, pair.Name+"="+pair.Value)
		hasPath = hasPath || pair.Name == "PATH"
	}
	if !hasPath {
		env = append(env, "PATH="+defaultPath)
	}
	return env
}

// pathless strips "fork/exec /path: " from a start error, which names the path again.
func pathless(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
