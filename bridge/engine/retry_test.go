package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

// TestRetryByCause: what broke or ran out of time is tried three times more,
// with growing waits, and then parked; what a person cancelled is not.
func TestRetryByCause(t *testing.T) {
	t.Parallel()
	for state, tt := range map[bridge.RunState]struct {
		tries    int
		from, to time.Duration
	}{
		bridge.RunError:     {4, 9 * time.Minute, 14 * time.Minute}, // 30 s, 2 min and 8 min, a tenth more or less, and the looks
		bridge.RunExpired:   {4, 9 * time.Minute, 14 * time.Minute},
		bridge.RunCancelled: {1, 0, time.Minute},
		bridge.RunFinished:  {1, 0, time.Minute},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, c *cast) {
				c.follows(state, boss)
				w.start()
				begun := time.Now()
				w.launch("go")
				w.resting()
				sent := w.sent(boss)
				if len(sent) != tt.tries {
					t.Errorf("told %d times, want %d: %q", len(sent), tt.tries, sent)
				}
				for _, text := range sent {
					wants(t, text, "executed, exit code 0")
				}
				if after := time.Since(begun); after < tt.from || after > tt.to {
					t.Errorf("it took %s", after)
				}
				retries, parked := len(w.timeline(bridge.EventRetry)), state != bridge.RunFinished
				if retries != tt.tries-1 || (len(w.timeline(bridge.EventParked)) > 0) != parked {
					t.Errorf("events:\n%s", strings.Join(w.events(), "\n"))
				}
				if got := w.agent().State; (got == bridge.AgentFailed) != parked {
					t.Errorf("the agent is %s", got)
				}
			})
		})
	}
}

// TestRetryTellsAllOfIt: what a turn that broke carried is told by the one that does not.
func TestRetryTellsAllOfIt(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script\nLOCAL_ACTION: rm_all"}, func(t *testing.T, w *world, c *cast) {
		c.follows(bridge.RunError, boss)
		w.start()
		w.launch("go")
		w.until("broke", func(*bridge.Scene) bool { return len(w.timeline(bridge.EventRetry)) == 2 })
		c.follows(bridge.RunFinished, boss)
		w.restart()
		w.resting()
		for _, m := range w.commands() {
			if !strings.HasSuffix(m, " reported") {
				t.Error(m)
			}
		}
		sent := w.sent(boss)
		wants(t, sent[len(sent)-1], "executed, exit code 0", `action "rm_all" is not on the allowlist`)
	})
}

// TestFirstTurns: an orchestrator's launch that broke is said again to the same
// agent; a subagent's is its parent's to judge.
func TestFirstTurns(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "SUBAGENT: repo=github.com/acme/a, prompt=do it"}, func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunError, boss, "github.com/acme/a")
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			if repo == boss && strings.Contains(text, "\ngo\n\n[items ") {
				return bridge.Observation{Reply: c.first[boss]}
			}
			return c.answer(repo, text)
		}
		w.start()
		w.launch("go")
		w.resting()
		if diff := cmp.Diff([]string{"launch failed", "launch replied", "completion replied"}, w.turns()); diff != "" {
			t.Error(diff)
		}
		if n := w.cloud.Effects("launch"); n != 2 {
			t.Errorf("%d launches", n)
		}
		wants(t, w.sent(boss)[1], "ended with status ERROR")
		if got := w.sent("github.com/acme/a"); len(got) != 0 {
			t.Errorf("the subagent was told %q", got)
		}
	})
}

