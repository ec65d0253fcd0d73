package bridge_test

import (
	"testing"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// A granted action never stands there without a reason, also while it waits behind another that its relay has in hand.
func TestShownReason(t *testing.T) {
	t.Parallel()
	action, remind := parser.Command{Verb: parser.LocalAction}, parser.Command{Verb: parser.Remind}
	for _, tt := range []struct {
		m    bridge.Command
		want string
	}{
		{bridge.Command{Parsed: action, State: bridge.CommandGranted, Relay: "laptop"}, "waiting for relay laptop"},
		{bridge.Command{Parsed: action, State: bridge.CommandGranted}, "waiting for its relay"},
		{bridge.Command{Parsed: action, State: bridge.CommandGranted, Reason: "why"}, "why"},
		{bridge.Command{Parsed: action, State: bridge.CommandFinished, Relay: "laptop"}, ""},
		{bridge.Command{Parsed: remind, State: bridge.CommandGranted}, ""},
	} {
		if got := tt.m.Shown(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.m, got, tt.want)
		}
	}
}
