package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
)

// awaits notes the policy that was in force when a turn's reply was taken over.
func (o *oracle) awaits(t bridge.Turn) {
	if j, set := o.user.joins[t.Agent]; set && t.State == bridge.TurnReplied {
		j.accept = o.s.now
		o.joined[t.ID] = j
	}
}

// joins checks what an agent was told of joined results: each member once,
// what is missing by its line, and the latter only afterwards.
func (v *verdict) joins(a bridge.Agent, external *cloudAgent) {
	told := map[int64]int{}
	var before strings.Builder
	for i, r := range external.runs {
		if r.foreign || !v.told(a.ID, external, i) {
			continue
		}
		for _, s := range joinStatements(r.text) {
			if told[s.seq]++; told[s.seq] > 1 {
				v.s.fail("agent %s was told twice of the joined results of turn %d", a.ID, s.seq)
			}
			s.before = before.String() + s.before
			v.statement(a, external, s)
			if v.o.s.skewless() && s.late && r.begun.Before(v.due(a.ID, s.seq)) {
				v.s.fail("agent %s was told of joined results before their deadline", a.ID)
			}
		}
		before.WriteString(r.text)
	}
	if !v.healthy(a) {
		return
	}
	for _, t := range v.turns[a.ID] {
		need, _ := v.o.joined[t.ID].join.Need()
		if n := len(v.members(a, external, t)); need != 0 && n > 1 && told[t.Seq] == 0 && !v.o.user.gaveUp[joinOf(a.ID, t.Seq)] {
			v.s.fail("agent %s was never told of the %d joined results of turn %d", a.ID, n, t.Seq)
		}
	}
}

// joinOf names the joined results of a turn among what was given up.
func joinOf(id bridge.AgentID, turn int64) string { return fmt.Sprintf("%s/%d", id, turn) }

func (v *verdict) due(id bridge.AgentID, seq int64) time.Time {
	for _, t := range v.turns[id] {
		if j, known := v.o.joined[t.ID]; known && t.Seq == seq {
			return j.accept.Add(j.within)
		}
	}
	return time.Time{}
}

// member is a subagent whose launch was granted at once, and the end of whose task can be told.
type member struct {
	line  int
	token string
}

// members returns the members of what a turn launched.
func (v *verdict) members(parent bridge.Agent, external *cloudAgent, t bridge.Turn) (all []member) {
	if external.find(func(r *cloudRun) bool { return r.is(t) }) == nil {
		return nil
	}
	for _, m := range v.commands[t.ID] {
		child := v.o.truth.of(v.agents[m.Child])
		if m.Child == "" || m.Approved || child == nil || !child.wrong.IsZero() {
			continue
		}
		if tokens := v.o.results.endings[m.ID]; len(tokens) > 0 {
			all = append(all, member{m.Parsed.Line, tokens[0]})
		}
	}
	return all
}

func (v *verdict) statement(a bridge.Agent, external *cloudAgent, s joinStatement) {
	i := slices.IndexFunc(v.turns[a.ID], func(t bridge.Turn) bool { return t.Seq == s.seq })
	if i < 0 {
		v.s.fail("agent %s was told of joined results of turn %d, which it never had", a.ID, s.seq)
		return
	}
	t := v.turns[a.ID][i]
	need, _ := v.o.joined[t.ID].join.Need()
	if need == 0 || s.launched == 0 {
		v.s.fail("agent %s was told of joined results of turn %d, and there were none to be joined", a.ID, s.seq)
		return
	}
	if need < 0 || need > s.launched {
		need = s.launched
	}
	switch {
	case s.ended != s.launched-len(s.missing):
		v.s.fail("agent %s: %d of %d ended, and missing are lines %v", a.ID, s.ended, s.launched, s.missing)
	case !s.late && s.ended < need:
		v.s.fail("agent %s was told of %d joined results and was to wait for %d", a.ID, s.ended, need)
	case s.late && s.ended >= need:
		v.s.fail("agent %s waited for the deadline, and all %d results were there", a.ID, need)
	}
	for _, m := range v.members(a, external, t) {
		missing := slices.Contains(s.missing, m.line)
		earlier := strings.Contains(s.before, m.token)
		if missing == earlier && v.o.s.skewless() {
			v.s.fail("agent %s: line %d of turn %d is recorded as missing: %v; its result was told before: %v", a.ID, m.line, s.seq, missing, earlier)
		}
	}
	switch {
	case s.late:
		v.s.happened("joined results at the deadline")
	case len(s.missing) > 0:
		v.s.happened("joined results with some missing")
	default:
		v.s.happened("joined results, all there")
	}
}
