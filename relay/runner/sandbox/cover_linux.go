package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// coverProbe covers a file that every machine has, to see whether that is allowed here.
var coverProbe = Plan{Hide: []string{"/dev/zero"}, Hiding: viaNamespace}

// cover puts /dev/null in the place of each socket that the plan hides. Only this process and what comes of it see that: the
// mounts are its own. Landlock before version 9 does not look at who connects to a socket, so the socket has to be out of sight.
func (p Plan) cover() error {
	if !p.covers() {
		return nil
	}
	// Rights belong to a thread, and this one becomes the program.
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("take mounts of its own: %w", err)
	}
	for _, path := range p.Hide {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %q: %w", path, err)
		}
	}
	return dropRights()
}

// dropRights gives up what a plain user's stage had in its namespace: with it the program could take the cover away.
func dropRights() error {
	if os.Geteuid() == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop rights: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return fmt.Errorf("drop rights: %w", err)
	}
	return nil
}

// blindCaps are the capabilities with which the kernel lets root read the memory of any process, Landlock or not (mm_access since Linux 6.15).
var blindCaps = []uintptr{unix.CAP_PERFMON, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE}

// blind gives those capabilities up, for this thread and for what it becomes. Rights belong to a thread, and this one becomes the program.
func (p Plan) blind() error {
	if !p.Blind || os.Geteuid() != 0 {
		return nil
	}
	runtime.LockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return fmt.Errorf("read rights: %w", err)
	}
	for _, c := range blindCaps {
		set, bit := &sets[c/32], uint32(1)<<(c%32)
		if set.Permitted&bit == 0 {
			continue
		}
		// Root gets back at its next exec what is in the bounding set.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("drop rights: %w", err)
		}
		set.Permitted, set.Effective, set.Inheritable = set.Permitted&^bit, set.Effective&^bit, set.Inheritable&^bit
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop rights: %w", err)
	}
	if err := unix.Capset(&head, &sets[0]); err != nil {
		return fmt.Errorf("drop rights: %w", err)
	}
	return nil
}
