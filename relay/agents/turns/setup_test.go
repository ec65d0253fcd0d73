package turns_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// setter runs the setups of a test.
type setter struct {
	ran []string
	// fails is why the next ones fail, nil for none. begun is closed when one begins that goes on until it is ended.
	fails error
	begun chan struct{}
}

func (s *setter) SetUp(ctx context.Context, agent, dir string, argv []string) error {
	s.ran = append(s.ran, fmt.Sprint(agent, " in ", filepath.Base(filepath.Dir(dir)), ": ", argv))
	if s.begun != nil {
		close(s.begun)
		<-ctx.Done()
		return &agents.Error{Cause: agents.Crashed, Reason: "the setup was ended"}
	}
	return s.fails
}

func (*setter) Named(argv []string) string { return strings.Join(argv, " ") }

// The setup of a clone runs before the agent hears anything, until it ends well, and then never again but as another command line.
func TestSetUp(t *testing.T) {
	t.Parallel()
	setups, setup := &setter{}, []string{"npm", "ci"}
	w := newWorld(t, nil, func(o *turns.Options) {
		repo := o.Config.Repos["local/app"]
		repo.Setup = setup
		o.Config.Repos["local/app"] = repo
		o.SetUp = setups
	})
	setups.fails = &agents.Error{Cause: agents.Crashed, Reason: "no network"}
	if end := w.run(turn("s", "t1", "hi")); end.Cause != wire.TurnCrashed || end.Error != "no network" || len(w.log("fake")) != 0 {
		t.Errorf("a setup that fails: %s %q", end.Cause, end.Error)
	}
	setups.fails = nil
	w.answers(turn("s", "t2", "hi"), "done")
	w.again()
	w.answers(turn("s", "t3", "ho"), "done")
	setup = []string{"make"}
	w.again()
	w.answers(turn("s", "t4", "ha"), "done")
	setup, setups.begun = []string{"make", "all"}, make(chan struct{})
	w.again()
	ended := w.background(turn("s", "t5", "no"))
	<-setups.begun
	if found := w.LookupTurn(turn("s", "t5", "no")); found.State != wire.TurnStarting || found.Note != "the setup of the workspace runs: make all" {
		t.Errorf("while the setup runs: %+v", found)
	}
	w.StopTurn(turn("s", "t5", "no"))
	if end := <-ended; end.Cause != wire.TurnUnsaid || w.said("no") != 0 {
		t.Errorf("stopped in the setup: %s %q", end.Cause, end.Error)
	}
	want := []string{"fake in s: [npm ci]", "fake in s: [npm ci]", "fake in s: [make]", "fake in s: [make all]"}
	if !slices.Equal(setups.ran, want) {
		t.Errorf("it ran %q, want %q", setups.ran, want)
	}
}
