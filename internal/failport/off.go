//go:build !failpoint

package failport

import "drawbridge/bridge"

// Store returns s.
func Store(s bridge.Store) bridge.Store { return s }

// Runtime returns r.
func Runtime(r bridge.Runtime) bridge.Runtime { return r }

// Actions returns a.
func Actions(a bridge.ActionRunner) bridge.ActionRunner { return a }
