package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
	"drawbridge/proof/runtimes"
)

// ends are the ends of runs, one after the other; the last one repeats.
type ends struct {
	mu  sync.Mutex // guards all
	all map[string][]bridge.Observation
	// read are the runs whose end was decided.
	read map[string]bridge.Observation
}

// answer gives each text of a repository its end, once and for all.
func (e *ends) answer(repo, text string) bridge.Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o, known := e.read[repo+text]; known {
		return o
	}
	o := bridge.Observation{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "Done.", Seen: "2 commits on drawbridge/ada\nclean"}
	if all := e.all[repo]; len(all) > 0 {
		o, e.all[repo] = all[0], all[1:]
	}
	e.read[repo+text] = o
	return o
}

// hostedWorld is a world whose runs end as ends say. Its engine runs.
func hostedWorld(t *testing.T, all map[string][]bridge.Observation, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		e := &ends{all: all, read: map[string]bridge.Observation{}}
		w.cloud.Answer = e.answer
		w.start()
		test(t, w)
	})
}

func (w *world) launchLocal(prompt string) bridge.Agent {
	w.t.Helper()
	a, _, err := w.engine.LaunchAgent(w.t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: prompt, Runtime: "local"})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// is looks at the orchestrator.
func (w *world) is(fn func(bridge.Agent) bool) func(*bridge.Scene) bool {
	return func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "main")
		return err == nil && fn(a)
	}
}

// A limit is a time: nothing is said before it, whatever wakes the agent. Then its machine gets the same turn again, under the same
// marker, and looks what the agent has of it. A second limit is another one.
func TestLimitIsATime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		begun := time.Now()
		limit := func(after time.Duration) bridge.Observation {
			return bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: begun.Add(after), Detail: "resets at 9pm"}
		}
		e := &ends{read: map[string]bridge.Observation{}, all: map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Cause: bridge.CauseAnswered}, limit(5 * time.Hour), limit(9 * time.Hour)}}}
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			return e.answer(repo, text+time.Now().Truncate(4*time.Hour).String()) // the same words at another time are another run
		}
		w.start()
		w.launchLocal("go")
		w.resting()
		w.say("build it")
		w.until("it sleeps", w.is(func(a bridge.Agent) bool { return a.Doing == bridge.DoingSleep }))
		a := w.agent()
		if a.NotBefore.Before(begun.Add(5*time.Hour)) || a.NotBefore.After(begun.Add(5*time.Hour+10*time.Minute)) || a.State != bridge.AgentBusy || !strings.Contains(a.Trouble, "resets at 9pm") {
			t.Errorf("%+v", a)
		}
		w.say("and more") // a word of a person waits, too
		time.Sleep(4 * time.Hour)
		if got := w.sent(boss); len(got) != 1 {
			t.Errorf("before the limit was over it heard %q", got)
		}
		w.restart()
		w.resting()
		got := w.sent(boss)
		if strings.Join(got, "; ") != "build it; build it; build it; and more" {
			t.Errorf("it heard %q", got)
		}
		if time.Since(begun) < 9*time.Hour || len(w.timeline(bridge.EventTurnFailed, bridge.EventParked)) > 0 || len(w.timeline(bridge.EventAsleep)) != 2 {
			t.Errorf("after %s: %q", time.Since(begun), w.events())
		}
		if turns := w.turns(); strings.Join(turns, ", ") != "launch replied, user replied, user replied" {
			t.Errorf("turns %q", turns)
		}
		if a := w.agent(); a.Doing != bridge.DoingIdle || !a.NotBefore.IsZero() || a.Trouble != "" {
			t.Errorf("in the end %+v", a)
		}
	})
}

// What a person says to an agent whose limited turn had only news is a turn of its own: the limited one goes on with the text that it had.
func TestWordsDuringLimitedNews(t *testing.T) {
	t.Parallel()
	done := bridge.Observation{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "SUBAGENT: repo=github.com/acme/a, prompt=x"}
	limited := bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: time.Date(2000, 1, 1, 9, 0, 0, 0, time.UTC)}
	bubble(t, func(t *testing.T, w *world) {
		e := &ends{read: map[string]bridge.Observation{}, all: map[string][]bridge.Observation{boss: {done, limited}}}
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			return e.answer(repo, text+time.Now().Truncate(4*time.Hour).String()) // the same words at another time are another run
		}
		w.start()
		w.launchLocal("go")
		w.until("it sleeps", w.is(func(a bridge.Agent) bool { return a.Doing == bridge.DoingSleep }))
		w.say("stop that")
		w.until("its turns have ended", func(tx *bridge.Scene) bool {
			a, err := tx.FindAgent(bridge.ByName, "main")
			if err != nil {
				return false
			}
			_, open := tx.OpenTurn(a.ID)
			return errors.Is(open, bridge.ErrNoRow)
		})
		if got := strings.Join(w.sent(boss), "; "); !strings.Contains(got, "What happened") || !strings.Contains(got, "stop that") {
			t.Errorf("it heard %q", got)
		}
	})
}

