package hosted

// MaxWaits and MaxEnds are how many turns a process waits for, and how many ends it keeps.
const MaxWaits, MaxEnds = maxWaits, maxEnds

// Waits returns how many turns the process waits for or keeps the ends of.
func (r *Runtime) Waits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waits)
}
