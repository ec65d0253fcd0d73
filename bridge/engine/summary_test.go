package engine_test

import (
	"regexp"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

var resultOf = regexp.MustCompile(`WEBHOOK_RESULT: agent_id=([^,]+),`)

// bossSays lets the orchestrator answer each follow-up by a function of its text.
func (c *cast) bossSays(w *world, answer func(text string) string) {
	others := w.cloud.Answer
	w.cloud.Answer = func(at, text string) bridge.Observation {
		if at != boss || !strings.HasPrefix(text, "[bridge ") {
			return others(at, text)
		}
		return bridge.Observation{State: bridge.RunFinished, Reply: answer(text)}
	}
}

// bossSumsUp lets the orchestrator ask for a summary of the worker when it reads "sum it up".
func (c *cast) bossSumsUp(t *testing.T, w *world) {
	c.bossSays(w, func(text string) string {
		if strings.Contains(text, "sum it up") {
			return "WEBHOOK_RESULT: agent_id=" + string(child(t, w, worker).ID) + ", status=done"
		}
		return "thanks"
	})
}

// works waits until the one turn that runs is not the agent's.
func (w *world) works(besides bridge.Agent) {
	w.t.Helper()
	w.until("it works", func(tx *bridge.Scene) bool {
		all, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnRunning})
		return err == nil && len(all) == 1 && all[0].Agent != besides.ID
	})
}

// TestAWebhookResultAsksForASummary: the seed lets an agent write the line "to trigger a summary".
func TestAWebhookResultAsksForASummary(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "all done", "chatting")
		c.bossSays(w, func(text string) string {
			if strings.Contains(text, "(WEBHOOK_RESULT)") {
				return "thanks"
			}
			id := resultOf.FindStringSubmatch(text)[1]
			return "WEBHOOK_RESULT: agent_id=" + id + ", status=done\nWEBHOOK_RESULT: agent_id=" + id + ", status=ERROR"
		})
		w.launch("go")
		w.resting()
		told := w.sent(boss)
		if len(told) != 2 {
			t.Fatalf("%d turns: %q", len(told), told)
		}
		wants(t, told[1], "line 1 (WEBHOOK_RESULT): what the bridge recorded of subagent", "status=FINISHED", "confirmed by the API: status FINISHED", "| all done")
		if strings.Count(told[1], "(WEBHOOK_RESULT)") != 1 || strings.Contains(told[1], "status=ERROR") {
			t.Errorf("told %s", told[1])
		}
		w.until("nothing was launched", func(tx *bridge.Scene) bool {
			all, err := tx.Agents(bridge.AgentFilter{})
			return err == nil && len(all) == 2
		})
	})
}

// TestASummaryTellsTheResultOfTheTask: what a subagent says later, to mail, does not stand in for it.
func TestASummaryTellsTheResultOfTheTask(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.says(w, worker, "all done", "chatting")
		c.bossSays(w, func(text string) string {
			if strings.Contains(text, "sum it up") {
				return "WEBHOOK_RESULT: status=done, agent_id=" + child(t, w, worker).Name
			}
			return "thanks"
		})
		w.launch("go")
		w.resting()
		w.tell(child(t, w, worker).ID, "hello")
		w.resting()
		w.tell(w.agent().ID, "sum it up")
		w.resting()
		told := w.sent(boss)
		wants(t, told[len(told)-1], "(WEBHOOK_RESULT): what the bridge recorded", "| all done")
		if strings.Contains(strings.Join(told, ""), "chatting") {
			t.Errorf("told %q", told)
		}
	})
}

// TestSummariesEnd: an agent that answers each summary with the same line is not answered for long.
func TestSummariesEnd(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.bossSays(w, func(text string) string {
			return "WEBHOOK_RESULT: agent_id=" + resultOf.FindStringSubmatch(text)[1] + ", status=done"
		})
		w.launch("go")
		w.resting()
		if n := len(w.sent(boss)); n != 4 {
			t.Errorf("%d turns: %q", n, w.sent(boss))
		}
	})
}

// TestASummaryOfASubagentThatWorks: without a result there is nothing to tell but that.
func TestASummaryOfASubagentThatWorks(t *testing.T) {
	t.Parallel()
	story(t, func(t *testing.T, w *world, c *cast) {
		c.runs(bridge.RunRunning, worker)
		c.bossSumsUp(t, w)
		a := w.launch("go")
		w.works(a)
		w.tell(w.agent().ID, "sum it up")
		w.until("it has its answer", func(*bridge.Scene) bool { return len(w.sent(boss)) == 2 })
		wants(t, w.sent(boss)[1], "still works")
		if strings.Contains(w.sent(boss)[1], "ended with status") {
			t.Errorf("told %q", w.sent(boss)[1])
		}
	})
}

// TestNoSummaryOfOthers: an agent of another tree, the agent itself and an id that nobody has get one answer.
func TestNoSummaryOfOthers(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "the other tree's secret"}, func(t *testing.T, w *world, c *cast) {
		w.start()
		other, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "other", Repo: boss, Prompt: "secret story"})
		if err != nil {
			t.Fatal(err)
		}
		w.resting()
		other, err = w.engine.FindAgent(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{"bc-nobody", string(other.ID), other.External, other.Name, "main"}
		asked := 0
		c.bossSays(w, func(text string) string {
			for _, id := range ids {
				if strings.Contains(text, "ask about "+id+".") {
					return "WEBHOOK_RESULT: agent_id=" + id + ", status=done"
				}
			}
			return "thanks"
		})
		w.launch("go")
		w.resting()
		answers := map[string]bool{}
		for _, id := range ids {
			asked += 2
			w.tell(w.agent().ID, "ask about "+id+".")
			w.until("answered", func(*bridge.Scene) bool { return len(w.sent(boss)) == asked })
			w.resting()
			answers[lastLine(w.sent(boss)[asked-1])] = true
		}
		if len(answers) != 1 || strings.Contains(strings.Join(w.sent(boss), ""), "secret") {
			t.Errorf("answers %v", answers)
		}
	})
}

// lastLine is the line of a turn that answers a WEBHOOK_RESULT.
func lastLine(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, "(WEBHOOK_RESULT)") {
			return line
		}
	}
	return "no answer: " + text
}