// Agents of one tree that are limited until the same time do not wake together.
func TestLimitedAgentsWakeApart(t *testing.T) {
	t.Parallel()
	until := time.Date(2000, 1, 1, 9, 0, 0, 0, time.UTC)
	limited := []bridge.Observation{{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: until}}
	all := map[string][]bridge.Observation{boss: {{State: bridge.RunFinished, Cause: bridge.CauseAnswered,
		Reply: "SUBAGENT: repo=github.com/acme/a, prompt=x\nSUBAGENT: repo=github.com/acme/b, prompt=x\nSUBAGENT: repo=github.com/acme/c, prompt=x"}}}
	for _, repo := range []string{"github.com/acme/a", "github.com/acme/b", "github.com/acme/c"} {
		all[repo] = limited
	}
	hostedWorld(t, all, func(t *testing.T, w *world) {
		w.launchLocal("go")
		w.until("three sleep", func(tx *bridge.Scene) bool {
			agents, err := tx.Agents(bridge.AgentFilter{})
			asleep := map[time.Time]bool{}
			for _, a := range agents {
				if a.NotBefore.After(until) {
					asleep[a.NotBefore] = true
				}
			}
			return err == nil && len(asleep) == 3
		})
		w.resting()
		for _, repo := range []string{"github.com/acme/a", "github.com/acme/b", "github.com/acme/c"} {
			if got := w.sent(repo); len(got) != 1 || got[0] != "x" {
				t.Errorf("%s heard %q", repo, got)
			}
		}
	})
}

// A turn that its machine never said is said again, whole, after the time that the machine named.
func TestUnsaidIsSaidAgain(t *testing.T) {
	t.Parallel()
	begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished}}}, func(t *testing.T, w *world) {
		w.launchLocal("go")
		w.resting()
		var unsaid sync.Once
		answer := w.cloud.Answer
		w.cloud.Answer = func(repo, text string) (o bridge.Observation) {
			o = answer(repo, text)
			unsaid.Do(func() {
				o = bridge.Observation{State: bridge.RunError, Cause: bridge.CauseUnsaid, NotBefore: begun.Add(2 * time.Hour)}
			})
			return o
		}
		w.say("build it")
		w.resting()
		if got := w.sent(boss); len(got) != 2 || got[0] != "build it" || got[1] != "build it" || time.Since(begun) < 2*time.Hour {
			t.Errorf("after %s it heard %q", time.Since(begun), got)
		}
	})
}

// What may have been said is not said again by itself: the agent is parked with the cause in plain words, and a replay tries again.
func TestCausesPark(t *testing.T) {
	t.Parallel()
	for cause, want := range map[bridge.EndCause]string{
		bridge.CauseCrashed: "ERROR: the agent crashed or could not start: ", bridge.CauseHung: "said nothing for too long", bridge.CauseDeclined: "model refused",
		bridge.CauseLoginMissing: "login is missing", bridge.CauseSessionGone: "session is gone",
	} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			state := bridge.RunError
			if cause == bridge.CauseHung {
				state = bridge.RunExpired
			}
			hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished}, {State: state, Cause: cause, Detail: "exit status 1"}}}, func(t *testing.T, w *world) {
				w.launchLocal("go")
				w.resting()
				w.say("build it")
				w.until("parked", w.is(func(a bridge.Agent) bool { return a.State == bridge.AgentFailed }))
				time.Sleep(24 * time.Hour)
				a := w.agent()
				if got := w.sent(boss); len(got) != 1 || !strings.Contains(a.Trouble, want) || !strings.Contains(a.Trouble, "exit status 1") {
					t.Errorf("heard %q, trouble %q, want %q", got, a.Trouble, want)
				}
				failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)
				if _, err := w.engine.Continue(t.Context(), failed[0].ID); err != nil {
					t.Fatal(err)
				}
				w.resting()
				if got := w.sent(boss); len(got) != 2 || !strings.HasPrefix(got[1], "build it") {
					t.Errorf("after the replay it heard %q", got)
				}
			})
		})
	}
}

