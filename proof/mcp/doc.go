// Package mcp holds what the official MCP conformance suite calls at the
// door beside the door's own tools: a tool, a resource or a prompt for each thing
// that the protocol can say. Only a build with the tag conformance has any of it,
// and such a build is never released. It tests nothing itself;
// scripts/conformance.sh does. Rule of thumb: what a fixture answers is the
// suite's wish, how it gets there is the door's own way.
package mcp
