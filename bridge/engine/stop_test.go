package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
	"drawbridge/policy"
)

func (w *world) halt() {
	w.t.Helper()
	if _, err := w.engine.Stop(context.Background(), w.agent().ID, "enough"); err != nil {
		w.t.Error(err)
	}
}

func (w *world) goOn() {
	w.t.Helper()
	if _, err := w.engine.Resume(w.t.Context(), w.agent().ID); err != nil {
		w.t.Error(err)
	}
}

// TestStopIdle: a stopped tree hears nothing, from nobody, over restarts too.
func TestStopIdle(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/me/careful, prompt=x\nREMIND: 10m, tea"}
	virtual(t, first, func(t *testing.T, w *world, _ *cast) {
		w.start()
		a := w.launch("go")
		w.resting()
		held := w.oneCommand(bridge.CommandHeld)
		w.halt()
		w.halt() // twice is fine
		w.restart()
		if got := w.agent(); got.State != bridge.AgentGated || !strings.Contains(got.Trouble, "stopped this tree of agents: enough") {
			t.Errorf("%s: %q", got.State, got.Trouble)
		}
		turns := w.turns()
		_, said := w.engine.Say(t.Context(), a.ID, "hello")
		_, approved := w.yes(held.ID)
		_, replayed := w.engine.Continue(t.Context(), w.firstTurn().ID)
		for name, err := range map[string]error{"say": said, "approve": approved, "replay": replayed} {
			if bridge.KindOf(err) != bridge.Conflict {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.until("nothing left to do", func(tx *bridge.Scene) bool {
			next, err := w.engine.NextDue(t.Context())
			return err == nil && next.IsZero()
		})
		if got := w.turns(); len(got) != len(turns) {
			t.Errorf("turns %q, were %q", got, turns)
		}
		w.goOn()
		w.goOn() // twice is fine
		w.say("and?")
		w.resting()
		told := strings.Join(w.sent(boss), "\n")
		wants(t, told, "given up: the operator stopped", "REMIND")
		if strings.Contains(told, "reminder that you set") {
			t.Errorf("a reminder came back:\n%s", told)
		}
	})
}

func (w *world) firstTurn() (t bridge.Turn) {
	w.t.Helper()
	err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Turns(bridge.TurnFilter{Agent: w.agent().ID})
		t = all[len(all)-1]
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// TestStopQueued: a turn that waits to be sent is given up and not sent later.
func TestStopQueued(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		var calm atomic.Bool
		w.cloud.Fail = func(point, _ string) error {
			if point == "before send" && !calm.Load() {
				return bridge.Errorf(bridge.RateLimited, "slow down")
			}
			return nil
		}
		w.start()
		w.launch("go")
		w.resting()
		w.say("more")
		w.until("refused", func(tx *bridge.Scene) bool {
			queued, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnQueued})
			return err == nil && len(queued) == 1 && queued[0].Trouble == "slow down"
		})
		calm.Store(true)
		w.halt()
		w.resting()
		w.goOn()
		w.resting()
		if got := w.turns(); got[1] != "user failed" || len(w.sent(boss)) != 0 {
			t.Errorf("turns %q, sent %q", got, w.sent(boss))
		}
		w.say("and now?")
		w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
	})
}

// TestStopDelivering: a launch that was on its way is found and cancelled, one
// whose answer was lost before it left is not repeated.
func TestStopDelivering(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before launch", "after launch"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
				c.runs(bridge.RunRunning, team...)
				w.cloud.Fail = func(at, text string) error {
					if at != point || text != "do it" {
						return nil
					}
					return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
				}
				w.start()
				w.launch("go")
				w.until("in doubt", func(tx *bridge.Scene) bool {
					all, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnDelivering})
					return err == nil && len(all) == 3 && !all[0].DoubtSince.IsZero() && !all[1].DoubtSince.IsZero() && !all[2].DoubtSince.IsZero()
				})
				launched := w.cloud.Effects("launch github.com/acme/")
				w.halt()
				if point == "after launch" {
					w.until("cancelled", func(*bridge.Scene) bool { return w.cloud.Effects("cancel") >= 3 })
					c.runs(bridge.RunCancelled, team...)
				}
				w.resting()
				if n := w.cloud.Effects("launch github.com/acme/"); n != launched {
					t.Errorf("%d launches, and it was stopped after %d", n, launched)
				}
				w.goOn()
				w.resting()
				if told := strings.Join(w.sent(boss), "\n"); strings.Count(told, "SUBAGENT on github.com/acme/") != 3 {
					t.Errorf("told %s", told)
				}
			})
		})
	}
}