// A turn goes on once under one key, and later calls return it, whatever became of it. The key is good for nothing else.
func TestRetryUnderOneKey(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished}, {State: bridge.RunError, Cause: bridge.CauseCrashed}}}, func(t *testing.T, w *world) {
		w.launchLocal("go")
		w.resting()
		w.say("build it")
		w.until("parked", w.is(func(a bridge.Agent) bool { return a.State == bridge.AgentFailed }))
		a := w.agent()
		failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0].ID
		once := bridge.Once{Key: "k", Digest: "poke"}
		made := map[bridge.TurnID]bool{}
		for range 3 {
			again, err := w.engine.ContinueFor(t.Context(), a.ID, once, failed)
			if err != nil {
				t.Fatal(err)
			}
			made[again.ID] = true
			w.resting()
		}
		if got := w.sent(boss); len(got) != 2 || len(made) != 1 || !made[failed] {
			t.Errorf("heard %q in the turns %v", got, made)
		}
		once.Digest = "something else"
		if _, err := w.engine.ContinueFor(t.Context(), a.ID, once, failed); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("under a key that was used: %v", err)
		}
	})
}

// A subagent whose process ended at an open question has not failed: its parent hears that a person has to answer, and then its result.
func TestAskingIsNotFailing(t *testing.T) {
	t.Parallel()
	hostedWorld(t, map[string][]bridge.Observation{
		boss:   {{State: bridge.RunFinished, Reply: "SUBAGENT: repo=" + worker + ", prompt=do it"}},
		worker: {{State: bridge.RunError, Cause: bridge.CauseAsking, Reply: "LOCAL_ACTION: backup_script"}, {State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "All done.", Seen: "1 commit on drawbridge/x"}},
	}, func(t *testing.T, w *world) {
		w.launchLocal("go")
		w.until("the parent was told that it waits", func(*bridge.Scene) bool { return len(w.sent(boss)) > 0 })
		w.resting()
		asking := child(t, w, worker)
		if asking.Doing != bridge.DoingAsking || asking.State == bridge.AgentFailed || len(w.relay.Log()) > 0 {
			t.Errorf("%+v, actions %q", asking, w.relay.Log())
		}
		wants(t, w.sent(boss)[0], "a person has to answer")
		if _, err := w.engine.Say(t.Context(), asking.ID, "yes"); err != nil {
			t.Fatal(err)
		}
		w.until("the parent has the result", func(*bridge.Scene) bool { return len(w.sent(boss)) > 1 })
		wants(t, w.sent(boss)[1], "All done.", "confirmed by the relay: status FINISHED, answered", `read by the relay: "1 commit on drawbridge/x"`)
		if strings.Contains(w.sent(boss)[1], "the API") {
			t.Errorf("the API is named: %s", w.sent(boss)[1])
		}
	})
}

// What an agent does is recorded when it is news, with its time.
func TestDoing(t *testing.T) {
	t.Parallel()
	hostedWorld(t, nil, func(t *testing.T, w *world) {
		begun := time.Now()
		for _, do := range []bridge.Doing{bridge.DoingWorking, bridge.DoingSilent, bridge.DoingAsking} {
			since := time.Now().Add(-time.Minute)
			w.cloud.Answer = func(string, string) bridge.Observation {
				return bridge.Observation{State: bridge.RunRunning, Doing: do, DoingSince: since}
			}
			if do == bridge.DoingWorking {
				w.launchLocal("go")
			}
			w.until(string(do), w.is(func(a bridge.Agent) bool { return a.Doing == do }))
			if got := w.agent().DoingSince; !got.Equal(since) {
				t.Errorf("%s since %s, want %s", do, got, since)
			}
		}
		before := w.agent().UpdatedAt
		time.Sleep(time.Hour)
		if !w.agent().UpdatedAt.Equal(before) {
			t.Error("an agent is written again and again, although nothing is new")
		}
		w.cloud.Answer = func(string, string) bridge.Observation {
			return bridge.Observation{State: bridge.RunFinished, Cause: bridge.CauseAnswered}
		}
		w.resting()
		if a := w.agent(); a.Doing != bridge.DoingIdle || a.DoingSince.Before(begun.Add(time.Hour)) {
			t.Errorf("%s since %s", a.Doing, a.DoingSince)
		}
	})
}

