//go:build !conformance

package main

import "drawbridge/mcpserver"

// extendDoor returns o: the door offers its toolsets and nothing else.
func extendDoor(o mcpserver.Options) mcpserver.Options { return o }
