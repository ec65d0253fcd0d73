//go:build conformance

package main

import (
	"drawbridge/internal/conformance"
	"drawbridge/mcpserver"
)

// extendDoor puts on the door what the official conformance suite calls. A build
// with this file is never released.
func extendDoor(o mcpserver.Options) mcpserver.Options {
	o.Extend = conformance.Extend
	return o
}