// A run that waits for the end of a limit itself shows as limited until then. Its parent hears of it once, with other news, and nothing of it is left
// when the run goes on.
func TestLimitOfARunningTurn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		begun := time.Now()
		until := begun.Add(5 * time.Hour)
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case repo == boss && text == "go":
				return bridge.Observation{State: bridge.RunFinished, Reply: "SUBAGENT: repo=" + worker + ", prompt=do it"}
			case repo == boss:
				return bridge.Observation{State: bridge.RunFinished, Reply: "Noted."}
			case time.Now().Before(until):
				return bridge.Observation{State: bridge.RunRunning, Doing: bridge.DoingSleep, DoingSince: begun, NotBefore: until, Detail: "slow down"}
			case time.Now().Before(until.Add(time.Hour)):
				return bridge.Observation{State: bridge.RunRunning, Doing: bridge.DoingWorking, DoingSince: until}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "All done."}
		}
		w.start()
		w.launchLocal("go")
		w.until("it sleeps", func(tx *bridge.Scene) bool {
			all, err := tx.Agents(bridge.AgentFilter{})
			return err == nil && slices.ContainsFunc(all, func(a bridge.Agent) bool { return a.Repo == worker && a.Doing == bridge.DoingSleep })
		})
		kid := child(t, w, worker)
		if !kid.NotBefore.Equal(until) || !strings.Contains(kid.Trouble, "slow down") || kid.State != bridge.AgentBusy {
			t.Errorf("%+v", kid)
		}
		w.until("it works", func(tx *bridge.Scene) bool {
			a, err := tx.Agent(kid.ID)
			return err == nil && a.Doing == bridge.DoingWorking && a.NotBefore.IsZero() && a.Trouble == ""
		})
		if time.Now().Before(until) {
			t.Error("it works before the limit is over")
		}
		w.until("the parent has the result", func(*bridge.Scene) bool { return len(w.sent(boss)) > 0 })
		w.resting()
		told := strings.Join(w.sent(boss), "\n")
		if len(w.sent(boss)) != 1 || strings.Count(told, "slow down") != 1 || !strings.Contains(told, "All done.") || len(w.timeline(bridge.EventAsleep)) != 1 {
			t.Errorf("the parent heard %q; %q", told, w.events())
		}
		if kid = child(t, w, worker); kid.Doing != bridge.DoingIdle || !kid.NotBefore.IsZero() {
			t.Errorf("in the end %+v", kid)
		}
	})
}

// An agent whose model does not answer says so while that lasts, and what happened to a run that goes on stays with the turn until its end.
func TestWaitsForTheModel(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		begun := time.Now()
		w.cloud.Answer = func(string, string) bridge.Observation {
			switch hours := time.Since(begun).Hours(); {
			case hours < 1:
				return bridge.Observation{State: bridge.RunRunning, Doing: bridge.DoingNoModel, DoingSince: begun, Detail: "cannot be reached"}
			case hours < 2:
				return bridge.Observation{State: bridge.RunRunning, Doing: bridge.DoingWorking, DoingSince: begun}
			case hours < 3:
				return bridge.Observation{State: bridge.RunRunning, Doing: bridge.DoingWorking, DoingSince: begun, Detail: "its process ended"}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "ok", Detail: "its end may be missing"}
		}
		w.start()
		w.launchLocal("go")
		shows := func(doing bridge.Doing, trouble string) {
			t.Helper()
			w.until(string(doing)+" "+trouble, w.is(func(a bridge.Agent) bool {
				return a.Doing == doing && (trouble == "" && a.Trouble == "" || trouble != "" && strings.Contains(a.Trouble, trouble))
			}))
		}
		shows(bridge.DoingNoModel, `the model does not answer, and the bridge asks it again: "cannot be reached"`)
		shows(bridge.DoingWorking, "")
		shows(bridge.DoingWorking, `the agent's machine says: "its process ended"`)
		shows(bridge.DoingIdle, "")
		wants(t, lastTurn(t, w, w.agent().ID).Trouble, "its end may be missing")
	})
}

// marks notes the markers of follow-ups. It is read when the world rests.
type marks struct {
	*runtimes.Cloud
	all []string
}

func (m *marks) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	m.all = append(m.all, f.Marker)
	return m.Cloud.Send(ctx, f)
}

