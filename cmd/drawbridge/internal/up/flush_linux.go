package up

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops what was typed at a terminal and not read.
func flush(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
	}
}
