package engine_test

import (
	"slices"
	"strings"
	"testing"

	"drawbridge/bridge"
)

// The end of a run names the turns that it came of: a subagent's first one the turn that launched it, and the turn that
// tells its result the subagent's. Traces link them.
func TestARunNamesWhatItCameOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{
		"github.com/me/agent-env": "I delegate.\nSUBAGENT: repo=github.com/me/my-app, prompt=Add it",
		"github.com/me/my-app":    "Added it.",
	}))
	root := w.launch("Ship it")
	var of map[bridge.AgentID][]bridge.Event
	w.until("the root was told", func(tx bridge.Tx) bool {
		of = map[bridge.AgentID][]bridge.Event{}
		all, err := tx.Events(0, 1000)
		for _, e := range all {
			if e.Kind == bridge.EventCompleted {
				of[e.Agent] = append(of[e.Agent], e)
			}
		}
		return err == nil && len(of[root.ID]) == 2
	})
	first, second := of[root.ID][0], of[root.ID][1]
	delete(of, root.ID)
	if first.Fields["after"] != "" || len(of) != 1 {
		t.Fatalf("the first run came of %q; %d subagents", first.Fields["after"], len(of))
	}
	for _, runs := range of {
		if len(runs) != 1 || runs[0].Fields["after"] != string(first.Turn) {
			t.Errorf("the subagent's run came of %q, want its launch in %s", runs[0].Fields["after"], first.Turn)
		}
		if !slices.Contains(strings.Fields(second.Fields["after"]), string(runs[0].Turn)) {
			t.Errorf("the turn that tells the result came of %q, want %s", second.Fields["after"], runs[0].Turn)
		}
	}
}
