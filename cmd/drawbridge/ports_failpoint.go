//go:build failpoint

package main

import (
	"drawbridge/bridge/engine"
	"drawbridge/proof/failport"
)

// markPorts puts fail points around the ports that o has. A build with this file
// is never released.
func markPorts(o engine.Options) engine.Options {
	o.Store = failport.Store(o.Store)
	if o.Runtime != nil {
		o.Runtime = failport.Runtime(o.Runtime)
	}
	if o.Actions != nil {
		o.Actions = failport.Actions(o.Actions)
	}
	return o
}
