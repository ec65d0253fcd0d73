package keeper

import "golang.org/x/sys/unix"

// Job and Word are the frames between a relay and its keeper.
type (
	Job  = job
	Word = word
)

// MaxFrame bounds a frame.
const MaxFrame = maxFrame

// Send and Receive carry frames.
var (
	Send    = send
	Receive = receive
)

// Census counts processes.
type Census struct{ census }

// Living returns how many live processes root has started.
func (c *Census) Living(root int) int { return c.living(root) }

// Kill ends a process.
func (p Proc) Kill() error { return unix.Kill(p.pid, unix.SIGKILL) }

// Proc is a process.
type Proc struct{ proc }

// Descendants returns what root has started.
func Descendants(root int) (list []Proc) {
	for _, p := range descendants(root) {
		list = append(list, Proc{p})
	}
	return list
}