// A limit that a machine calls endless ends: the turn is said again after two weeks. A first turn has no marker of its own then,
// because the launch had none: its machine looks for that of the launch.
func TestEndlessLimitEnds(t *testing.T) {
	t.Parallel()
	limited := bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	bubble(t, func(t *testing.T, w *world) {
		w.cloud.Answer = (&ends{all: map[string][]bridge.Observation{boss: {limited}}, read: map[string]bridge.Observation{}}).answer
		marks := &marks{Cloud: w.cloud}
		w.runtime = marks
		w.start()
		begun := time.Now()
		w.launchLocal("go")
		w.resting()
		w.say("and then?")
		w.resting()
		if all := marks.all; len(all) != 2 || all[0] != "" || all[1] == "" {
			t.Errorf("the markers of the turns that followed: %q", all)
		}
		if got, took := w.sent(boss), time.Since(begun); len(got) != 2 || got[0] != "go" || took < 14*24*time.Hour || took > 15*24*time.Hour {
			t.Errorf("after %s it heard %q", took, got)
		}
	})
}

// A tree that a person stops while its agent sleeps does not wait for the limit.
func TestStopEndsALimit(t *testing.T) {
	t.Parallel()
	begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	limited := bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: begun.Add(5 * time.Hour)}
	hostedWorld(t, map[string][]bridge.Observation{boss: {{State: bridge.RunFinished}, limited}}, func(t *testing.T, w *world) {
		w.launchLocal("go")
		w.resting()
		w.say("build it")
		w.until("it sleeps", w.is(func(a bridge.Agent) bool { return a.Doing == bridge.DoingSleep }))
		w.halt()
		w.resting()
		if got := w.sent(boss); len(got) != 1 || time.Since(begun) > time.Hour {
			t.Errorf("after %s it heard %q", time.Since(begun), got)
		}
	})
}

// A turn that a limit cut off, and whose machine then did not take it, stays the turn that its agent has: the agent reads no more of it than
// the beginning, so that another turn tells what came meanwhile.
func TestLimitThenUnsaid(t *testing.T) {
	t.Parallel()
	begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	bubble(t, func(t *testing.T, w *world) {
		w.cloud.Answer = func(_, text string) bridge.Observation {
			o := bridge.Observation{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Reply: "Done."}
			switch age := time.Since(begun); {
			case text == "go":
				o.Reply = "REMIND: 3m, tea"
			case !strings.Contains(text, "build it"):
			case age < 5*time.Minute:
				return bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, NotBefore: begun.Add(10 * time.Minute)}
			case age < 15*time.Minute:
				return bridge.Observation{State: bridge.RunError, Cause: bridge.CauseUnsaid, NotBefore: begun.Add(20 * time.Minute)}
			}
			return o
		}
		w.start()
		a := w.launchLocal("go")
		w.resting()
		w.say("build it")
		w.until("it sleeps", w.is(func(a bridge.Agent) bool { return a.Doing == bridge.DoingSleep }))
		w.until("its machine did not take it", w.is(func(a bridge.Agent) bool { return strings.Contains(a.Trouble, "did not take the turn") }))
		if _, err := w.engine.Move(t.Context(), a.ID, "desk"); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("it moved in the middle of a turn: %v", err)
		}
		w.resting()
		got := w.sent(boss)
		if len(got) != 4 || got[0] != got[1] || got[0] != got[2] || strings.Contains(got[0], "tea") || !strings.Contains(got[3], "tea") {
			t.Errorf("it heard %q", got)
		}
	})
}

