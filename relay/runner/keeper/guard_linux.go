package keeper

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/sandbox"
)

// guardName is the first argument vector element of a guard.
const guardName = "drawbridge-guard"

// Descriptors of a guard: the relay's socket, which it hands to its keeper, and a pipe that ends with the relay. A keeper has the
// socket and a pipe that ends with its guard, at the same numbers.
const (
	guardSocket = 3
	guardPipe   = 4
)

// guard stands between a relay and one keeper. A program without a sandbox may end processes of its own user, so it can end two of
// the three at one stroke: relay, guard and keeper. The third ends the program then. Like a keeper it waits in the kernel only.
type guard struct {
	keeper int
}

// watch returns when the relay or the keeper is gone, and with them everything that they had started here.
func (g *guard) watch() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	secure()
	socket, pipe := os.NewFile(guardSocket, "relay"), os.NewFile(guardPipe, "pipe")
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	cmd := &exec.Cmd{
		Path: sandbox.Self, Args: []string{keeperName, strconv.Itoa(os.Getpid())}, Dir: "/", Env: os.Environ(), ExtraFiles: []*os.File{socket, theirs},
	}
	// It is in the guard's own session and group, so that one signal reaches both.
	if err := cmd.Start(); err != nil {
		return err
	}
	g.keeper = cmd.Process.Pid
	// With our end open the keeper would not see the relay go.
	_, _ = socket.Close(), theirs.Close()
	g.await(pipe)
	endTree(func() []proc { return descendants(os.Getpid()) }, g.reap)
	return nil
}

// await waits for the end of the relay or of the keeper.
func (g *guard) await(pipe *os.File) {
	over, err := unix.PidfdOpen(g.keeper, 0)
	if err != nil {
		over = -1
	}
	// Where the kernel has no descriptor of a process (before 5.3), it is looked at twice a second.
	for {
		watched := []unix.PollFd{{Fd: int32(pipe.Fd()), Events: unix.POLLIN}, {Fd: int32(over), Events: unix.POLLIN}}
		wait := time.Hour
		if over < 0 {
			wait = 500 * time.Millisecond
		}
		poll(watched, wait)
		if watched[0].Revents != 0 || watched[1].Revents != 0 || g.reap() {
			return
		}
	}
}

// reap collects what has ended, and reports whether nothing is left.
func (*guard) reap() (none bool) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		}
	}
}
