package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// child repositories of the stories below.
const (
	worker = "github.com/acme/a"
	helper = "github.com/acme/b"
)

// says lets the agents of a repository say one text after the other, the last one for good.
func (c *cast) says(w *world, repo string, texts ...string) {
	others := w.cloud.Answer
	said := 0
	w.cloud.Answer = func(at, text string) bridge.Observation {
		if at != repo {
			return others(at, text)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !strings.HasPrefix(text, "[bridge ") {
			return bridge.Observation{State: c.states[at], Reply: texts[0]}
		}
		if turn := strings.SplitN(text, "]", 2)[0]; c.first[turn] == "" { // observed more than once
			said = min(said+1, len(texts)-1)
			c.first[turn] = texts[said]
		}
		return bridge.Observation{State: c.later[at], Reply: c.first[strings.SplitN(text, "]", 2)[0]]}
	}
}

// tell leaves a message for an agent, as mail does.
func (w *world) tell(id bridge.AgentID, text string) {
	w.t.Helper()
	err := w.engine.Change(w.t.Context(), func(tx bridge.Change) error {
		_, err := tx.Notify(bridge.Notice{Agent: id, Cause: bridge.CauseMessage, Text: bridge.Words(text)})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// launchOf is the command that made an agent.
func (w *world) launchOf(a bridge.Agent) (m bridge.Command) {
	w.t.Helper()
	err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) (err error) {
		m, err = tx.Command(a.Command)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// one fails unless a text stands exactly once in what the orchestrator was told, and none of the others does.
func (w *world) one(want string, not ...string) {
	w.t.Helper()
	all := strings.Join(w.sent(boss), "\n")
	if n := strings.Count(all, want); n != 1 {
		w.t.Errorf("told %q %d times:\n%s", want, n, all)
	}
	for _, text := range not {
		if strings.Contains(all, text) {
			w.t.Errorf("told %q:\n%s", text, all)
		}
	}
}

// story plays an orchestrator that launches one worker.
func story(t *testing.T, test func(t *testing.T, w *world, c *cast)) {
	t.Helper()
	virtual(t, map[string]string{boss: "SUBAGENT: repo=" + worker + ", prompt=do it", helper: "helped"}, func(t *testing.T, w *world, c *cast) {
		w.start()
		test(t, w, c)
	})
}

// TestResultWaitsForWhatIsOpen: a subagent has one result, which is what it says
// in the first turn that leaves nothing of its task open.
func TestResultWaitsForWhatIsOpen(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, first string }{
		{"an action", "LOCAL_ACTION: backup_script"},
		{"a subagent", "SUBAGENT: repo=" + helper + ", prompt=help"},
		{"both", "LOCAL_ACTION: backup_script\nSUBAGENT: repo=" + helper + ", prompt=help"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			story(t, func(t *testing.T, w *world, c *cast) {
				c.says(w, worker, "working on it\n"+tt.first, "all done")
				w.launch("go")
				w.resting()
				w.one("| all done", "working on it")
				if m := w.launchOf(child(t, w, worker)); m.State != bridge.CommandReported || m.Outcome == nil || m.Outcome.Status != "FINISHED" {
					t.Errorf("the launch is %s: %+v", m.State, m.Outcome)
				}
				a := child(t, w, worker)
				w.tell(a.ID, "a question from a sibling")
				w.resting()
				if n := len(w.sent(boss)); n != 1 || len(w.sent(worker)) < 2 {
					t.Errorf("the orchestrator had %d turns: %q", n, w.sent(boss))
				}
			})
		})
	}
}

// TestResultDoesNotWaitForMail: mail that a subagent did not ask for keeps nothing open.
func TestResultDoesNotWaitForMail(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "all done", "chatting")
		c.runs(bridge.RunRunning, worker)
		w.launch("go")
		w.until("it runs", func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
			return err == nil && len(turns) == 1 && turns[0].Text == "do it"
		})
		w.tell(child(t, w, worker).ID, "hello")
		c.runs(bridge.RunFinished, worker)
		w.resting()
		w.one("| all done", "chatting")
	})
}

// TestResultOfACorrectedLine: a refused line is reported back, and the subagent may
// correct it; the parent hears what it did then, and what it had said.
func TestResultOfACorrectedLine(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "first words\nLOCAL_ACTION: rm_all", "corrected\nLOCAL_ACTION: backup_script", "all done")
		w.launch("go")
		w.resting()
		w.one("| all done", "corrected")
	})
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "the work is done\nLOCAL_ACTION: rm_all", "never mind")
		w.launch("go")
		w.resting()
		w.one("| the work is done")
		w.one("| never mind")
		if n := len(w.sent(boss)); n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

// TestReminderOfASubagent: a reminder keeps no task open, but that of an agent
// without a door, which has no other way to come back to it.
func TestReminderOfASubagent(t *testing.T) {
	t.Parallel()
	for api, want := range map[string]string{bridge.APIv1: "set a reminder", bridge.APIv0: "looked again"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			story(t, func(t *testing.T, w *world, c *cast) {
				r := rules
				r.Repos = []policy.RepoRule{{Pattern: worker, API: api}}
				w.allow(r)
				c.says(w, worker, "set a reminder\nREMIND: 2h, look again", "looked again")
				begun := time.Now()
				w.launch("go")
				w.until("it came", func(tx *bridge.Scene) bool { return len(w.sent(worker)) == 1 })
				w.resting()
				w.one("| " + want)
				if m := w.launchOf(child(t, w, worker)); m.UpdatedAt.Sub(begun) < 2*time.Hour && api == bridge.APIv0 {
					t.Errorf("its task ended after %s", m.UpdatedAt.Sub(begun))
				}
			})
		})
	}
}

