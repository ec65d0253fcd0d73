package demo

import (
	"context"
	"os"
	"syscall"
)

// parentPipe names the file descriptor whose end tells a child of the demo that
// the demo is gone.
const parentPipe = "DRAWBRIDGE_PARENT_PIPE"

// UntilParentEnds ends the context when the demo that started this process is
// gone, whatever became of it; in any other process it ends with ctx alone. Call
// it once: it owns descriptor 3.
func UntilParentEnds(ctx context.Context, getenv func(string) (string, bool)) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if fd, ok := getenv(parentPipe); ok && fd == "3" {
		syscall.CloseOnExec(3) // no action of the relay's inherits it
		pipe := os.NewFile(3, "parent")
		go func() {
			_, _ = pipe.Read(make([]byte, 1)) // it never says anything; it ends
			stop()
		}()
	}
	return ctx, stop
}
