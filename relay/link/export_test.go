package link

// MaxInFlight is how many requests wait or run at a time.
const MaxInFlight = maxInFlight

// Save writes an identity.
func Save(path string, i Identity) error { return save(path, i) }
