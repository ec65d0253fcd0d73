package watch

import (
	"context"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// Ended reports whether a turn is over, or nobody can tell any more how it ends.
func Ended(t api.Turn) bool {
	return bridge.TurnState(t.State).Over() || t.State == string(bridge.TurnUncertain)
}

// Await waits for the end of a turn, and returns the turn as it was seen last. A bridge that is away is asked again, unless away returns an error.
func Await(ctx context.Context, client *api.Client, t api.Turn, away func() error) (api.Turn, error) {
	for {
		now, err := client.Turn(ctx, t.ID)
		switch {
		case err == nil && Ended(now):
			return now, nil
		case err == nil:
			t = now
		case !bridge.Passing(err):
			return t, err
		default:
			if err := away(); err != nil {
				return t, err
			}
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return t, err
		}
	}
}
