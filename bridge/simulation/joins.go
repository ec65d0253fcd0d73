package simulation

import (
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/bridge/simulation/witness"
)

// waiting is how the results of one turn's subagents were to come back, in the user's words.
type waiting struct {
	join   bridge.Join
	accept time.Time
	within time.Duration
}

// awaits notes the policy that was in force when a turn's reply was taken over.
func (o *oracle) awaits(t bridge.Turn) {
	if j, set := o.w.user.joins[t.Agent]; set && t.State == bridge.TurnReplied {
		j.accept = o.w.now
		o.joined[t.ID] = j
	}
}

// joins checks what an agent was told of joined results: each member once,
// what is missing by its line, and the latter only afterwards.
func (v *verdict) joins(a bridge.Agent, external *cloudAgent) {
	told := map[int64]int{}
	var before strings.Builder
	for _, r := range external.runs {
		if r.foreign || r.state != bridge.RunFinished {
			continue
		}
		for _, s := range witness.Statements(r.text) {
			if told[s.Seq]++; told[s.Seq] > 1 {
				v.w.fail("agent %s was told twice of the joined results of turn %d", a.ID, s.Seq)
			}
			s.Before = before.String() + s.Before
			v.statement(a, external, s)
			if v.o.skewless() && s.Late && r.begun.Before(v.due(a.ID, s.Seq)) {
				v.w.fail("agent %s was told of joined results before their deadline", a.ID)
			}
		}
		before.WriteString(r.text)
	}
	if !v.healthy(a) {
		return
	}
	for _, t := range v.turns[a.ID] {
		need, _ := v.o.joined[t.ID].join.Need()
		if n := len(v.members(a, external, t)); need != 0 && n > 1 && told[t.Seq] == 0 {
			v.w.fail("agent %s was never told of the %d joined results of turn %d", a.ID, n, t.Seq)
		}
	}
}

func (v *verdict) due(id bridge.AgentID, seq int64) time.Time {
	for _, t := range v.turns[id] {
		if j, known := v.o.joined[t.ID]; known && t.Seq == seq {
			return j.accept.Add(j.within)
		}
	}
	return time.Time{}
}

// member is a subagent whose launch was granted at once, and whose first run can be told.
type member struct {
	line  int
	token string
}

// members returns the members of what a turn launched.
func (v *verdict) members(parent bridge.Agent, external *cloudAgent, t bridge.Turn) (all []member) {
	if external.find(func(r *run) bool { return r.is(t) }) == nil {
		return nil
	}
	for _, m := range v.commands[t.ID] {
		child := v.w.cloud.of(v.agents[m.Child])
		if m.Child == "" || m.Approved || child == nil || !child.wrong.IsZero() {
			continue
		}
		if token := child.runs[0].token; slices.Contains(v.o.heard[parent.ID], token) {
			all = append(all, member{m.Parsed.Line, token})
		}
	}
	return all
}

func (v *verdict) statement(a bridge.Agent, external *cloudAgent, s witness.Statement) {
	i := slices.IndexFunc(v.turns[a.ID], func(t bridge.Turn) bool { return t.Seq == s.Seq })
	if i < 0 {
		v.w.fail("agent %s was told of joined results of turn %d, which it never had", a.ID, s.Seq)
		return
	}
	t := v.turns[a.ID][i]
	need, _ := v.o.joined[t.ID].join.Need()
	if need == 0 || s.Launched == 0 {
		v.w.fail("agent %s was told of joined results of turn %d, and there were none to be joined", a.ID, s.Seq)
		return
	}
	if need < 0 || need > s.Launched {
		need = s.Launched
	}
	switch {
	case s.Ended != s.Launched-len(s.Missing):
		v.w.fail("agent %s: %d of %d ended, and missing are lines %v", a.ID, s.Ended, s.Launched, s.Missing)
	case !s.Late && s.Ended < need:
		v.w.fail("agent %s was told of %d joined results and was to wait for %d", a.ID, s.Ended, need)
	case s.Late && s.Ended >= need:
		v.w.fail("agent %s waited for the deadline, and all %d results were there", a.ID, need)
	}
	for _, m := range v.members(a, external, t) {
		missing := slices.Contains(s.Missing, m.line)
		earlier := strings.Contains(s.Before, m.token)
		if missing == earlier && v.o.skewless() {
			v.w.fail("agent %s: line %d of turn %d is told as missing: %v; its result was told before: %v", a.ID, m.line, s.Seq, missing, earlier)
		}
	}
	switch {
	case s.Late:
		v.w.happened("joined results at the deadline")
	case len(s.Missing) > 0:
		v.w.happened("joined results with some missing")
	default:
		v.w.happened("joined results, all there")
	}
}

// skewless reports whether the clocks of a play were right all the time.
func (o *oracle) skewless() bool {
	return o.w.cover.Faults[fault.ClockForward]+o.w.cover.Faults[fault.ClockBack] == 0
}
