package cloudagents

import (
	"context"
	"math/rand/v2"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// The reconnect policy of the vendor's own client (facts: Cloud Agents API, 5).
const (
	followAttempts = 6
	followDelay    = time.Second
	maxFollowDelay = 30 * time.Second
)

// Follow implements bridge.Follower: it waits at the run's stream until the
// stream says that the run is over, and returns nil then. Its word is a hint;
// Observe decides. A stream that breaks is taken up again behind the last event,
// six times in a row at most; v0 has no streams and is Invalid at once.
func (c *Client) Follow(ctx context.Context, r bridge.RunRef) error {
	last, failed := "", 0
	for {
		before := last
		err := c.Stream(ctx, r, last, func(e Event) error {
			if e.ID != "" {
				last = e.ID
			}
			return nil
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if last != before {
			failed = 0 // it went on before it broke
		}
		switch bridge.KindOf(err) {
		case bridge.Unavailable, bridge.RateLimited:
		case bridge.Invalid:
			if before == "" {
				return err // not because of the event id
			}
			last = "" // an id that this run does not know: from the top
		default:
			return err
		}
		if failed++; failed > followAttempts {
			return err
		}
		if err := pause.For(ctx, max(followWait(failed), bridge.RetryAfter(err))); err != nil {
			return err
		}
	}
}

// followWait doubles from a second to half a minute, with jitter.
func followWait(failed int) time.Duration {
	d := min(followDelay<<(failed-1), maxFollowDelay)
	return d/2 + rand.N(d/2)
}
