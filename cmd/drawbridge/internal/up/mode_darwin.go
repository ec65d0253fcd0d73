package up

import "golang.org/x/sys/unix"

// Requests for the mode of a terminal, and the key that is none.
const (
	getMode = unix.TIOCGETA
	setMode = unix.TIOCSETA
	noKey   = 0xff
)
