package runner

import (
	"math"

	"golang.org/x/sys/unix"
)

// closeInherited marks whatever files the relay's own parent left open, so that no action inherits one. A kernel older
// than 5.11 refuses; then only what the parent left open on purpose is passed on.
func closeInherited() {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}

// hideMemory keeps the relay's memory, with its token, from debuggers of other programs of the same user, an action among
// them. It cannot fail on any kernel that runs this.
func hideMemory() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
