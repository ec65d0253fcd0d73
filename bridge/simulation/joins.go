package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/fault"
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

// statement is what an agent was told of joined results.
type statement struct {
	// before and after are the text around it.
	before, after   string
	seq             int64
	ended, launched int
	late            bool
	missing         []int // lines
}

const joinedWords = "results of your turn "

// statements reads what a turn's text says of joined results.
func statements(text string) (all []statement) {
	for from := 0; ; {
		i := strings.Index(text[from:], joinedWords)
		if i < 0 {
			return all
		}
		i += from
		end := i + strings.Index(text[i:]+"\n\n", "\n\n")
		s := statement{before: text[:i], after: text[end:], late: strings.Contains(text[i:end], "the deadline has passed")}
		if _, err := fmt.Sscanf(text[i:end], joinedWords+"%d, joined: %d of its %d subagents", &s.seq, &s.ended, &s.launched); err != nil {
			s.seq = -1
		}
		for line := range strings.Lines(text[i:end]) {
			var n int
			if _, err := fmt.Sscanf(strings.TrimSpace(line), "missing: line %d (", &n); err == nil {
				s.missing = append(s.missing, n)
			}
		}
		all, from = append(all, s), end
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
		for _, s := range statements(r.text) {
			if told[s.seq]++; told[s.seq] > 1 {
				v.w.fail("agent %s was told twice of the joined results of turn %d", a.ID, s.seq)
			}
			s.before = before.String() + s.before
			v.statement(a, external, s)
			if v.o.skewless() && s.late && r.begun.Before(v.due(a.ID, s.seq)) {
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

func (v *verdict) statement(a bridge.Agent, external *cloudAgent, s statement) {
	i := slices.IndexFunc(v.turns[a.ID], func(t bridge.Turn) bool { return t.Seq == s.seq })
	if i < 0 {
		v.w.fail("agent %s was told of joined results of turn %d, which it never had", a.ID, s.seq)
		return
	}
	t := v.turns[a.ID][i]
	need, _ := v.o.joined[t.ID].join.Need()
	if need == 0 || s.launched == 0 {
		v.w.fail("agent %s was told of joined results of turn %d, and there were none to be joined", a.ID, s.seq)
		return
	}
	if need < 0 || need > s.launched {
		need = s.launched
	}
	switch {
	case s.ended != s.launched-len(s.missing):
		v.w.fail("agent %s: %d of %d ended, and missing are lines %v", a.ID, s.ended, s.launched, s.missing)
	case !s.late && s.ended < need:
		v.w.fail("agent %s was told of %d joined results and was to wait for %d", a.ID, s.ended, need)
	case s.late && s.ended >= need:
		v.w.fail("agent %s waited for the deadline, and all %d results were there", a.ID, need)
	}
	for _, m := range v.members(a, external, t) {
		missing := slices.Contains(s.missing, m.line)
		earlier := strings.Contains(s.before, m.token)
		if missing == earlier && v.o.skewless() {
			v.w.fail("agent %s: line %d of turn %d is told as missing: %v; its result was told before: %v", a.ID, m.line, s.seq, missing, earlier)
		}
	}
	switch {
	case s.late:
		v.w.happened("joined results at the deadline")
	case len(s.missing) > 0:
		v.w.happened("joined results with some missing")
	default:
		v.w.happened("joined results, all there")
	}
}

// skewless reports whether the clocks of a play were right all the time.
func (o *oracle) skewless() bool {
	return o.w.cover.Faults[fault.ClockForward]+o.w.cover.Faults[fault.ClockBack] == 0
}
