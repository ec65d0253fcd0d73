package mcpserver

import (
	"net/http"
	"time"
)

// SetBeat says how often a call that is held says that it goes on.
func (d *Door) SetBeat(beat time.Duration) { d.beat = beat }

// SeedState is the word for an agent's state in inspect_agent.
var SeedState = seedState

// TellRefused is what Run does from time to time.
var TellRefused = (*Door).tellRefused

// Streams returns how a door admits requests.
func Streams() func(r *http.Request, token string) (func(), error) {
	l := &live{}
	return func(r *http.Request, token string) (func(), error) {
		_, done, err := l.enter(r, token)
		return done, err
	}
}

// EndRevoked is what Run does from time to time.
var EndRevoked = (*Door).endRevoked