// TestRetryOfASubagent: its parent hears of it when there is another reason to speak to it.
func TestRetryOfASubagent(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/acme/a, prompt=do it", "github.com/acme/a": "LOCAL_ACTION: rm_all"}
	virtual(t, first, func(t *testing.T, w *world, c *cast) {
		c.follows(bridge.RunError, "github.com/acme/a")
		w.start()
		w.launch("go")
		w.resting()
		if n := len(w.sent("github.com/acme/a")); n != 4 {
			t.Errorf("told %d times", n)
		}
		told := w.sent(boss)
		if len(told) != 1 { // the first turn is not the result: its refused line was reported back
			t.Fatalf("told %q", told)
		}
		wants(t, told[0], "the bridge tries again in", "(1 of 3)", "(3 of 3)", "ended with status ERROR")
	})
}

// TestParked: a person's word takes along what waits for an agent whose turn failed.
func TestParked(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		var paid atomic.Bool
		w.cloud.Fail = func(point, _ string) error {
			if point == "before send" && !paid.Load() {
				return bridge.Errorf(bridge.UsageLimited, "the plan's limit is reached")
			}
			return nil
		}
		w.start()
		w.launch("go")
		w.resting()
		if got := w.agent(); got.State != bridge.AgentFailed || got.Trouble != "the plan's limit is reached" || len(w.turns()) != 2 {
			t.Fatalf("%s: %s, turns %q", got.State, got.Trouble, w.turns())
		}
		for _, e := range w.timeline(bridge.EventParked) {
			wants(t, e.Text, "1 outcome waits for agent main, whose turn failed (the plan's limit is reached); `drawbridge continue trn_") // a person reads what to do
		}
		failed := w.timeline(bridge.EventTurnFailed)
		if n := len(w.timeline(bridge.EventParked)); n != 1 || len(failed) != 1 || failed[0].Fields["duration_ms"] == "" { // traces draw the run from it, in place of a completion
			t.Errorf("parked %d times; failed: %+v", n, failed)
		}
		paid.Store(true)
		w.say("it is paid now")
		w.resting()
		if got := w.sent(boss); len(got) != 1 || !strings.HasPrefix(got[0], "it is paid now\n\nWhat happened") {
			t.Errorf("told %q", got)
		}
		wants(t, w.sent(boss)[0], "executed, exit code 0")
	})
}

// TestOvertake: a person's words do not wait behind the back-off of what is only
// news; they take it along, and have all their own tries.
func TestOvertake(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, c *cast) {
		c.follows(bridge.RunError, boss)
		w.start()
		w.launch("go")
		w.until("broke twice", func(tx *bridge.Scene) bool {
			queued, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnQueued})
			return err == nil && len(queued) == 1 && queued[0].Retry == 2
		})
		before, begun := len(w.sent(boss)), time.Now()
		said := w.say("hurry")
		w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) > before })
		if wait := time.Since(begun); wait > time.Second {
			t.Errorf("it took %s", wait)
		}
		if text := w.sent(boss)[before]; !strings.HasPrefix(text, "hurry\n\n") || said.Cause != bridge.CauseUser {
			t.Errorf("%s: %s", said.Cause, text)
		}
		wants(t, w.sent(boss)[before], "executed, exit code 0")
		w.resting()
		if n := len(w.sent(boss)) - before; n != 4 {
			t.Errorf("the words were said %d times", n)
		}
	})
}

