package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"reflect"
	"sync"
)

// Live is relay.yaml as a running relay follows it. The clones below repos:, and the permissions of agents, count as soon as they stand in the file.
// All else counts when the relay starts again. While such a change waits, no other change counts either: a permission may be meant for the agent as the
// file has it now. A Live is safe for concurrent use.
type Live struct {
	env     LookupEnv
	changed func(before, now Config)

	mu  sync.Mutex // guards the fields below
	now Config
	// judged is the digest of the text that needs a new start, "" while there is none.
	judged   string
	outdated bool
}

// Follow returns a Live that begins with a Config from [Load]. A Config that was read from no file stays as it is. It calls changed, unless that is nil,
// when another text counts; changed must not call the Live.
func Follow(c Config, env LookupEnv, changed func(before, now Config)) *Live {
	return &Live{env: env, changed: changed, now: c}
}

// Now returns the configuration that counts now. It reads the file.
func (l *Live) Now() Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l.now
}

// Outdated reports whether the file holds a change that does not count before the relay starts again, or cannot be read as relay.yaml any more. A file
// that is away has not changed: the relay goes on with what it knows. Outdated reads the file, and may be asked every few seconds.
func (l *Live) Outdated() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l.outdated
}

// look takes over what counts at once. The caller holds the mutex.
func (l *Live) look() {
	if l.now.SHA256 == "" {
		return
	}
	data, err := os.ReadFile(l.now.File)
	if err != nil {
		return
	}
	sum := sha256.Sum256(data)
	switch digest := hex.EncodeToString(sum[:]); digest {
	case l.now.SHA256:
		l.judged, l.outdated = "", false
		return
	case l.judged:
		return
	}
	next, err := Load(l.now.File, l.env)
	switch {
	case err != nil: // the next look may find what the file names
		l.judged, l.outdated = "", true
	case !reflect.DeepEqual(l.now.started(), next.started()):
		l.judged, l.outdated = next.SHA256, true
	default:
		before := l.now
		if l.now, l.judged, l.outdated = next, "", false; l.changed != nil {
			l.changed(before, next)
		}
	}
}

// started is the part of a configuration that counts when a relay starts.
func (c Config) started() Config {
	c.Repos, c.Warnings, c.SHA256 = nil, nil, ""
	c.Agents = maps.Clone(c.Agents)
	for name, a := range c.Agents {
		a.Permissions = Permissions{}
		c.Agents[name] = a
	}
	return c
}
