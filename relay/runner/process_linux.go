package runner

import (
	"errors"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes gives the child a group of its own and lets it die with the relay, however the relay dies.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns when the child has ended, and leaves it to be reaped.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// closeInherited marks whatever files the relay's own parent left open, so that no action inherits one. A kernel older
// than 5.11 refuses; then only what the parent left open on purpose is passed on.
func closeInherited() {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}
