package engine_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
)

// hosted has an agent with a turn, and a question of it.
func (w *world) hosted() (bridge.Agent, bridge.Permission) {
	w.t.Helper()
	a := w.launch("work")
	w.idle(1)
	w.until("it has its name", func(tx *bridge.Scene) bool {
		var err error
		a, err = tx.Agent(a.ID)
		return err == nil && a.External != ""
	})
	return a, bridge.Permission{
		ID: "apr_1", Hash: strings.Repeat("ab", 32), Relay: "laptop", Entry: "opencode", Session: a.External, Run: "r1", Kind: "execute", Tool: "bash",
		Arguments: `{"command":"make release"}`, Paths: []string{"/w/a"}, Workspace: "/w", Reason: "no rule", AtBridge: true, AtMachine: true, State: bridge.PermissionOpen,
	}
}

func (w *world) permission(p bridge.Permission) bridge.Command {
	w.t.Helper()
	if err := w.engine.PermissionAsked(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	return w.commandOf(p)
}

func (w *world) commandOf(p bridge.Permission) (m bridge.Command) {
	w.t.Helper()
	w.until("the question is on record", func(tx *bridge.Scene) bool {
		var err error
		m, err = tx.Command(bridge.PermissionCommand(p.Relay, p.ID))
		return err == nil
	})
	return m
}

func (w *world) wordOn(p bridge.Permission, relay string) (words []bridge.PermissionWord) {
	w.t.Helper()
	words, err := w.engine.PermissionWord(w.t.Context(), relay, []string{p.ID, "apr_other"})
	if err != nil {
		w.t.Fatal(err)
	}
	return words
}

func done(string, string) string { return "done" }

// TestPermissionAtTheBridge: a question is one command, shown whole, whose yes is bound to what was shown, and which only its relay gets.
func TestPermissionAtTheBridge(t *testing.T) {
	t.Parallel()
	play(t, done, func(t *testing.T, w *world) {
		_, p := w.hosted()
		m := w.permission(p)
		if again := w.permission(p); again.ID != m.ID || m.State != bridge.CommandHeld || len(w.commands()) != 1 {
			t.Errorf("the question is %s, and there are %v", m.State, w.commands())
		}
		q := w.question(m.ID)
		for _, part := range []string{"make release", p.Hash, "/w/a", "laptop, entry opencode", "PERMISSION"} {
			if !strings.Contains(q.Shown, part) {
				t.Errorf("the question does not show %q:\n%s", part, q.Shown)
			}
		}
		if len(w.wordOn(p, "laptop")) != 0 {
			t.Error("there is a word before the operator said one")
		}
		if _, err := w.engine.Approve(t.Context(), m.ID, strings.Repeat("0", len(q.Hash))); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("a yes to something else: %v", err)
		}
		w.approve(m)
		if _, err := w.engine.Deny(t.Context(), m.ID, ""); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("a no after the yes: %v", err)
		}
		if words := w.wordOn(p, "laptop"); len(words) != 1 || words[0] != (bridge.PermissionWord{ID: p.ID, Hash: p.Hash, Allow: true}) {
			t.Errorf("the relay gets %+v", words)
		}
		if len(w.wordOn(p, "desktop")) != 0 {
			t.Error("another relay gets the word")
		}
		p.State, p.By = bridge.PermissionGiven, "bridge"
		if m = w.permission(p); m.State != bridge.CommandFinished {
			t.Errorf("after the agent got its yes the question is %s", m.State)
		}
		w.permission(p)
	})
}

// TestPermissionIsOfItsRelay: each way to announce a question that is not one's own.
func TestPermissionIsOfItsRelay(t *testing.T) {
	t.Parallel()
	play(t, done, func(t *testing.T, w *world) {
		_, p := w.hosted()
		for name, tt := range map[string]struct {
			change func(*bridge.Permission)
			kind   bridge.ErrorKind
		}{
			"another relay":   {func(p *bridge.Permission) { p.Relay = "desktop" }, bridge.Denied},
			"another entry":   {func(p *bridge.Permission) { p.Entry = "claude" }, bridge.Denied},
			"unknown session": {func(p *bridge.Permission) { p.Session = "bc-none" }, bridge.Unavailable},
		} {
			other := p
			tt.change(&other)
			if err := w.engine.PermissionAsked(t.Context(), other); bridge.KindOf(err) != tt.kind {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.permission(p)
		other := p
		other.Hash = strings.Repeat("cd", 32)
		if err := w.engine.PermissionAsked(t.Context(), other); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("another question under the same id: %v", err)
		}
	})
}

// TestPermissionOfTheMachine: where relay.yaml says machine, the bridge shows the question and cannot answer it.
func TestPermissionOfTheMachine(t *testing.T) {
	t.Parallel()
	play(t, done, func(t *testing.T, w *world) {
		_, p := w.hosted()
		p.AtBridge = false
		m := w.permission(p)
		if _, err := w.yes(m.ID); bridge.KindOf(err) != bridge.Denied {
			t.Errorf("yes: %v", err)
		}
		if _, err := w.engine.Deny(t.Context(), m.ID, ""); bridge.KindOf(err) != bridge.Denied {
			t.Errorf("no: %v", err)
		}
		p.State, p.By = bridge.PermissionRefused, "terminal"
		if m = w.permission(p); m.State != bridge.CommandRefused {
			t.Errorf("after a no at the machine the question is %s", m.State)
		}
	})
}

// TestPermissionWakesTheAgent: an answer that found no process reaches the agent in a turn of its own, once.
func TestPermissionWakesTheAgent(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"yes at the machine", "no at the machine", "no at the bridge"} {
		play(t, done, func(t *testing.T, w *world) {
			_, p := w.hosted()
			m := w.permission(p)
			p.State = bridge.PermissionNo
			switch by {
			case "yes at the machine":
				p.State = bridge.PermissionYes
			case "no at the bridge":
				if _, err := w.engine.Deny(t.Context(), m.ID, "too early"); err != nil {
					t.Fatal(err)
				}
				if words := w.wordOn(p, "laptop"); len(words) != 1 || words[0].Allow {
					t.Errorf("the relay gets %+v", words)
				}
			}
			w.permission(p)
			w.permission(p)
			w.told("has its answer: a person said " + string(p.State))
			w.permission(p)
			w.idle(2)
		})
	}
}

