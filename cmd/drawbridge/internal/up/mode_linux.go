package up

import "golang.org/x/sys/unix"

// Requests for the mode of a terminal.
const (
	getMode = unix.TCGETS
	setMode = unix.TCSETS
)
