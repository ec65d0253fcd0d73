package engine_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

var team = []string{"github.com/acme/a", "github.com/acme/b", "github.com/acme/c"}

// teamwork lets the orchestrator launch all of the team in one turn.
func teamwork() map[string]string {
	first := map[string]string{}
	for _, repo := range team {
		first[boss] += "SUBAGENT: repo=" + repo + ", prompt=do it\n"
		first[repo] = "result-" + repo[len(repo)-1:]
	}
	return first
}

var (
	resultWord = regexp.MustCompile(`result-(.)`)
	joinedWord = regexp.MustCompile(`joined: (\d) of its (\d)`)
	missing    = regexp.MustCompile(`missing: line (\d)`)
)

// heard sums up each turn that the orchestrator got: "a b 2/3 -3".
func heard(w *world) (all []string) {
	for _, text := range w.sent(boss) {
		var words []string
		for _, m := range resultWord.FindAllStringSubmatch(text, -1) {
			words = append(words, m[1])
		}
		for _, m := range joinedWord.FindAllStringSubmatch(text, -1) {
			words = append(words, m[1]+"/"+m[2])
		}
		for _, m := range missing.FindAllStringSubmatch(text, -1) {
			words = append(words, "-"+m[1])
		}
		if strings.Contains(text, "the deadline has passed") {
			words = append(words, "late")
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

// child returns the agent that was launched on a repository.
func child(t *testing.T, w *world, repo string) (found bridge.Agent) {
	t.Helper()
	err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{})
		for _, a := range all {
			if a.Repo == repo {
				found = a
			}
		}
		return err
	})
	if err != nil || found.ID == "" {
		t.Fatalf("no agent on %s: %v", repo, err)
	}
	return found
}

// teamRuns waits until all of the team run.
func teamRuns(w *world) {
	w.t.Helper()
	w.until("all run", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
		return err == nil && len(turns) == len(team)
	})
}

// joinedTeam starts an orchestrator that waits for its whole team, which runs.
func (c *cast) joinedTeam(w *world) {
	w.t.Helper()
	c.runs(bridge.RunRunning, team...)
	w.start()
	w.launchJoined(bridge.JoinAll, 24*time.Hour)
	teamRuns(w)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		join bridge.Join
		// after is what was heard after the first, the second and the third have ended.
		after [3][]string
	}{
		{"", [3][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}}},
		{bridge.JoinEach, [3][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}}},
		{bridge.JoinAny, [3][]string{{"a 1/3 -2 -3"}, {"a 1/3 -2 -3", "b"}, {"a 1/3 -2 -3", "b", "c"}}},
		{"2", [3][]string{nil, {"a b 2/3 -3"}, {"a b 2/3 -3", "c"}}},
		{"9", [3][]string{nil, nil, {"a b c 3/3"}}},
		{bridge.JoinAll, [3][]string{nil, nil, {"a b c 3/3"}}},
	}
	for _, tt := range tests {
		t.Run("join "+string(tt.join), func(t *testing.T) {
			t.Parallel()
			virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
				c.runs(bridge.RunRunning, team...)
				w.start()
				w.launchJoined(tt.join, 24*time.Hour)
				teamRuns(w)
				for i, repo := range team {
					var rest []bridge.AgentID
					for _, other := range team[i+1:] {
						rest = append(rest, child(t, w, other).ID)
					}
					c.runs(bridge.RunFinished, repo)
					w.resting(rest...)
					if diff := cmp.Diff(tt.after[i], heard(w)); diff != "" {
						t.Errorf("after %s (-want +got):\n%s", repo, diff)
					}
				}
			})
		})
	}
}

// TestJoinDeadline: what is there is told at the deadline, what is missing is
// named, and it comes by itself afterwards, over a restart too.
func TestJoinDeadline(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunRunning, team...)
		w.start()
		begun := time.Now()
		w.launchJoined(bridge.JoinAll, 10*time.Minute)
		teamRuns(w)
		c.runs(bridge.RunFinished, team[0])
		w.restart()
		w.until("told", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		if after := time.Since(begun); after < 10*time.Minute || after > 11*time.Minute {
			t.Errorf("told after %s", after)
		}
		c.runs(bridge.RunFinished, team[1:]...)
		w.resting()
		got := heard(w)
		if got[0] != "a 1/3 -2 -3 late" || strings.Join(got[1:], " ") != "b c" && strings.Join(got[1:], " ") != "c b" {
			t.Errorf("heard %q", got)
		}
	})
}

// TestJoinCountsFailures: a member whose launch fails has ended, too.
func TestJoinCountsFailures(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
		var launches atomic.Int32 // three lanes launch at once
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && text == "do it" && launches.Add(1) == 2 {
				return bridge.Errorf(bridge.Denied, "no access to this repository")
			}
			return nil
		}
		c.runs(bridge.RunError, team[0], team[2])
		w.start()
		w.launchJoined(bridge.JoinAll, time.Hour)
		w.resting()
		if n := len(w.sent(boss)); n != 1 {
			t.Fatalf("%d turns: %q", n, w.sent(boss))
		}
		wants(t, w.sent(boss)[0], "3 of its 3 subagents have ended", "no access to this repository", "ended with status ERROR")
	})
}

