// Package pause waits for a span of time that a context may end. Rule of thumb: wait for an event where there is one.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns the cause of ctx when ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