// TestStopRunning: runs are cancelled, and what ends all the same commands nothing,
// and is told after the tree goes on.
func TestStopRunning(t *testing.T) {
	t.Parallel()
	first := teamwork()
	first[team[0]] = "result-a\nLOCAL_ACTION: backup_script"
	virtual(t, first, func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunRunning, team...)
		w.start()
		w.launch("go")
		teamRuns(w)
		w.halt()
		w.until("cancelled", func(*bridge.Scene) bool { return w.cloud.Effects("cancel") >= 3 })
		c.runs(bridge.RunFinished, team[0]) // it was faster
		c.runs(bridge.RunCancelled, team[1:]...)
		w.resting()
		if n := len(w.sent(boss)) + len(w.relay.Log()); n != 0 {
			t.Errorf("told %q, ran %q", w.sent(boss), w.relay.Log())
		}
		stopped := 0
		w.look(func(tx *bridge.Scene) error {
			all, err := tx.Agents(bridge.AgentFilter{})
			for _, a := range all {
				if strings.HasPrefix(a.Trouble, "the operator stopped this tree") {
					stopped++
				}
			}
			return err
		})
		if stopped != len(team)+1 {
			t.Errorf("%d agents say that the operator stopped them", stopped)
		}
		w.goOn()
		w.resting()
		wants(t, strings.Join(w.sent(boss), "\n"), "result-a", "ended with status FINISHED", "ended with status CANCELLED")
		wants(t, strings.Join(w.sent(team[0]), "\n"), "nothing of this turn ran")
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("ran %q", got)
		}
	})
}

// TestStopUncertain: what nobody can tell stays a person's to settle.
func TestStopUncertain(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/acme/old, prompt=x"}
	virtual(t, first, func(t *testing.T, w *world, _ *cast) {
		r := rules
		r.Repos = append(r.Repos[:len(r.Repos):len(r.Repos)], v0Rule)
		w.allow(r)
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && text == "x" {
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			}
			return nil
		}
		w.start()
		w.launch("go")
		w.until("uncertain", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandUncertain})
			return err == nil && len(all) == 1
		})
		m := w.oneCommand(bridge.CommandUncertain)
		w.resting(m.Child)
		w.halt()
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{}); err != nil {
			t.Error(err)
		}
		w.resting()
		w.goOn()
		w.resting()
		wants(t, strings.Join(w.sent(boss), "\n"), "a person says that it was not launched")
	})
}

// An action that was on its way when the tree was stopped is not asked for again.
func TestStopBetweenTwoTriesOfAnAction(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		unclear bool
		state   bridge.CommandState
	}{"surely not there": {false, bridge.CommandFailed}, "perhaps there": {true, bridge.CommandUncertain}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
				var asked atomic.Bool
				w.relay.Fail = func(point, _ string) error {
					if point == "before" && !asked.Swap(true) {
						w.halt()
						return &bridge.Error{Kind: bridge.Unavailable, Message: "no answer", Unclear: tt.unclear}
					}
					return nil
				}
				w.start()
				w.launch("go")
				w.until("over", func(tx *bridge.Scene) bool {
					all, err := tx.Commands(bridge.CommandFilter{State: tt.state})
					return err == nil && len(all) == 1
				})
				if got := w.relay.Log(); len(got) != 0 {
					t.Errorf("ran %q", got)
				}
			})
		})
	}
}

// TestStopNeedsARoot: what is stopped is a tree, by its root.
func TestStopNeedsARoot(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, _ *cast) {
		w.start()
		a := w.launch("go")
		w.resting()
		sub := child(t, w, team[1])
		_, stopped := w.engine.Stop(t.Context(), sub.ID, "")
		_, resumed := w.engine.Resume(t.Context(), sub.ID)
		for name, err := range map[string]error{"stop": stopped, "resume": resumed} {
			if bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "name the agent at the top of its tree, "+a.Name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.engine.Stop(t.Context(), "agt_none", ""); bridge.KindOf(err) != bridge.NotFound {
			t.Errorf("unknown: %v", err)
		}
	})
}

