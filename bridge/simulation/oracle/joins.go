package oracle

import (
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/witness"
)

// awaits notes the policy that was in force when a turn's reply was taken over.
func (o *Oracle) awaits(t bridge.Turn) {
	if j, set := o.user.Joins[t.Agent]; set && t.State == bridge.TurnReplied {
		j.accept = o.s.Now
		o.joined[t.ID] = j
	}
}

// joins checks what an agent was told of joined results: each member once,
// what is missing by its line, and the latter only afterwards.
func (v *verdict) joins(a bridge.Agent, external *Agent) {
	told := map[int64]int{}
	var before strings.Builder
	for _, r := range external.Runs {
		if r.Foreign || r.State != bridge.RunFinished {
			continue
		}
		for _, s := range witness.Statements(r.Text) {
			if told[s.Seq]++; told[s.Seq] > 1 {
				v.s.Fail("agent %s was told twice of the joined results of turn %d", a.ID, s.Seq)
			}
			s.Before = before.String() + s.Before
			v.statement(a, external, s)
			if v.o.s.Skewless() && s.Late && r.Begun.Before(v.due(a.ID, s.Seq)) {
				v.s.Fail("agent %s was told of joined results before their deadline", a.ID)
			}
		}
		before.WriteString(r.Text)
	}
	if !v.healthy(a) {
		return
	}
	for _, t := range v.turns[a.ID] {
		need, _ := v.o.joined[t.ID].Join.Need()
		if n := len(v.members(a, external, t)); need != 0 && n > 1 && told[t.Seq] == 0 {
			v.s.Fail("agent %s was never told of the %d joined results of turn %d", a.ID, n, t.Seq)
		}
	}
}

func (v *verdict) due(id bridge.AgentID, seq int64) time.Time {
	for _, t := range v.turns[id] {
		if j, known := v.o.joined[t.ID]; known && t.Seq == seq {
			return j.accept.Add(j.Within)
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
func (v *verdict) members(parent bridge.Agent, external *Agent, t bridge.Turn) (all []member) {
	if external.Find(func(r *Run) bool { return r.is(t) }) == nil {
		return nil
	}
	for _, m := range v.commands[t.ID] {
		child := v.o.truth.Of(v.agents[m.Child])
		if m.Child == "" || m.Approved || child == nil || !child.Wrong.IsZero() {
			continue
		}
		if tokens := v.o.results.endings[m.ID]; len(tokens) > 0 {
			all = append(all, member{m.Parsed.Line, tokens[0]})
		}
	}
	return all
}

func (v *verdict) statement(a bridge.Agent, external *Agent, s witness.Statement) {
	i := slices.IndexFunc(v.turns[a.ID], func(t bridge.Turn) bool { return t.Seq == s.Seq })
	if i < 0 {
		v.s.Fail("agent %s was told of joined results of turn %d, which it never had", a.ID, s.Seq)
		return
	}
	t := v.turns[a.ID][i]
	need, _ := v.o.joined[t.ID].Join.Need()
	if need == 0 || s.Launched == 0 {
		v.s.Fail("agent %s was told of joined results of turn %d, and there were none to be joined", a.ID, s.Seq)
		return
	}
	if need < 0 || need > s.Launched {
		need = s.Launched
	}
	switch {
	case s.Ended != s.Launched-len(s.Missing):
		v.s.Fail("agent %s: %d of %d ended, and missing are lines %v", a.ID, s.Ended, s.Launched, s.Missing)
	case !s.Late && s.Ended < need:
		v.s.Fail("agent %s was told of %d joined results and was to wait for %d", a.ID, s.Ended, need)
	case s.Late && s.Ended >= need:
		v.s.Fail("agent %s waited for the deadline, and all %d results were there", a.ID, need)
	}
	for _, m := range v.members(a, external, t) {
		missing := slices.Contains(s.Missing, m.line)
		earlier := strings.Contains(s.Before, m.token)
		if missing == earlier && v.o.s.Skewless() {
			v.s.Fail("agent %s: line %d of turn %d is told as missing: %v; its result was told before: %v", a.ID, m.line, s.Seq, missing, earlier)
		}
	}
	switch {
	case s.Late:
		v.s.Happened("joined results at the deadline")
	case len(s.Missing) > 0:
		v.s.Happened("joined results with some missing")
	default:
		v.s.Happened("joined results, all there")
	}
}
