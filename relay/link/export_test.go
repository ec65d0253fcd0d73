package link

import "time"

// MaxInFlight is how many requests wait or run at a time.
const MaxInFlight = maxInFlight

// Save writes an identity.
func Save(path string, i Identity) error { return save(path, i) }

// Patient gives every try an hour, for tests whose bridge expects one try on a busy machine. Call it before Run.
func (l *Link) Patient() { l.handshake = time.Hour }
