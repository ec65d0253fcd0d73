//go:build !conformance

package conformance

import "github.com/modelcontextprotocol/go-sdk/mcp"

// Extend is nil: the door offers its toolsets and nothing else.
var Extend func(*mcp.ServerOptions) func(*mcp.Server)
