package runner

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes gives the child a group of its own. There is no parent-death signal here: an action outlives a relay
// that was killed with SIGKILL.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitEnd returns when the child has ended, and leaves it to be reaped. When the kernel cannot tell any more, because
// the child has ended already, it returns at once.
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

// closeInherited has nothing to do: the system offers no call for it that is safe in a running process.
func closeInherited() {}
