// Package keeper runs one program to its end and leaves nothing of it behind.
//
// On Linux every program runs under a keeper: this same binary, started again, to which everything comes back that the
// program starts, however it detaches itself. The keeper counts, and ends the whole tree when the program is over, when its
// time is, when it grows too large, or when the relay itself is gone. Where cgroups may be used they do the same once more.
// Elsewhere the program's process group is what can be ended. The package knows no actions and no requests, and does not
// look at output. Rule of thumb: who starts a process here can say when the last of its descendants was gone.
package keeper

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"drawbridge/relay/runner/sandbox"
)

const (
	// killAfter is how long a tree has between SIGTERM and SIGKILL (facts: relay, rule 4: two seconds; a little less, so that
	// two seconds after its time is over it is gone).
	killAfter = 1800 * time.Millisecond
	// drainFor is how long output may stay open after everything that we know of has ended.
	drainFor = 500 * time.Millisecond
	// NoCode stands where a process has no exit code.
	NoCode = -1
)

// ErrLost means that the program ran and that nobody saw how it ended.
var ErrLost = errors.New("the process that supervised the action was ended, so its result is unknown")

// Command is what to run.
type Command struct {
	// Path is executed, or Program when it is not nil; the caller keeps Program and may close it when Run returned. Argv is
	// the whole argument vector.
	Path    string
	Program *os.File
	Argv    []string
	Dir     string
	// Env is the whole environment; nil is an empty one.
	Env []string
	// Stdin is what the program reads, as [Input] makes it; nil is an empty input. Run closes it in every case.
	Stdin *os.File
	// Stdout and Stderr get the output. They are not written to after Run returned.
	Stdout, Stderr io.Writer
	// Processes is how many processes the tree may be at a time, 0 for any number.
	Processes int
	// Look is how often the size of the tree is looked at, 10 ms unless set. The end of the program, and ours, are noticed at once in any
	// case, so that a program that lives long is looked at less often.
	Look time.Duration
	// Bounds hold for each process.
	Bounds sandbox.Bounds
	// Sandbox is nil for none.
	Sandbox *sandbox.Plan
}

// End is how a program came to its end.
type End struct {
	// Code is the exit code, NoCode when there is none.
	Code   int            `json:"code"`
	Signal syscall.Signal `json:"signal"`
	// Cut is true when it was ended because the context was done.
	Cut bool `json:"cut"`
	// Overgrown is true when it was ended because it had more processes than it may.
	Overgrown bool `json:"overgrown"`
	// Most is the largest number of processes that was seen, where that is known.
	Most int `json:"most"`
	// Left is how many processes could not be ended: those that wait in the kernel for a disk that does not answer.
	Left int `json:"left"`
}