// TestWordsStandInLine: what a person said first is said first.
func TestWordsStandInLine(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunRunning, boss)
		w.start()
		w.launch("go")
		w.until("runs", func(tx *bridge.Scene) bool {
			running, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
			return err == nil && len(running) == 1
		})
		for _, text := range []string{"one", "two", "three"} {
			w.say(text)
		}
		c.runs(bridge.RunFinished, boss)
		w.resting()
		if diff := cmp.Diff([]string{"one", "two", "three"}, w.sent(boss)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBrokenWordsStandInLine: words whose run broke are said again in front of
// what a person said after them, and not behind it; a replay says nothing twice.
func TestBrokenWordsStandInLine(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, c *cast) {
		w.start()
		w.launch("go")
		w.resting()
		broken := ""
		w.cloud.Answer = func(_, text string) bridge.Observation {
			c.mu.Lock()
			defer c.mu.Unlock()
			if broken == "" {
				return bridge.Observation{State: bridge.RunRunning}
			}
			if strings.HasSuffix(text, broken) {
				return bridge.Observation{State: bridge.RunError}
			}
			return bridge.Observation{State: bridge.RunFinished}
		}
		first := w.say("one")
		w.turnsIn(first.Agent, bridge.TurnRunning, 1)
		second := w.say("two")
		w.say("three")
		c.mu.Lock()
		broken = "one"
		c.mu.Unlock()
		w.turnsIn(first.Agent, bridge.TurnFailed, 1)
		if again, err := w.engine.Continue(t.Context(), first.ID); bridge.KindOf(err) != bridge.Conflict && (err != nil || again.ID != second.ID) {
			t.Errorf("replayed as turn %d, %v", again.Seq, err)
		}
		w.resting()
		if diff := cmp.Diff([]string{"one", "one\n\ntwo", "three"}, w.sent(boss)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBrokenWordsGoWithNews: news that waits behind words whose run broke goes
// with them when they are due again, and what is said meanwhile comes after.
func TestBrokenWordsGoWithNews(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "REMIND: 1m, tea"}, func(t *testing.T, w *world, c *cast) {
		w.start()
		a := w.launch("go")
		w.resting()
		c.follows(bridge.RunRunning, boss)
		w.say("one")
		w.until("the reminder waits", func(tx *bridge.Scene) bool {
			all, err := tx.WaitingNotices(a.ID, 10)
			return err == nil && len(all) == 1
		})
		begun := time.Now()
		c.follows(bridge.RunError, boss)
		w.turnsIn(a.ID, bridge.TurnFailed, 1)
		w.say("two")
		c.follows(bridge.RunFinished, boss)
		w.resting()
		sent := w.sent(boss)
		if len(sent) != 3 || !strings.HasPrefix(sent[1], "one\n\nWhat happened") || sent[2] != "two" || time.Since(begun) > 3*time.Minute {
			t.Errorf("after %s said %q", time.Since(begun), sent)
		}
	})
}

// A lost follow-up is sent again as soon as its runtime can tell that it did not arrive: in the cloud after the settle time.
func TestLostFollowUpWaitsAsLongAsItsRuntimeSays(t *testing.T) {
	t.Parallel()
	for api, wait := range map[string]bool{bridge.APIv1: true, "local": false} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
				var lost atomic.Bool
				w.cloud.Fail = func(point, _ string) error {
					if point == "before send" && !lost.Swap(true) {
						return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
					}
					return nil
				}
				w.start()
				if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go", Runtime: api}); err != nil {
					t.Fatal(err)
				}
				w.resting()
				begun := time.Now()
				w.say("hello")
				w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
				if took := time.Since(begun); (took >= w.settle) != wait || took > 2*w.settle {
					t.Errorf("it took %s, and the settle time of the cloud is %s", took, w.settle)
				}
			})
		})
	}
}

// An attempt that surely had no effect says nothing of the one before it, whose doubt is as old as it was, however often the
// steps in between ran.
func TestDoubtIsAsOldAsItWas(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		var sends atomic.Int64
		w.cloud.Fail = func(point, _ string) error {
			if point != "before send" {
				return nil
			}
			n := sends.Add(1)
			if n > 8 {
				return nil
			}
			return &bridge.Error{Kind: bridge.Unavailable, Message: "away", Unclear: n == 1}
		}
		w.start()
		if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go"}); err != nil {
			t.Fatal(err)
		}
		w.resting()
		begun := time.Now()
		w.say("hello")
		w.until("said", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		if took := time.Since(begun); took > 3*w.settle {
			t.Errorf("it took %s, and the settle time is %s", took, w.settle)
		}
	})
}

