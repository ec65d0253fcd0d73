package keeper

import (
	"fmt"
	"os"
	"syscall"
)

// Input returns a pipe to a program's standard input. The program's end goes into Stdin of a [Command]. A write to ours honors
// the deadlines of [os.File], so that a program that does not read cannot hold the writer; it fails when the program is gone.
// Neither end is inherited by a process that is started meanwhile.
func Input() (program, ours *os.File, err error) {
	var ends [2]int
	syscall.ForkLock.RLock()
	err = syscall.Pipe(ends[:])
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	// The program's end stays blocking, as programs expect it; only a descriptor that does not block has deadlines.
	if err := syscall.SetNonblock(ends[1], true); err != nil {
		_, _ = syscall.Close(ends[0]), syscall.Close(ends[1])
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "stdin"), os.NewFile(uintptr(ends[1]), "input"), nil
}

// closeStdin closes our copy of the program's end, so that the writer learns when the program is gone.
func (c *Command) closeStdin() {
	if c.Stdin != nil {
		_ = c.Stdin.Close()
	}
}
