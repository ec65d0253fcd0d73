package turns_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// The setup of a clone runs before the agent hears anything, until it ends well, and then never again but as another command line.
func TestSetUp(t *testing.T) {
	t.Parallel()
	setup := ""
	w := newWorld(t, nil, func(o *turns.Options) {
		repo := o.Config.Repos["local/app"]
		if setup != "" {
			repo.Setup = []string{"sh", "-c", setup}
		}
		o.Config.Repos["local/app"] = repo
		o.SetUp = &host.Host{Config: o.Config, Executor: o.Drivers["acp"].(turns.ACP).Host.Executor, Ability: ability()}
	})
	use := func(line string) {
		setup = line
		w.again()
	}
	tree := filepath.Join(w.dir, "workspaces", "s", "tree")
	ran := func() string {
		data, _ := os.ReadFile(filepath.Join(tree, "ran"))
		return strings.ReplaceAll(string(data), "\n", " ")
	}
	use(`echo one >>ran; test -e ok || { echo not yet >&2; exit 3; }`)
	end := w.run(turn("s", "t1", "hi"))
	if end.Cause != wire.TurnCrashed || !strings.Contains(end.Error, `ended with exit code 3; it wrote: not yet`) || len(w.log("fake")) != 0 {
		t.Errorf("a setup that fails: %s %q", end.Cause, end.Error)
	}
	w.must(os.WriteFile(filepath.Join(tree, "ok"), nil, 0o600))
	w.answers(turn("s", "t2", "hi"), "done")
	w.again()
	w.answers(turn("s", "t3", "ho"), "done")
	if got := ran(); got != "one one " {
		t.Errorf("it ran: %q", got)
	}
	use(`echo $HOME >>ran`)
	w.answers(turn("s", "t4", "ha"), "done")
	if got := ran(); got != "one one "+w.config.AgentHome("fake")+" " {
		t.Errorf("another setup: %q", got)
	}
	use(`sleep 1000`)
	ended := w.background(turn("s", "t5", "no"))
	w.eventually("the turn starts", func() bool {
		found := w.LookupTurn(turn("s", "t5", "no"))
		return found.State == wire.TurnStarting && found.Note == "the setup of the workspace runs: sh -c sleep 1000"
	})
	w.StopTurn(turn("s", "t5", "no"))
	if end := <-ended; end.Cause != wire.TurnStopped || w.said("no") != 0 {
		t.Errorf("stopped in the setup: %s %q", end.Cause, end.Error)
	}
}