// TestStopLeavesOtherTrees: another tree goes on.
func TestStopLeavesOtherTrees(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.start()
		w.launch("go")
		other := w.launchNamed("other", "go")
		w.resting()
		w.halt()
		if _, err := w.engine.Say(t.Context(), other.ID, "on"); err != nil {
			t.Error(err)
		}
		w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
	})
}

// A launch is repeated under the grant of the moment: the allowlist was a
// narrower one while its effect was looked for, and is not any more.
func TestRepeatedLaunchHasItsGrant(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "SUBAGENT: repo=github.com/acme/a, prompt=x"}, func(t *testing.T, w *world, _ *cast) {
		narrow := rules
		narrow.Repos = []policy.RepoRule{}
		var lost atomic.Bool
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && text == "x" && !lost.Swap(true) {
				w.allow(narrow)
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			}
			return nil
		}
		w.cloud.Finding = func() { w.allow(rules) }
		w.start()
		w.launch("go")
		w.resting()
		if n := w.cloud.Effects("launch github.com/acme/a"); n != 1 {
			t.Errorf("%d launches: %q", n, w.cloud.Log())
		}
		err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: child(t, w, "github.com/acme/a").ID})
			if len(turns) != 1 || turns[0].Attempts != 2 {
				t.Errorf("turns %+v", turns)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A stop that comes while the effect is looked for keeps it from being repeated.
func TestStopWhileTheEffectIsLookedFor(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "SUBAGENT: repo=github.com/acme/a, prompt=x"}, func(t *testing.T, w *world, _ *cast) {
		var looked atomic.Bool
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && text == "x" && !looked.Load() {
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			}
			return nil
		}
		w.cloud.Finding = func() {
			looked.Store(true)
			w.halt()
		}
		w.start()
		w.launch("go")
		w.until("given up", func(tx *bridge.Scene) bool {
			failed, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandFailed})
			_, open := tx.OpenTurn(w.agent().ID)
			return err == nil && len(failed) == 1 && errors.Is(open, bridge.ErrNoRow)
		})
		if n := w.cloud.Effects("launch github.com/acme/a"); n != 0 {
			t.Errorf("%d launches: %q", n, w.cloud.Log())
		}
	})
}

// A reply that asks for nothing is the result, also where it came while the tree was stopped. The agent hears of no command that did not run.
func TestStopKeepsAResult(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	bubble(t, func(t *testing.T, w *world) {
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case repo == worker && !over.Load():
				return bridge.Observation{State: bridge.RunRunning}
			case repo == worker:
				return bridge.Observation{State: bridge.RunFinished, Reply: "the answer is 42"}
			case text == "go":
				return bridge.Observation{State: bridge.RunFinished, Reply: "SUBAGENT: repo=" + worker + ", prompt=count"}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "noted"}
		}
		w.start()
		w.launch("go")
		w.until("the subagent works", func(tx *bridge.Scene) bool {
			all, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
			return err == nil && len(all) == 1 && all[0].Text == "count"
		})
		over.Store(true) // what is over when its cancel comes stays as it ended
		w.halt()
		w.resting()
		w.goOn()
		w.resting()
		if got := w.sent(worker); len(got) != 0 {
			t.Errorf("the subagent heard %q", got)
		}
		got := strings.Join(w.sent(boss), "\n")
		if strings.Count(got, "the answer is 42") != 1 {
			t.Errorf("the parent heard %q", got)
		}
	})
}