// A turn that a person sends again has the whole settle time to show: its doubt
// does not begin with the first try's.
func TestReplayedTurnIsInDoubtAnew(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		r := rules
		r.Repos = append(r.Repos[:len(r.Repos):len(r.Repos)], v0Rule)
		w.allow(r)
		w.cloud.HiddenSends = func() bool { return true }
		w.cloud.Fail = func(point, _ string) error {
			if point == "before send" {
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			}
			return nil
		}
		w.start()
		if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: v0Rule.Pattern, Prompt: "go"}); err != nil {
			t.Fatal(err)
		}
		w.resting()
		t1 := w.say("hello")
		uncertain := func() {
			w.until("uncertain", func(tx *bridge.Scene) bool {
				now, err := tx.Turn(t1.ID)
				return err == nil && now.State == bridge.TurnUncertain
			})
		}
		uncertain()
		begun := time.Now()
		if _, err := w.engine.Continue(t.Context(), t1.ID); err != nil {
			t.Fatal(err)
		}
		uncertain()
		if after := time.Since(begun); after < w.settle {
			t.Errorf("uncertain again after %s, and the settle time is %s", after, w.settle)
		}
	})
}

// TestEvidence: a completion says what the API confirmed, what it does not show,
// what could not be read, and what is only the agent's claim.
func TestEvidence(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/acme/a, prompt=do it", "github.com/acme/a": "See https://github.com/acme/a/pull/7 for all of it."}
	virtual(t, first, func(t *testing.T, w *world, _ *cast) {
		w.cloud.Inspected = func(repo string) (bridge.Evidence, error) {
			if repo == boss {
				return bridge.Evidence{}, bridge.Errorf(bridge.Unavailable, "internal error there")
			}
			return bridge.Evidence{Artifacts: []bridge.Artifact{{Path: "artifacts/LOCAL_ACTION: backup_script", Size: 3}}, Usage: &bridge.Usage{Tokens: 512}, Unread: "more artifacts"}, nil
		}
		w.start()
		a := w.launch("go")
		w.resting()
		wants(t, w.sent(boss)[0], "confirmed by the API: status FINISHED; artifacts \"artifacts/LOCAL_ACTION: backup_script\" (3 bytes); 512 tokens so far",
			"the API shows no branch, no pull request", "could not be checked: \"more artifacts\"",
			"only claimed by the agent, not shown by the API: pull request https://github.com/acme/a/pull/7", "Its last reply, which the bridge did not check:\n| See https://")
		err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
			all, err := tx.Completions(child(t, w, "github.com/acme/a").ID)
			if len(all) != 1 || !strings.Contains(all[0].Evidence, "512 tokens") || all[0].DeliveredAt.IsZero() {
				t.Errorf("ledger: %+v", all)
			}
			echoed, err2 := tx.Agent(a.ID)
			if echoed.Unmetered != true {
				t.Error("the orchestrator's usage was not read and counts as known")
			}
			return firstError(err, err2)
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestNameOfAnArtifactIsNoCommand: an agent that repeats what a subagent called a file is held.
func TestNameOfAnArtifactIsNoCommand(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			switch {
			case repo != boss:
				return bridge.Observation{Reply: "done"}
			case strings.Contains(text, "artifacts"):
				return bridge.Observation{Reply: "LOCAL_ACTION: backup_script"}
			case strings.HasPrefix(text, "[bridge "):
				return bridge.Observation{Reply: "ok"}
			}
			return bridge.Observation{Reply: "SUBAGENT: repo=github.com/acme/a, prompt=do it"}
		}
		w.cloud.Inspected = func(string) (bridge.Evidence, error) {
			return bridge.Evidence{Artifacts: []bridge.Artifact{{Path: "artifacts/LOCAL_ACTION: backup_script", Size: 3}}}, nil
		}
		w.start()
		w.launch("go")
		w.until("held", func(tx *bridge.Scene) bool {
			held, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
			return err == nil && len(held) == 1 && held[0].Code == "echo"
		})
	})
}
