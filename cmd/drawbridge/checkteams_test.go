package main

import (
	"testing"

	"drawbridge/mcpserver"
	"drawbridge/relay/runner/settings"
)

// The relay compares an agent's tool_cap with what the bridge offers at most, without asking a bridge.
func TestToolsOfTheBridge(t *testing.T) {
	t.Parallel()
	if settings.BridgeTools != mcpserver.MaxTools {
		t.Errorf("the relay takes the bridge to offer %d tools at most, and it offers %d", settings.BridgeTools, mcpserver.MaxTools)
	}
}
