package mcpserver

import (
	"sync"
	"time"
)

// known remembers for a moment whose tokens were shown, so that an agent that
// makes many calls is not looked up for each.
type known struct {
	mu      sync.Mutex // guards callers
	callers map[string]knownCaller
}

type knownCaller struct {
	caller caller
	until  time.Time
}

// The bounds of what is remembered. A token that another replica revoked may
// open the door for knownFor longer; one that is revoked here does not.
const (
	knownFor = time.Second
	maxKnown = 4096
)

func (k *known) get(hash string, now time.Time) (caller, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.callers[hash]
	return c.caller, ok && now.Before(c.until)
}

func (k *known) put(c caller, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.callers == nil || len(k.callers) >= maxKnown {
		k.callers = map[string]knownCaller{}
	}
	k.callers[c.token.Hash] = knownCaller{c, now.Add(knownFor)}
}

func (k *known) forget(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.callers, hash)
}
