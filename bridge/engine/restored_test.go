package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/proof/memstore"
)

// generations plays a story of two generations: what the first subagent says makes
// the orchestrator launch a second one and run an action. It puts back a copy of
// the database that was made before the first result was told.
func (w *world) generations(secret bool) {
	w.t.Helper()
	ended := false
	w.cloud.Secret = func() bool { return secret }
	w.cloud.Answer = func(repo, text string) bridge.Observation {
		switch {
		case text == "go":
			return bridge.Observation{Reply: "SUBAGENT: repo=github.com/acme/a, prompt=first\n"}
		case repo == "github.com/acme/a" && !ended:
			return bridge.Observation{State: bridge.RunRunning}
		case repo == "github.com/acme/a":
			return bridge.Observation{Reply: "The first is done."}
		case strings.Contains(text, "| The first is done."):
			return bridge.Observation{Reply: "SUBAGENT: repo=github.com/acme/b, prompt=second\nLOCAL_ACTION: backup_script\n"}
		case repo == "github.com/acme/b":
			return bridge.Observation{Reply: "The second is done."}
		}
		return bridge.Observation{Reply: "Thanks."}
	}
	w.start()
	w.launch("go")
	w.launched()
	older := w.disk.Copy()
	ended = true
	w.resting()
	if got := w.tellings(); got != "first 1, second 1, action 1, launches 3" {
		w.t.Fatalf("before: %s", got)
	}
	w.stop()
	w.disk.Restore(older)
	w.start()
}

// launched waits until the one subagent's launch is confirmed.
func (w *world) launched() {
	w.t.Helper()
	w.until("the subagent runs", func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandConfirmed})
		return err == nil && len(all) == 1
	})
}

// copied launches the orchestrator and copies the database while the worker's first run goes on. The run may end then.
func (c *cast) copied(w *world) *memstore.Disk {
	w.t.Helper()
	ended, others := false, w.cloud.Answer
	w.cloud.Answer = func(repo, text string) bridge.Observation {
		c.mu.Lock()
		on := repo == worker && !ended
		c.mu.Unlock()
		if on {
			return bridge.Observation{State: bridge.RunRunning}
		}
		return others(repo, text)
	}
	w.launch("go")
	w.launched()
	older := w.disk.Copy()
	c.mu.Lock()
	defer c.mu.Unlock()
	ended = true
	return older
}

// tellings counts what the orchestrator was told, and what was launched.
func (w *world) tellings() string {
	count := func(text string) string {
		return string(rune('0' + strings.Count(strings.Join(w.sent(boss), "\n"), text)))
	}
	return "first " + count("| The first is done.") + ", second " + count("| The second is done.") + ", action " + count("| backup_script") +
		", launches " + string(rune('0'+w.cloud.Effects("launch")))
}

// TestRestoredTellsNothingAgain: a database that was put back takes over the runs
// that it has forgotten: nothing is told or launched again, of no generation, and
// what it recorded is what it had recorded before.
func TestRestoredTellsNothingAgain(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.generations(false)
		w.resting()
		time.Sleep(time.Hour)
		if got := w.tellings(); got != "first 1, second 1, action 1, launches 3" {
			t.Error(got)
		}
		if n := len(w.relay.Log()); n != 1 {
			t.Errorf("the action ran %d times", n)
		}
		for _, m := range w.all() {
			if m.State != bridge.CommandReported {
				t.Errorf("command %s is %s: %s", m.Parsed.Verb, m.State, m.Reason)
			}
		}
		w.say("go on") // the agent is free
		w.resting()
		if all := w.sent(boss); all[len(all)-1] != "go on" {
			t.Errorf("said %q", all)
		}
	})
}

// all returns every command.
func (w *world) all() (all []bridge.Command) {
	w.t.Helper()
	w.until("commands", func(tx *bridge.Scene) bool {
		var err error
		all, err = tx.Commands(bridge.CommandFilter{})
		return err == nil
	})
	return all
}

// TestRestoredUnreadable: a run whose prompt nobody can read makes the turn
// uncertain, and nothing is told until the operator answers, once for all.
func TestRestoredUnreadable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		told bool
		want string
	}{
		{"it told", true, "first 1, second 1, action 1, launches 3"},
		{"it told nothing", false, "first 2, "}, // and its reply asks again
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
				w.generations(true)
				all := w.turnsIn(w.agent().ID, bridge.TurnUncertain, 1)
				time.Sleep(time.Hour)
				if got := w.tellings(); got != "first 1, second 1, action 1, launches 3" {
					t.Errorf("before the answer: %s", got)
				}
				if _, err := w.engine.Continue(t.Context(), all[0].ID); bridge.KindOf(err) != bridge.Conflict {
					t.Errorf("replayed: %v", err)
				}
				n, err := w.engine.SettleRestored(t.Context(), tt.told)
				if err != nil || n != 1 {
					t.Fatalf("settled %d, %v", n, err)
				}
				w.resting()
				time.Sleep(time.Hour)
				if got := w.tellings(); !strings.HasPrefix(got, tt.want) {
					t.Error(got)
				}
			})
		})
	}
}

