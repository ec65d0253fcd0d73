package keeper

import (
	"context"
	"time"
)

// orphanGrace is how long a program may take here to end after its input has ended.
const orphanGrace = 5 * time.Second

// AwaitOrphans waits for a time in which programs end whose relay has ended: nothing here ends them, and nothing says which they are. The
// error is the cause of ctx.
func AwaitOrphans(ctx context.Context) error {
	timer := time.NewTimer(orphanGrace)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
