package mcpstdio

// EachMessage is eachMessage for tests, which need no bridge for it.
var EachMessage = eachMessage