// halts stops the turn that the orchestrator has. The run ends as end says after it was cancelled.
func (c *cast) halts(w *world, end bridge.RunState) (t bridge.Turn) {
	w.t.Helper()
	w.until("its second turn runs", func(tx *bridge.Scene) bool {
		all, err := tx.Turns(bridge.TurnFilter{Agent: w.agent().ID, State: bridge.TurnRunning})
		if len(all) > 0 {
			t = all[0]
		}
		return err == nil && t.Seq == 2
	})
	for range 2 { // twice is fine
		if _, err := w.engine.StopTurn(w.t.Context(), t.ID); err != nil {
			w.t.Fatal(err)
		}
	}
	w.until("cancelled", func(*bridge.Scene) bool { return w.cloud.Effects("cancel") >= 1 })
	c.follows(end, boss)
	w.resting()
	if _, err := w.engine.StopTurn(w.t.Context(), t.ID); bridge.KindOf(err) != bridge.Conflict {
		w.t.Errorf("a stop of a turn that has ended: %v", err)
	}
	w.look(func(tx *bridge.Scene) (err error) {
		t, err = tx.Turn(t.ID)
		return err
	})
	return t
}

// TestStopTurn: a turn that a person stops ends alone. Its agent waits for the person's next words, and hears again what the turn told only if it did
// not get the turn.
func TestStopTurn(t *testing.T) {
	t.Parallel()
	for cause, again := range map[bridge.EndCause]bool{"": false, bridge.CauseStopped: false, bridge.CauseUnsaid: true} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			first := map[string]string{boss: "SUBAGENT: repo=" + team[0] + ", prompt=x", team[0]: "built it"}
			virtual(t, first, func(t *testing.T, w *world, c *cast) {
				w.cloud.Answer = func(repo, text string) bridge.Observation {
					o := c.answer(repo, text)
					if o.State == bridge.RunCancelled {
						o.Cause = cause
					}
					return o
				}
				c.follows(bridge.RunRunning, boss)
				w.start()
				w.launch("go")
				stopped := c.halts(w, bridge.RunCancelled)
				if stopped.State != bridge.TurnFailed || stopped.Status != bridge.RunCancelled || !strings.HasPrefix(stopped.Trouble, "a person stopped the turn") || stopped.Retry > 0 {
					t.Errorf("%+v", stopped)
				}
				if a := w.agent(); a.State != bridge.AgentFailed || a.Trouble != stopped.Trouble {
					t.Errorf("%+v", a)
				}
				c.follows("", boss)
				w.say("do it by hand")
				w.resting()
				told := w.sent(boss)
				if got := told[len(told)-1]; len(told) != 2 || !strings.Contains(got, "do it by hand") || strings.Contains(got, "built it") != again {
					t.Errorf("told %q", told)
				}
				if got := w.turns(); strings.Join(got, ", ") != "launch replied, completion failed, user replied" || w.agent().State != bridge.AgentIdle {
					t.Errorf("turns %q", got)
				}
			})
		})
	}
}

// TestStopTurnThatEnds: an answer that was faster than the stop is kept, and commands nothing. The agent hears so.
func TestStopTurnThatEnds(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, c *cast) {
		answers := "LOCAL_ACTION: backup_script"
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			o := c.answer(repo, text)
			if strings.Contains(text, "on with it") {
				o.Reply = answers
			}
			return o
		}
		c.follows(bridge.RunRunning, boss)
		w.start()
		w.launch("go")
		w.resting()
		w.say("on with it")
		if ended := c.halts(w, bridge.RunFinished); ended.State != bridge.TurnReplied || ended.Reply != answers {
			t.Errorf("%+v", ended)
		}
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("ran %q", got)
		}
		if got := w.turns(); len(got) != 2 {
			t.Errorf("it goes on by itself: %q", got)
		}
		c.follows("", boss)
		w.say("what now?")
		w.resting()
		wants(t, strings.Join(w.sent(boss), "\n"), "a person stopped the turn; nothing of it ran")
	})
}

