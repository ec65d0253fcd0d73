package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// pour sets the budget of trees.
func (w *world) pour(b policy.Budget) {
	r := rules
	r.Limits.Tree = b
	w.allow(r)
}

// TestBudgetOfLaunches: over the budget nothing of the turn runs, and the agent is told which.
func TestBudgetOfLaunches(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget policy.Budget
		want   string
	}{
		"launches": {policy.Budget{Launches: 2}, "the tree asks for 3 launches, it has had 0 and its budget is 2 (limits.tree.launches)"},
		"open":     {policy.Budget{Open: 2}, "the tree asks for 3 launches, 0 of its subagents are open and its budget is 2 (limits.tree.open)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, teamwork(), func(t *testing.T, w *world, _ *cast) {
				w.pour(tt.budget)
				w.start()
				w.launch("go")
				w.resting()
				wants(t, strings.Join(w.sent(boss), "\n"), tt.want)
				if n := w.cloud.Effects("launch"); n != 1 {
					t.Errorf("%d launches: %q", n, w.cloud.Log())
				}
			})
		})
	}
}

// TestLaunchesAreCountedForGood: what was launched counts although it has ended,
// what is open only while it is.
func TestLaunchesAreCountedForGood(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget   policy.Budget
		launches int
	}{"launches": {policy.Budget{Launches: 1}, 1}, "open": {policy.Budget{Open: 1}, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
				w.cloud.Answer = func(repo, text string) bridge.Observation {
					prompt, asks := strings.CutPrefix(text[strings.IndexByte(text, '\n')+1:], "launch ")
					if repo != boss || !asks {
						return bridge.Observation{Reply: "ok"}
					}
					return bridge.Observation{Reply: "SUBAGENT: repo=github.com/acme/a, prompt=" + prompt}
				}
				w.pour(tt.budget)
				w.start()
				w.launch("launch one")
				w.resting()
				w.say("launch two")
				w.resting()
				if n := w.cloud.Effects("launch github.com/acme/a"); n != tt.launches {
					t.Errorf("%d launches, want %d: %q", n, tt.launches, w.cloud.Log())
				}
			})
		})
	}
}

// TestApprovalIsNoBudget: a person's word does not lift the budget of a launch that was held.
func TestApprovalIsNoBudget(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/me/careful, prompt=x\nSUBAGENT: repo=github.com/acme/a, prompt=y\n"}
	virtual(t, first, func(t *testing.T, w *world, _ *cast) {
		w.pour(policy.Budget{Launches: 2})
		w.start()
		w.launch("go")
		w.resting()
		held := w.oneCommand(bridge.CommandHeld)
		w.pour(policy.Budget{Launches: 1})
		if _, err := w.yes(held.ID); bridge.KindOf(err) != bridge.Denied || !strings.Contains(err.Error(), "limits.tree.launches") {
			t.Errorf("approved: %v", err)
		}
		w.pour(policy.Budget{Launches: 2})
		if _, err := w.yes(held.ID); err != nil {
			t.Error(err)
		}
	})
}

func usage(tokens, micros int64, known bool) func(string) (bridge.Evidence, error) {
	return func(string) (bridge.Evidence, error) {
		return bridge.Evidence{Usage: &bridge.Usage{Tokens: tokens, CostMicros: micros, CostKnown: known}}, nil
	}
}

