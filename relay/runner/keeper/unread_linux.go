package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// Unread returns how many bytes of an input, as [Input] makes it, no process has read. The answer is final once the program and everything that
// inherited its input have ended. The system keeps the bytes until input is closed.
func Unread(input *os.File) (n int, err error) {
	raw, err := input.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if controlErr != nil {
		return 0, controlErr
	}
	return n, err
}
