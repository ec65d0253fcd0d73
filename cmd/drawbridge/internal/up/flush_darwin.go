package up

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops what was typed at a terminal and not read.
func flush(f *os.File) {
	const read = 1 // FREAD
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = unix.IoctlSetPointerInt(int(fd), unix.TIOCFLUSH, read) })
	}
}