// TestBudgetOfTurns: a turn that the budget does not reach for waits, gated, and
// goes out within a minute when the budget was raised.
func TestBudgetOfTurns(t *testing.T) {
	t.Parallel()
	unread := func(string) (bridge.Evidence, error) { return bridge.Evidence{}, nil }
	for name, tt := range map[string]struct {
		budget, raised policy.Budget
		inspected      func(string) (bridge.Evidence, error)
		want           string
	}{
		"turns":       {policy.Budget{Turns: 1}, policy.Budget{Turns: 2}, nil, "the tree has had 1 turn and its budget is 1"},
		"tokens":      {policy.Budget{Tokens: 500}, policy.Budget{Tokens: 501}, usage(500, 0, false), "the tree has used 500 tokens and its budget is 500"},
		"cost":        {policy.Budget{CostUSD: 2}, policy.Budget{CostUSD: 3}, usage(1, 2_500_000, true), "the tree has cost 2.50 US dollars and its budget is 2"},
		"untold":      {policy.Budget{Tokens: 500}, policy.Budget{}, unread, "the usage of 1 agent of the tree is unknown"},
		"untold cost": {policy.Budget{CostUSD: 5}, policy.Budget{}, usage(1, 0, false), "the usage of 1 agent of the tree is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
				w.pour(tt.budget)
				w.cloud.Inspected = tt.inspected
				w.start()
				a := w.launch("go")
				w.resting()
				w.say("and on")
				w.until("gated", func(tx *bridge.Scene) bool {
					now, err := tx.Agent(a.ID)
					return err == nil && now.State == bridge.AgentGated && strings.Contains(now.Trouble, tt.want)
				})
				w.restart()
				w.pour(tt.raised)
				begun := time.Now()
				w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
				if wait := time.Since(begun); wait > 61*time.Second {
					t.Errorf("it took %s", wait)
				}
				w.resting()
				if got := w.agent(); got.State != bridge.AgentIdle || got.Trouble != "" {
					t.Errorf("%s, %q", got.State, got.Trouble)
				}
			})
		})
	}
}

// TestBudgetUnderItsName: a budget that is narrowed for one orchestrator holds for its tree alone.
func TestBudgetUnderItsName(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		r := rules
		r.Agents = map[string]policy.Narrowing{"main": {Tree: policy.Budget{Turns: 1}}}
		w.allow(r)
		w.start()
		a := w.launch("go")
		w.resting()
		w.say("and on")
		w.until("gated", func(tx *bridge.Scene) bool {
			now, err := tx.Agent(a.ID)
			return err == nil && now.State == bridge.AgentGated
		})
	})
}

// A turn that waits for a busy API is one turn, however often it is sent.
func TestATurnIsCountedOnce(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.pour(policy.Budget{Turns: 2})
		var sends atomic.Int64
		w.cloud.Fail = func(point, _ string) error {
			if n := sends.Add(1); point == "before send" && n < 20 {
				return bridge.Errorf(bridge.RateLimited, "slow down")
			}
			return nil
		}
		w.start()
		a := w.launch("go")
		w.resting()
		w.say("and on")
		w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		w.resting()
		err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
			tree, err := tx.Tree(a.ID)
			if tree.Turns != 2 {
				t.Errorf("%d turns are counted", tree.Turns)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A launch that the tree's turns do not reach for is given up and reported.
func TestLaunchWithoutATurnLeft(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, _ *cast) {
		w.pour(policy.Budget{Turns: 2})
		w.start()
		w.launch("go")
		w.until("two gave up", func(tx *bridge.Scene) bool {
			failed, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandFailed})
			return err == nil && len(failed) == 2
		})
		w.pour(policy.Budget{})
		w.until("told", func(*bridge.Scene) bool {
			return strings.Count(strings.Join(w.sent(boss), ""), "limits.tree.turns") == 2
		})
		if n := w.cloud.Effects("launch github.com/acme/"); n != 1 {
			t.Errorf("%d launches: %q", n, w.cloud.Log())
		}
	})
}

// Usage that could not be read once is asked for again when a turn waits for it.
func TestUsageIsReadAgain(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.pour(policy.Budget{Tokens: 500})
		var looks atomic.Int64 // from the agent's lane, and from that of its late usage
		w.cloud.Inspected = func(string) (bridge.Evidence, error) {
			if looks.Add(1) < 4 {
				return bridge.Evidence{}, bridge.Errorf(bridge.Unavailable, "internal error there")
			}
			return bridge.Evidence{Usage: &bridge.Usage{Tokens: 499}}, nil
		}
		w.start()
		a := w.launch("go")
		w.resting()
		w.say("and on")
		w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		w.resting()
		if got := w.agent(); got.Tokens != 499 || got.Unmetered || a.ID != got.ID {
			t.Errorf("%d tokens, unmetered: %v", got.Tokens, got.Unmetered)
		}
	})
}
