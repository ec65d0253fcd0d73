package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
)

// boss is the orchestrator's repository.
const boss = "github.com/me/agent-env"

// cast are the agents of a test in virtual time: what each says first, and how
// far its runs have come.
type cast struct {
	mu sync.Mutex // guards the fields below
	// first are first replies, by repository.
	first map[string]string
	// states are of first runs, later of further ones; none is FINISHED.
	states, later map[string]bridge.RunState
}

func (c *cast) answer(repo, text string) bridge.Observation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(text, "[bridge ") {
		return bridge.Observation{State: c.later[repo], Reply: "Thanks."}
	}
	return bridge.Observation{State: c.states[repo], Reply: c.first[repo]}
}

// runs says how far the first runs of some repositories are by now.
func (c *cast) runs(state bridge.RunState, repos ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, repo := range repos {
		c.states[repo] = state
	}
}

// follows says how further runs of a repository end from now on.
func (c *cast) follows(state bridge.RunState, repo string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.later[repo] = state
}

// virtual plays a test in virtual time, on a store in memory. The engine is not
// started yet.
func virtual(t *testing.T, first map[string]string, test func(t *testing.T, w *world, c *cast)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cast{first: maps.Clone(first), states: map[string]bridge.RunState{}, later: map[string]bridge.RunState{}}
		w := &world{t: t, relay: &runtimes.Relay{}, cloud: &runtimes.Cloud{Answer: c.answer, Deaf: true}, disk: memstore.NewDisk(), stop: func() {},
			poll: 10 * time.Second, settle: 5 * time.Minute, patience: 1000 * time.Hour}
		w.allow(rules)
		t.Cleanup(func() { w.stop() })
		test(t, w, c)
	})
}

// launchJoined launches the orchestrator with a policy for results.
func (w *world) launchJoined(join bridge.Join, within time.Duration) bridge.Agent {
	w.t.Helper()
	a, _, err := w.engine.LaunchAgent(w.t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go", Join: join, JoinWithin: within})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// resting waits until no agent has an open turn but those that are named, and no
// action is on its way.
func (w *world) resting(except ...bridge.AgentID) {
	w.t.Helper()
	w.until("rest", func(tx *bridge.Scene) bool {
		all, err := tx.Agents(bridge.AgentFilter{})
		for _, a := range all {
			if _, open := tx.OpenTurn(a.ID); !slices.Contains(except, a.ID) && !errors.Is(open, bridge.ErrNoRow) {
				return false
			}
		}
		for _, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending} {
			actions, err := tx.Commands(bridge.CommandFilter{State: state, Verb: parser.LocalAction})
			if err != nil || len(actions) > 0 {
				return false
			}
		}
		return err == nil
	})
}

// agent returns the orchestrator as it is now.
func (w *world) agent() bridge.Agent {
	w.t.Helper()
	a, err := w.engine.FindAgent(w.t.Context(), "main")
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// sent returns what the agents of a repository were told in follow-ups.
// itemsLine ends words that are said again.
var itemsLine = regexp.MustCompile(`\n\n\[items( [0-9a-f]{16})+\]$`)

func (w *world) sent(repo string) (all []string) {
	for _, line := range w.cloud.Log() {
		if text, ok := strings.CutPrefix(line, "send "+repo+" "); ok {
			all = append(all, itemsLine.ReplaceAllString(text, ""))
		}
	}
	return all
}

func (w *world) say(text string) bridge.Turn {
	w.t.Helper()
	t, err := w.engine.Say(w.t.Context(), w.agent().ID, text)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// turns returns the orchestrator's turns, oldest first, as "cause state".
func (w *world) turns() (all []string) {
	w.t.Helper()
	err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) error {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: w.agent().ID})
		for _, t := range slices.Backward(turns) {
			all = append(all, fmt.Sprintf("%s %s", t.Cause, t.State))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// wants fails unless some text holds every part.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("nothing says %q:\n%s", part, text)
		}
	}
}
