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