// TestRestoredTaskEnds: the last turns of a subagent told nothing, because runs from
// before the restore had told it. The task still ends, and the parent has its result.
func TestRestoredTaskEnds(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "asked\nSUBAGENT: repo=github.com/me/careful, prompt=x", "still waiting")
		w.cloud.Secret = func() bool { return true }
		older := c.copied(w)
		w.resting()
		w.tell(child(t, w, worker).ID, "one more word") // nobody can read that run either
		w.resting()
		w.stop()
		w.disk.Restore(older)
		w.start()
		a := child(t, w, worker)
		first := w.turnsIn(a.ID, bridge.TurnUncertain, 1)
		held := w.oneCommand(bridge.CommandHeld)
		if _, err := w.engine.ResolveTurn(t.Context(), first[0].ID, engine.Word{Told: true}); err != nil {
			t.Fatal(err)
		}
		w.until("the second run is found", func(tx *bridge.Scene) bool {
			all, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, State: bridge.TurnUncertain})
			return err == nil && len(all) == 1 && all[0].ID != first[0].ID
		})
		if _, err := w.engine.Deny(t.Context(), held.ID, "no"); err != nil {
			t.Fatal(err)
		}
		for _, id := range []bridge.AgentID{w.agent().ID, a.ID} {
			unread := w.turnsIn(id, bridge.TurnUncertain, 1)
			if _, err := w.engine.ResolveTurn(t.Context(), unread[0].ID, engine.Word{Tell: true}); err != nil {
				t.Fatal(err)
			}
		}
		w.resting()
		if last := lastTurn(t, w, a.ID); last.State != bridge.TurnFailed {
			t.Fatalf("the last turn is %s: %q", last.State, last.Sent)
		}
		if m := w.launchOf(a); m.State != bridge.CommandReported {
			t.Errorf("the launch is %s", m.State)
		}
		w.one("| still waiting")
	})
}

// TestRestoredTaskEndsOnce: runs that can be read told a subagent everything before the restore. Its turn fails, because nothing is
// left to tell, and the same answer of the operator ends the task once more, without another word to parent or child.
func TestRestoredTaskEndsOnce(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "asked\nSUBAGENT: repo=github.com/me/careful, prompt=x", "still waiting")
		older := c.copied(w)
		live := func() {
			t.Helper()
			w.resting()
			if _, err := w.engine.Deny(t.Context(), w.oneCommand(bridge.CommandHeld).ID, "no"); err != nil {
				t.Fatal(err)
			}
			w.resting()
		}
		live()
		w.stop()
		told := len(w.cloud.Log())
		w.disk.Restore(older)
		w.start()
		live()
		if got := len(w.cloud.Log()); got != told {
			t.Errorf("%d launches and follow-ups, %d before the restore", got, told)
		}
		a := child(t, w, worker)
		if m := w.launchOf(a); m.State != bridge.CommandReported || a.Task != bridge.TaskDone {
			t.Errorf("the launch is %s, the task %s", m.State, a.Task)
		}
		w.one("| still waiting")
	})
}

// settling is a store that counts how many uncertain turns each step settles.
type settling struct {
	bridge.Store
	mu  sync.Mutex // guards all
	all []int
}

func (s *settling) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	settled := 0
	err := s.Store.Update(ctx, func(tx *bridge.Scene) error {
		before, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnUncertain})
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		after, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnUncertain})
		settled = len(before) - len(after)
		return err
	}, hints...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if settled > 0 && err == nil {
		s.all = append(s.all, settled)
	}
	return err
}

// TestRestoredSettlesTreeByTree: the operator's answer for many trees takes one step for each, so that its cost grows with their number. A
// store runs a step again for what the step lacks; one step for n trees would look n times at the first.
func TestRestoredSettlesTreeByTree(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		var counted *settling
		w.over = func(s bridge.Store) bridge.Store { counted = &settling{Store: s}; return counted }
		w.cloud.Secret = func() bool { return true }
		w.start()
		const trees = 7
		var all []bridge.AgentID
		sayAll := func(text string) {
			for _, id := range all {
				if _, err := w.engine.Say(t.Context(), id, text); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range trees {
			all = append(all, w.launchNamed(fmt.Sprintf("main%d", i), "go").ID)
		}
		w.resting()
		older := w.disk.Copy()
		sayAll("more")
		w.resting()
		w.stop()
		w.disk.Restore(older)
		w.start()
		sayAll("and?")
		for _, id := range all {
			w.turnsIn(id, bridge.TurnUncertain, 1)
		}
		if n, err := w.engine.SettleRestored(t.Context(), true); err != nil || n != trees {
			t.Fatalf("settled %d, %v", n, err)
		}
		counted.mu.Lock()
		got := slices.Clone(counted.all)
		counted.mu.Unlock()
		if len(got) != trees || slices.Max(got) != 1 {
			t.Errorf("the steps settled %v turns", got)
		}
		w.resting()
		if n := strings.Count(strings.Join(w.sent("github.com/me/agent-env"), "\n"), "and?"); n != trees {
			t.Errorf("%d of %d agents heard the next word", n, trees)
		}
	})
}
