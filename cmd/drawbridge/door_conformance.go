//go:build conformance

package main

import (
	"drawbridge/mcpserver"
	"drawbridge/proof/mcp"
)

// extendDoor puts on the door what the official conformance suite calls. A build
// with this file is never released.
func extendDoor(o mcpserver.Options) mcpserver.Options {
	o.Extend = mcp.Extend
	return o
}
