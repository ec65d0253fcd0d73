package sim

import (
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// results is what parents were to hear of their subagents, as notices say it.
type results struct {
	// completions are the recorded ends of runs, by their ids.
	completions map[bridge.CompletionID]bridge.Completion
	// endings are the tokens in what ended a command, by the command.
	endings map[bridge.CommandID][]string
	// good and bad count results and failures by subagent, waits the notices that its task waits for a person.
	good, bad, waits map[bridge.AgentID]int
	// loud counts by parent what may wake it as a completion.
	loud map[bridge.AgentID]int
}

func newResults() results {
	return results{completions: map[bridge.CompletionID]bridge.Completion{}, endings: map[bridge.CommandID][]string{},
		good: map[bridge.AgentID]int{}, bad: map[bridge.AgentID]int{}, waits: map[bridge.AgentID]int{}, loud: map[bridge.AgentID]int{}}
}

// resulted notes what a commit left for parents to hear of their subagents.
func (o *oracle) resulted(t *witness) {
	for _, c := range t.finished {
		o.results.completions[c.ID] = c
	}
	for _, n := range t.notices {
		switch {
		case n.Cause == bridge.CauseReport && strings.Contains(string(n.Text), "waits for a person"):
			o.waited(n)
		case n.Cause == bridge.CauseCompletion && !n.Quiet:
			o.completed(n)
		}
	}
}

func (o *oracle) waited(n bridge.Notice) {
	for _, a := range o.s.agents() {
		if a.Parent != n.Agent || !strings.Contains(string(n.Text), "subagent "+a.Name+" ") {
			continue
		}
		if o.results.waits[a.ID]++; o.results.waits[a.ID] > 1 && !o.s.restored {
			o.s.fail("agent %s is to hear twice that the task of %s waits for a person", n.Agent, a.ID)
		}
		o.s.happened("a subagent waits for a person")
	}
}

// completed checks that a result is the only one of its subagent, and that
// nothing that the subagent asked for is open.
func (o *oracle) completed(n bridge.Notice) {
	o.results.loud[n.Agent]++
	for _, id := range n.Commands {
		o.results.endings[id] = tokensIn(n.Untrusted)
	}
	ended, known := o.results.completions[n.Completion]
	switch {
	case !known: // a launch or a turn that never ran, or results that were joined
		return
	case ended.Status != bridge.RunFinished:
		o.results.bad[ended.Op]++
		return
	}
	if o.results.good[ended.Op]++; o.results.good[ended.Op] > 1 && !o.s.restored {
		o.s.fail("agent %s is to hear two results of %s", n.Agent, ended.Op)
	}
	child := o.s.agent(ended.Op)
	for _, m := range o.s.commands("") {
		counts := m.Parsed.Verb != parser.Remind || child.API == bridge.APIv0 // which has no door
		if m.Agent == child.ID && m.State.Open() && counts {
			o.s.fail("agent %s is to hear the result of %s, whose %s %s is %s", n.Agent, child.ID, m.Parsed.Verb, m.ID, m.State)
		}
		if _, told := o.results.endings[m.ID]; m.Agent == child.ID && m.Child != "" && !told && !o.s.restored {
			o.s.fail("agent %s is to hear the result of %s, which did not hear of %s", n.Agent, child.ID, m.ID)
		}
	}
}

// result checks that a subagent's parent heard of the end of its task, and was not woken without news.
func (v *verdict) result(a bridge.Agent) {
	woken, failed := 0, 0
	for _, t := range v.turns[a.ID] {
		if t.Cause == bridge.CauseCompletion && t.State == bridge.TurnReplied && t.Retry == 0 {
			woken++
		}
		if t.State == bridge.TurnFailed {
			failed++
		}
	}
	if v.s.restored {
		return
	}
	// The user may replay a turn whose news another turn has told meanwhile. The new turn has the same cause.
	if news, replays := v.o.results.loud[a.ID], v.o.user.replays[a.ID]; woken > news+replays {
		v.s.fail("agent %s was woken %d times by completions; there were %d, and %d replays", a.ID, woken, news, replays)
	}
	// A failed turn of an agent at a relay may have gone on since.
	if told := v.o.results.bad[a.ID]; told > failed+v.o.user.replays[a.ID] {
		v.s.fail("the parent of %s is to hear of %d failures, and %d of its turns failed", a.ID, told, failed)
	}
	all := v.turns[a.ID]
	if a.Parent == "" || v.blocked(a) || all[len(all)-1].State == bridge.TurnFailed {
		return
	}
	if n := v.o.results.good[a.ID]; n != 1 {
		v.s.fail("agent %s is %s, and its parent is to hear %d results", a.ID, a.State, n)
	}
}

// blocked reports whether nobody can expect a result of a subagent: it failed, or
// it or a subagent of its own waits for a person who does not come.
func (v *verdict) blocked(a bridge.Agent) bool {
	external := v.o.truth.of(a)
	return !v.healthy(a) || external == nil || !external.wrong.IsZero() || v.o.waitsForUser(a)
}

// waitsForUser reports whether a subagent's task cannot end by itself.
func (o *oracle) waitsForUser(a bridge.Agent) bool {
	if a.State == bridge.AgentGated || a.State == bridge.AgentFailed || o.stuckTurns()[a.ID] || o.s.tree(a.Root).Stopped() {
		return true
	}
	return slices.ContainsFunc(o.s.commands(""), func(m bridge.Command) bool {
		if m.Agent != a.ID {
			return false
		}
		return m.State == bridge.CommandHeld || m.State == bridge.CommandUncertain || m.State == bridge.CommandConfirmed && o.waitsForUser(o.s.agent(m.Child))
	})
}
