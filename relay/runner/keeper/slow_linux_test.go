package keeper_test

import (
	"strings"
	"testing"

	"drawbridge/relay/runner/keeper"
)

// TestSlowRelayLosesNoOutput: what a program wrote before its end is taken, although the relay came to it after its patience.
func TestSlowRelayLosesNoOutput(t *testing.T) {
	t.Parallel()
	rest := strings.Repeat("r", 60_000)
	if got, err := keeper.SlowOutput("first ", rest); err != nil || got != "first "+rest {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
