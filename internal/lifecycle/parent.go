package lifecycle

import (
	"context"
	"os"
	"syscall"
)

// ParentPipe names the variable that tells a child which file descriptor ends when its parent is gone; its value is 3.
const ParentPipe = "DRAWBRIDGE_PARENT_PIPE"

// UntilParentEnds ends the context when the program that started this process with [ParentPipe] is gone, whatever became of it. In any
// other process the context ends with ctx alone. Call it once: it owns descriptor 3.
func UntilParentEnds(ctx context.Context, getenv func(string) (string, bool)) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if fd, ok := getenv(ParentPipe); ok && fd == "3" {
		syscall.CloseOnExec(3) // no action of the relay's inherits it
		pipe := os.NewFile(3, "parent")
		go func() {
			_, _ = pipe.Read(make([]byte, 1)) // it never says anything; it ends
			stop()
		}()
	}
	return ctx, stop
}
