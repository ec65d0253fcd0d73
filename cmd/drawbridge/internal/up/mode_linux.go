package up

import "golang.org/x/sys/unix"

// Requests for the mode of a terminal, and the key that is none.
const (
	getMode = unix.TCGETS
	setMode = unix.TCSETS
	noKey   = 0
)