// TestStopTurnNotSent: a turn that waits, or that sleeps because its agent is limited, is not sent any more. What the agent got is not told again, and
// with `continue` it goes on.
func TestStopTurnNotSent(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprint(limited), func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, w *world, c *cast) {
				var held atomic.Bool
				w.cloud.Fail = func(point, _ string) error {
					if held.Load() && point == "before send" && !limited {
						return bridge.Errorf(bridge.RateLimited, "slow down")
					}
					return nil
				}
				w.cloud.Answer = func(repo, text string) bridge.Observation {
					if o := c.answer(repo, text); !held.Load() {
						return o
					}
					return bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: time.Now().Add(5 * time.Hour)}
				}
				w.start()
				a := w.launchLocal("go")
				w.resting()
				held.Store(true)
				said := w.say("more")
				w.until("it waits", func(tx *bridge.Scene) bool {
					now, err := tx.Turn(said.ID)
					return err == nil && now.State == bridge.TurnQueued && now.Trouble != ""
				})
				if _, err := w.engine.StopTurn(t.Context(), said.ID); err != nil {
					t.Fatal(err)
				}
				failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0]
				if failed.EndedAt.Sub(failed.CreatedAt) > time.Minute || strings.Contains(failed.Trouble, "before the agent got it") == limited {
					t.Errorf("%+v", failed)
				}
				held.Store(false)
				sent := len(w.sent(boss))
				if _, err := w.engine.Continue(t.Context(), said.ID); err != nil {
					t.Fatal(err)
				}
				w.until("it went on", func(*bridge.Scene) bool { return len(w.sent(boss)) > sent })
			})
		})
	}
}

// TestStoppedTurnTakesNothing: words of a person and those of a turn that broke go into a turn of their own, and not into one that was stopped.
func TestStoppedTurnTakesNothing(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, c *cast) {
		w.start()
		w.launch("go")
		w.resting()
		c.follows(bridge.RunRunning, boss)
		w.say("first")
		a := w.agent()
		w.turnsIn(a.ID, bridge.TurnRunning, 1)
		stopped := w.say("second")
		if _, err := w.engine.StopTurn(t.Context(), stopped.ID); err != nil {
			t.Fatal(err)
		}
		w.say("third")
		c.follows(bridge.RunError, boss)
		w.until("the first one broke", func(tx *bridge.Scene) bool {
			all, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, State: bridge.TurnFailed})
			return err == nil && len(all) > 0
		})
		c.follows("", boss)
		w.resting()
		if got, want := strings.Join(w.sent(boss), "; "), "first; first\n\nthird"; got != want {
			t.Errorf("it heard %q, want %q", got, want)
		}
	})
}

// TestStoppedTurnAsksNothing: a tool that the agent calls after its turn was stopped does nothing, until it has another turn.
func TestStoppedTurnAsksNothing(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, c *cast) {
		w.start()
		w.launch("go")
		w.resting()
		c.follows(bridge.RunRunning, boss)
		w.say("on with it")
		c.halts(w, bridge.RunCancelled)
		ask := func() error {
			_, err := w.engine.Ask(t.Context(), w.agent().ID, bridge.Once{}, parser.Command{Verb: parser.LocalAction, Action: "backup_script"})
			return err
		}
		if err := ask(); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "a person stopped the turn") {
			t.Errorf("a stopped turn asks: %v", err)
		}
		c.follows("", boss)
		w.say("now")
		w.resting()
		if err := ask(); err != nil {
			t.Error(err)
		}
	})
}

// TestStopLaunch: a launch that waits and is stopped is not made, and its name is free for another one.
func TestStopLaunch(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		var calm atomic.Bool
		w.cloud.Fail = func(point, _ string) error {
			if point == "before launch" && !calm.Load() {
				return bridge.Errorf(bridge.RateLimited, "slow down")
			}
			return nil
		}
		w.start()
		first := w.launch("go")
		w.until("it waits", func(tx *bridge.Scene) bool {
			open, err := tx.OpenTurn(first.ID)
			return err == nil && open.State == bridge.TurnQueued && open.Trouble == "slow down"
		})
		if _, err := w.engine.StopTurn(t.Context(), w.firstTurn().ID); err != nil {
			t.Fatal(err)
		}
		w.resting()
		if a := w.agent(); a.State != bridge.AgentFailed || a.External != "" || a.Trouble != "a person stopped the turn before the agent got it" {
			t.Errorf("%+v", a)
		}
		calm.Store(true)
		if again := w.launch("go"); again.ID == first.ID {
			t.Errorf("the same agent %s", again.ID)
		}
		w.resting()
		if n := w.cloud.Effects("launch"); n != 1 {
			t.Errorf("%d launches", n)
		}
	})
}
