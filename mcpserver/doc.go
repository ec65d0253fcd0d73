// Package mcpserver is the second front door: agents that can call tools do
// here, over the Model Context Protocol, what others ask for by lines of text.
// It is no second gate: what has an effect goes through the engine's policy and
// ledger like any line, and every tool returns at once. It holds no state of an
// agent; who calls is bound to the connection by its token and never read from
// an argument. Rule of thumb: a tool is a schema, a check and one call of a
// service; what must not be lost is decided in the service.
package mcpserver
