//go:build deep

package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drawbridge/relay/wire"
)

// A turn that is stopped leaves no process, and one that says nothing ends at silent_after. A tool that runs is not silence.
func TestHostedSilence(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "claude")
	entry := h.world.Driver.Host.Config.Agents["fake"]
	entry.SilentAfter = 10 * time.Second // a busy machine needs seconds to start the program
	h.world.Driver.Host.Config.Agents["fake"] = entry
	if end := h.run("t1", "do: start long", "do: sleep 11s", "do: say one"); end.Cause != wire.TurnAnswered {
		t.Errorf("a long tool: %+v", end)
	}
	if end := h.run("t2", "do: say half", "do: hang"); end.Cause != wire.TurnHung || !strings.Contains(end.Error, "silent_after") {
		t.Errorf("silence: %+v", end)
	}
	wantNothingLeft(t, h.world)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan wire.TurnEnded, 1)
	go func() {
		ended <- h.RunTurn(ctx, wire.Turn{ID: "t3", BodyHash: "t3", TurnAsk: wire.TurnAsk{Agent: "fake", Session: "ada", Marker: "[m]", Text: "[m]\ndo: start x\ndo: hang", Home: wire.Home{Name: "ada", Repo: "local/app"}}})
	}()
	h.begun(3)
	stop()
	if end := <-ended; end.Cause != wire.TurnStopped {
		t.Errorf("stopped: %+v", end)
	}
	wantNothingLeft(t, h.world)
}