// TestPermissionAnsweredOtherwise: the agent hears what its relay has, also where the operator's word, or the stop of its tree, was another one.
func TestPermissionAnsweredOtherwise(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"a stop after the operator's yes", "a yes at the machine before the operator's no"} {
		play(t, done, func(t *testing.T, w *world) {
			a, p := w.hosted()
			m := w.permission(p)
			if p.State = bridge.PermissionYes; strings.HasPrefix(by, "a stop") {
				p.State = bridge.PermissionNo
				w.approve(m)
				if _, err := w.engine.Stop(t.Context(), a.ID, "enough"); err != nil {
					t.Fatal(err)
				}
				if words := w.wordOn(p, "laptop"); len(words) != 1 || words[0].Allow {
					t.Errorf("the relay gets %+v", words)
				}
				w.permission(p)
				if _, err := w.engine.Resume(t.Context(), a.ID); err != nil {
					t.Fatal(err)
				}
			} else if _, err := w.engine.Deny(t.Context(), m.ID, ""); err != nil {
				t.Fatal(err)
			}
			w.permission(p)
			w.permission(p)
			w.told("has its answer: a person said " + string(p.State))
		})
	}
}

// TestPermissionAnsweredAfterItsTurn: a question whose answer the bridge hears of after the end of its turn keeps no result back.
func TestPermissionAnsweredAfterItsTurn(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	bubble(t, func(t *testing.T, w *world) {
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case repo == "github.com/me/my-app" && !over.Load():
				return bridge.Observation{State: bridge.RunRunning}
			case repo == "github.com/me/my-app":
				return bridge.Observation{State: bridge.RunFinished, Reply: "the release is made"}
			case strings.Contains(text, "lead"):
				return bridge.Observation{State: bridge.RunFinished, Reply: "SUBAGENT: repo=github.com/me/my-app, prompt=make a release"}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "noted"}
		}
		w.start()
		w.launch("lead")
		var child bridge.Agent
		var turn bridge.Turn
		w.until("the subagent works", func(tx *bridge.Scene) bool {
			all, err := tx.Agents(bridge.AgentFilter{State: bridge.AgentBusy, Limit: 10})
			at := slices.IndexFunc(all, func(a bridge.Agent) bool { return a.Parent != "" && a.External != "" })
			if err != nil || at < 0 {
				return false
			}
			child = all[at]
			turn, err = tx.OpenTurn(child.ID)
			return err == nil && turn.State == bridge.TurnRunning
		})
		p := bridge.Permission{
			ID: "apr_1", Hash: strings.Repeat("ab", 32), Relay: "laptop", Entry: "opencode", Session: child.External, Run: turn.Run, Kind: "execute", Tool: "bash",
			Arguments: `{"command":"make release"}`, Paths: []string{"/w/a"}, Workspace: "/w", Reason: "no rule", AtBridge: true, AtMachine: true, State: bridge.PermissionOpen,
		}
		w.approve(w.permission(p))
		over.Store(true)
		w.until("its turn is over", func(tx *bridge.Scene) bool {
			turn, err := tx.Turn(turn.ID)
			return err == nil && turn.State == bridge.TurnReplied
		})
		p.State = bridge.PermissionGiven
		w.permission(p)
		w.told("the release is made")
	})
}

// TestPermissionYesAndNoAtOnce: the first word counts, and the relay gets that one.
func TestPermissionYesAndNoAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		play(t, done, func(t *testing.T, w *world) {
			_, p := w.hosted()
			m := w.permission(p)
			hash := w.question(m.ID).Hash
			var yes, no error
			var both sync.WaitGroup
			both.Go(func() { _, yes = w.engine.Approve(t.Context(), m.ID, hash) })
			both.Go(func() { _, no = w.engine.Deny(t.Context(), m.ID, "") })
			both.Wait()
			words := w.wordOn(p, "laptop")
			if (yes == nil) == (no == nil) || len(words) != 1 || words[0].Allow != (yes == nil) {
				t.Errorf("yes: %v, no: %v, and the relay gets %+v", yes, no, words)
			}
		})
	}
}