// TestJoinHeld: nobody waits for a launch that waits for a person, and it is
// said that there is one.
func TestJoinHeld(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/acme/a, prompt=x\nSUBAGENT: repo=github.com/me/careful, prompt=y\n", "github.com/acme/a": "result-a", "github.com/me/careful": "result-z"}
	virtual(t, first, func(t *testing.T, w *world, _ *cast) {
		w.start()
		w.launchJoined(bridge.JoinAll, time.Hour)
		w.resting()
		held := w.oneCommand(bridge.CommandHeld)
		wants(t, strings.Join(w.sent(boss), "\n"), "joined: its subagent has ended", "1 more waits for a person's approval")
		if _, err := w.yes(held.ID); err != nil {
			t.Fatal(err)
		}
		w.until("told", func(*bridge.Scene) bool { return strings.Contains(strings.Join(w.sent(boss), ""), "result-z") })
		w.resting()
		if all := strings.Join(w.sent(boss), "\n"); strings.Count(all, "result-z") != 1 || strings.Count(all, "joined:") != 1 {
			t.Errorf("told %s", all)
		}
	})
}

// TestJoinOfNothing: at the deadline of launches that all wait for a person there is nothing to tell.
func TestJoinOfNothing(t *testing.T) {
	t.Parallel()
	first := map[string]string{boss: "SUBAGENT: repo=github.com/me/careful, prompt=x\nSUBAGENT: repo=github.com/me/careful, prompt=y\n"}
	virtual(t, first, func(t *testing.T, w *world, _ *cast) {
		w.start()
		a := w.launchJoined(bridge.JoinAll, time.Minute)
		w.until("over", func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
			next, due := w.engine.NextDue(t.Context())
			return err == nil && due == nil && next.IsZero() && len(turns) == 2 && turns[1].Joining == 0
		})
		if n := len(w.sent(boss)); n != 1 { // that they are held
			t.Errorf("%d turns: %q", n, w.sent(boss))
		}
	})
}

// TestSetJoin: the operator's word holds for the turns that end from then on.
func TestSetJoin(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunRunning, boss)
		w.start()
		a := w.launchJoined("", 0)
		got, err := w.engine.SetJoin(t.Context(), a.ID, bridge.JoinAll, 0)
		if err != nil || got.Join != bridge.JoinAll || got.JoinWithin != bridge.DefaultJoinWithin {
			t.Errorf("joins %q within %s: %v", got.Join, got.JoinWithin, err)
		}
		c.runs(bridge.RunFinished, boss)
		w.resting()
		if diff := cmp.Diff([]string{"a b c 3/3"}, sortedFirst(heard(w))); diff != "" {
			t.Error(diff)
		}
		for name, set := range map[string]func() error{
			"no policy": func() error { _, err := w.engine.SetJoin(t.Context(), a.ID, "most", 0); return err },
			"zero":      func() error { _, err := w.engine.SetJoin(t.Context(), a.ID, "0", 0); return err },
			"too late": func() error {
				_, err := w.engine.SetJoin(t.Context(), a.ID, bridge.JoinAny, 31*24*time.Hour)
				return err
			},
			"in the past": func() error { _, err := w.engine.SetJoin(t.Context(), a.ID, bridge.JoinAny, -time.Second); return err },
			"at launch": func() error {
				_, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "other", Repo: boss, Prompt: "go", Join: "101"})
				return err
			},
		} {
			if err := set(); bridge.KindOf(err) != bridge.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.engine.SetJoin(t.Context(), "agt_none", bridge.JoinAll, 0); bridge.KindOf(err) != bridge.NotFound {
			t.Errorf("unknown agent: %v", err)
		}
	})
}

// sortedFirst puts the results in a summary into their order: who ends first is chance.
func sortedFirst(all []string) []string {
	for i, words := range all {
		if m := regexp.MustCompile(`^([abc] [abc] [abc])(.*)`).FindStringSubmatch(words); m != nil {
			all[i] = fmt.Sprint("a b c", m[2])
		}
	}
	return all
}

// TestJoinHoldsOneResultOfEach: what a person asks a subagent for after its task
// is done is the person's to read, and the parent still hears each result once.
func TestJoinHoldsOneResultOfEach(t *testing.T) {
	t.Parallel()
	virtual(t, teamwork(), func(t *testing.T, w *world, c *cast) {
		c.joinedTeam(w)
		a, b, z := child(t, w, team[0]), child(t, w, team[1]), child(t, w, team[2])
		c.runs(bridge.RunFinished, team[0])
		w.resting(b.ID, z.ID)
		if _, err := w.engine.Say(t.Context(), a.ID, "one thing more"); err != nil {
			t.Fatal(err)
		}
		w.resting(b.ID, z.ID)
		if told := w.sent(boss); len(told) != 0 {
			t.Errorf("told %q", told)
		}
		c.runs(bridge.RunFinished, team[1:]...)
		w.resting()
		if got := heard(w); len(got) != 1 || !strings.HasSuffix(got[0], "3/3") || strings.Contains(w.sent(boss)[0], "Thanks.") {
			t.Errorf("heard %q", got)
		}
	})
}