// TestSpentByHostedTurns: what turns on a machine took, as their agents say it, is summed up for the agent and its tree, and counts against the budget.
// A run that never reached the agent took nothing. What a run took until a limit counts, too. A run without the number that a budget bounds uses it up.
func TestSpentByHostedTurns(t *testing.T) {
	t.Parallel()
	usd, all := int64(1_500_000), bridge.Tokens{Input: 1, Output: 2, CacheWrite: 3, CacheRead: 94}
	ended := func(s *bridge.Spent) bridge.Observation {
		return bridge.Observation{State: bridge.RunFinished, Cause: bridge.CauseAnswered, Spent: s}
	}
	both, none := &bridge.Spent{Tokens: &all, CostMicros: &usd, Model: "m"}, &bridge.Spent{Tokens: &bridge.Tokens{}, CostMicros: new(int64)}
	unsaid := bridge.Observation{State: bridge.RunCancelled, Cause: bridge.CauseUnsaid, Detail: "stopped"}
	login := bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLoginMissing, Spent: none}
	limited := bridge.Observation{State: bridge.RunError, Cause: bridge.CauseLimited, Spent: both}
	type sum struct {
		tokens, micros int64
		unmetered      bool
	}
	for name, tt := range map[string]struct {
		budget policy.Budget
		ends   []bridge.Observation
		// sums are what is known after each turn.
		sums []sum
	}{
		"both told":            {policy.Budget{Tokens: 1000, CostUSD: 10}, []bridge.Observation{ended(both), ended(both), unsaid, login}, []sum{{100, usd, false}, {200, 2 * usd, false}, {200, 2 * usd, false}, {200, 2 * usd, false}}},
		"until a limit":        {policy.Budget{Tokens: 1000, CostUSD: 10}, []bridge.Observation{limited, ended(both)}, []sum{{200, 2 * usd, false}}},
		"nothing told":         {policy.Budget{Tokens: 1000}, []bridge.Observation{ended(both), ended(nil)}, []sum{{100, usd, false}, {100, usd, true}}},
		"cost bound, no cost":  {policy.Budget{CostUSD: 10}, []bridge.Observation{ended(&bridge.Spent{Tokens: &all})}, []sum{{100, 0, true}}},
		"cost bound, cost":     {policy.Budget{CostUSD: 10}, []bridge.Observation{ended(&bridge.Spent{CostMicros: &usd})}, []sum{{0, usd, false}}},
		"token bound, no cost": {policy.Budget{Tokens: 1000}, []bridge.Observation{ended(&bridge.Spent{Tokens: &all})}, []sum{{100, 0, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostedWorld(t, map[string][]bridge.Observation{boss: tt.ends}, func(t *testing.T, w *world) {
				w.pour(tt.budget)
				a := w.launchLocal("go")
				for n, want := range tt.sums {
					if n > 0 {
						w.say(fmt.Sprint("and on ", n))
					}
					w.resting()
					var now bridge.Agent
					var tree bridge.Tree
					err := w.engine.View(t.Context(), func(tx *bridge.Scene) (err error) {
						if now, err = tx.Agent(a.ID); err == nil {
							tree, err = tx.Tree(a.ID)
						}
						return err
					})
					if got := (sum{now.Tokens, now.CostMicros, now.Unmetered}); err != nil || got != want || tree.Tokens != want.tokens || tree.CostMicros != want.micros || tree.Unmetered > 0 != want.unmetered {
						t.Errorf("after turn %d: the agent %+v, the tree %+v, want %+v; %v", n+1, got, tree, want, err)
					}
				}
				if !tt.sums[len(tt.sums)-1].unmetered {
					return
				}
				w.say("and on, without a measure")
				w.until("gated", w.is(func(a bridge.Agent) bool {
					return a.State == bridge.AgentGated && strings.Contains(a.Trouble, "the usage of 1 agent of the tree is unknown")
				}))
			})
		})
	}
}

// The record and the event of a turn's end say what all its runs took.
func TestSpentOfATurn(t *testing.T) {
	t.Parallel()
	usd := int64(7)
	took := &bridge.Spent{Tokens: &bridge.Tokens{Input: 1, Output: 2, CacheWrite: 3, CacheRead: 4}, CostMicros: &usd, Model: "m"}
	hostedWorld(t, map[string][]bridge.Observation{boss: {
		{State: bridge.RunError, Cause: bridge.CauseLimited, Spent: took}, {State: bridge.RunFinished, Cause: bridge.CauseAnswered, Spent: took},
	}}, func(t *testing.T, w *world) {
		a := w.launchLocal("go")
		w.resting()
		var all []bridge.Turn
		err := w.engine.View(t.Context(), func(tx *bridge.Scene) (err error) {
			all, err = tx.Turns(bridge.TurnFilter{Agent: a.ID})
			return err
		})
		if err != nil || len(all) != 1 || all[0].Spent == nil || *all[0].Spent.Tokens != (bridge.Tokens{Input: 2, Output: 4, CacheWrite: 6, CacheRead: 8}) || *all[0].Spent.CostMicros != 14 || all[0].Spent.Model != "m" {
			t.Errorf("%+v, %v", all, err)
		}
		fields := w.ended(bridge.EventCompleted, 1)[0].Fields // of the last run alone
		if fields["input_tokens"] != "1" || fields["cache_read_tokens"] != "4" || fields["cost_micros"] != "7" || fields["model"] != "m" {
			t.Errorf("the event says %v", fields)
		}
	})
}
