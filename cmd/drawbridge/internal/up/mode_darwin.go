package up

import "golang.org/x/sys/unix"

// Requests for the mode of a terminal.
const (
	getMode = unix.TIOCGETA
	setMode = unix.TIOCSETA
)
