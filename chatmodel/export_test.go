package chatmodel

import "time"

// Hasten makes the waits after faults short.
func (r *Runtime) Hasten() { r.firstWait = time.Millisecond }