// TestCancelledReminderEndsATask: what was open may end without a turn.
func TestCancelledReminderEndsATask(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		r := rules
		r.Repos = []policy.RepoRule{{Pattern: worker, API: bridge.APIv0}}
		w.allow(r)
		c.says(w, worker, "set a reminder\nREMIND: 2h, look again", "looked again")
		w.launch("go")
		w.resting()
		w.until("it is set", func(*bridge.Scene) bool { return child(t, w, worker).State == bridge.AgentWaiting })
		if len(w.sent(boss)) != 0 {
			t.Errorf("told %q", w.sent(boss))
		}
		if _, err := w.engine.CancelReminder(t.Context(), w.oneCommand(bridge.CommandGranted).ID); err != nil {
			t.Fatal(err)
		}
		w.resting()
		w.one("| set a reminder")
		if a := child(t, w, worker); a.State != bridge.AgentDone || a.Task != bridge.TaskDone {
			t.Errorf("it is %s, its task %q", a.State, a.Task)
		}
	})
}

// TestTaskWaitsForAPerson: the parent is told once, and the result comes when the person has spoken.
func TestTaskWaitsForAPerson(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		story(t, func(t *testing.T, w *world, c *cast) {
			c.says(w, worker, "asked\nSUBAGENT: repo=github.com/me/careful, prompt=x", "still waiting", "all done")
			w.launch("go")
			w.resting()
			w.one("waits for a person", "| asked")
			w.tell(child(t, w, worker).ID, "hello")
			w.resting()
			w.one("waits for a person", "| still waiting")
			held := w.oneCommand(bridge.CommandHeld)
			var err error
			if approve {
				_, err = w.yes(held.ID)
			} else {
				_, err = w.engine.Deny(t.Context(), held.ID, "no")
			}
			if err != nil {
				t.Fatal(err)
			}
			w.resting()
			w.one("waits for a person")
			w.one("| all done", "drawbridge")
		})
	}
}

// TestFailedTask: the parent is told of the failure once, and of a success after a replay.
func TestFailedTask(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		first []string
	}{
		{"in its first turn", []string{"broken", "all done"}},
		{"in a later turn", []string{"working\nLOCAL_ACTION: backup_script", "all done"}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			story(t, func(t *testing.T, w *world, c *cast) {
				c.says(w, worker, tt.first...)
				if i == 0 {
					c.runs(bridge.RunError, worker)
				} else {
					c.follows(bridge.RunError, worker)
				}
				w.launch("go")
				w.resting()
				w.one("status=ERROR", "status=FINISHED")
				if m := w.launchOf(child(t, w, worker)); m.State != bridge.CommandReported || m.Outcome.Status != "ERROR" {
					t.Errorf("the launch is %s: %+v", m.State, m.Outcome)
				}
				c.follows(bridge.RunFinished, worker)
				a := child(t, w, worker)
				if _, err := w.engine.Continue(t.Context(), lastTurn(t, w, a.ID).ID); err != nil {
					t.Fatal(err)
				}
				w.resting()
				w.one("status=ERROR")
				w.one("status=FINISHED")
				wants(t, w.sent(boss)[1], "| all done")
				if a := child(t, w, worker); a.Task != bridge.TaskDone {
					t.Errorf("its task is %q", a.Task)
				}
			})
		})
	}
}

func lastTurn(t *testing.T, w *world, id bridge.AgentID) (last bridge.Turn) {
	t.Helper()
	err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Turns(bridge.TurnFilter{Agent: id, Limit: 1})
		if len(all) > 0 {
			last = all[0]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// TestGatedTask: the parent of a subagent that may not go on is told so, once.
func TestGatedTask(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		r := rules
		r.Limits.TurnsPerChain = 2
		w.allow(r)
		c.says(w, worker, "1\nLOCAL_ACTION: backup_script", "2\nLOCAL_ACTION: backup_script", "3\nLOCAL_ACTION: backup_script", "all done")
		w.launch("go")
		w.until("gated", func(tx *bridge.Scene) bool {
			gated, err := tx.Agents(bridge.AgentFilter{State: bridge.AgentGated})
			return err == nil && len(gated) == 1
		})
		w.resting()
		w.one("waits for a person: gated", "drawbridge")
		if _, err := w.engine.Say(t.Context(), child(t, w, worker).ID, "go on"); err != nil {
			t.Fatal(err)
		}
		w.resting()
	})
}

// TestConcludedTask: what a subagent reports itself is its result, and no other is told.
func TestConcludedTask(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
		c.joinedTeam(w)
		a := child(t, w, team[0])
		err := w.engine.Change(t.Context(), func(tx bridge.Change) error {
			_, err := tx.Conclude(a, bridge.Notice{Cause: bridge.CauseCompletion, Text: "its own report", Untrusted: "result-a"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if m := w.launchOf(a); m.State != bridge.CommandFinished || len(w.sent(boss)) != 0 {
			t.Errorf("the launch is %s; told %q", m.State, w.sent(boss))
		}
		c.runs(bridge.RunFinished, team...)
		w.resting()
		if diff := cmp.Diff([]string{"a b c 3/3"}, sortedFirst(heard(w))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTeamThatTalks: turns of subagents that mail among themselves do not wake their parent.
func TestTeamThatTalks(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, _ *cast) {
		w.start()
		w.launch("go")
		w.resting()
		for range 9 {
			for _, repo := range team {
				w.tell(child(t, w, repo).ID, "news from a sibling")
			}
			w.resting()
		}
		turns := 0
		for _, repo := range team {
			turns += 1 + len(w.sent(repo))
		}
		if n := len(w.sent(boss)); turns != 30 || n < 1 || n > len(team) {
			t.Errorf("%d turns of three subagents woke their parent %d times", turns, n)
		}
	})
}
