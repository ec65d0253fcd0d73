package bridge

import (
	"errors"
	"time"
)

// Once is what a caller gives with a request that it may have to make again
// because it was cut off, so that doing it twice is doing it once. The zero Once
// promises nothing.
type Once struct {
	// Key is the caller's own word for this one request.
	Key string
	// Digest is made of all else that was asked for.
	Digest string
}

// Done is a request that an agent made under a key, and what came of it.
type Done struct {
	Agent AgentID
	Once
	// Result is the id of what was made: a message or a command.
	Result    string
	CreatedAt time.Time
}

// Earlier returns the result of the same request that an agent made before, ""
// when there is none. Conflict when it made another one under the key.
func (o Once) Earlier(tx *Scene, agent AgentID) (string, error) {
	if o.Key == "" {
		return "", nil
	}
	d, err := tx.FindDone(agent, o.Key)
	switch {
	case errors.Is(err, ErrNoRow):
		return "", nil
	case err != nil:
		return "", err
	case d.Digest != o.Digest:
		return "", Errorf(Conflict, "you already used the idempotency_key %+.80q with other arguments, and that call made %s; for a different call, choose another key", o.Key, d.Result)
	}
	return d.Result, nil
}

// Keep remembers what a request made, in the transaction that makes it.
func (o Once) Keep(tx *Scene, agent AgentID, result string, now time.Time) error {
	if o.Key == "" {
		return nil
	}
	return tx.InsertDone(Done{Agent: agent, Once: o, Result: result, CreatedAt: now})
}
