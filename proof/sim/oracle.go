package sim

import (
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// oracle knows what was written and approved, and counts what came of it at the
// cloud and the relay. What breaks a promise it tells the stage, by stage.fail.
// Numbers as in stage.commits name commits. Not for concurrent use.
type oracle struct {
	s     *stage
	truth *truth
	user  *deeds
	// lines counts what agents wrote, numbers what was numbered.
	lines, numbers int
	byTag          map[string][]*commandLine
	baits          map[string]bool
	approvals      map[string]int
	// hourly is true once a person approved a launch on the repository that one approval opens for an hour.
	hourly   bool
	effects  map[string]int
	doubts   map[string]bool
	requests map[string]int // executions by request
	sends    map[string]int
	// heard are the tokens in what an agent was to be told, in the order of the commits.
	heard map[bridge.AgentID][]string
	trees map[string]*tree
	// begun are the commits by which turns began, by their markers, and launches, by their operations.
	begun     map[string]int
	joined    map[bridge.TurnID]joinPolicy
	fences    map[int64]int64 // of the latest claims, by work
	reminders map[string]*reminder
	// held are the tokens that waited for others; they come later than what was told after them.
	held map[string]bool
	// answers counts how often an agent is to hear the answer to a question of its own.
	answers map[bridge.CommandID]int
	results results
}

// newOracle returns the oracle of a play that has not begun. It reads t and d, which
// others keep up to date.
func newOracle(s *stage, t *truth, d *deeds) *oracle {
	return &oracle{s: s, truth: t, user: d, byTag: map[string][]*commandLine{}, baits: map[string]bool{}, approvals: map[string]int{}, effects: map[string]int{},
		doubts: map[string]bool{}, requests: map[string]int{}, sends: map[string]int{}, heard: map[bridge.AgentID][]string{},
		trees: map[string]*tree{}, begun: map[string]int{}, joined: map[bridge.TurnID]joinPolicy{}, fences: map[int64]int64{}, reminders: map[string]*reminder{}, held: map[string]bool{}, answers: map[bridge.CommandID]int{},
		results: newResults()}
}

// number returns another number for what agents write, so that no two texts are the same.
func (o *oracle) number() int {
	o.numbers++
	return o.numbers
}

// wrote notes a line before anybody reads it.
func (o *oracle) wrote(wr *commandLine) {
	o.lines++
	o.byTag[wr.tag] = append(o.byTag[wr.tag], wr)
}

// knows reports whether a tag has a meaning already.
func (o *oracle) knows(tag string) bool { return o.baits[tag] || len(o.byTag[tag]) > 0 }

// written returns how many lines were written.
func (o *oracle) written() int { return o.lines }

// bait notes an action that stands in text from outside.
func (o *oracle) bait(tag string) { o.baits[tag] = true }

// baited reports whether bait noted an action.
func (o *oracle) baited(tag string) bool { return o.baits[tag] }

// doubt notes that the answer to a request with an effect was lost, by its tag or operation key.
func (o *oracle) doubt(tag string) { o.doubts[tag] = true }

func tagOf(m bridge.Command) string {
	if m.Parsed.Verb == parser.Subagent {
		return m.Parsed.Prompt
	}
	return m.Parsed.Action
}

// approved notes that a person let a held command pass.
func (o *oracle) approved(m bridge.Command) {
	o.approvals[tagOf(m)]++
	if m.Canonical == hourlyRepo {
		o.hourly = true
	}
}

// allowance is how many effects a tag may have by now.
func (o *oracle) allowance(tag string) int {
	n := o.approvals[tag]
	for _, wr := range o.byTag[tag] {
		if wr.run != nil && !wr.run.good() || wr.silenced && !o.s.restored {
			continue
		}
		if wr.class == classGranted || (wr.class == classHourly && o.hourly && o.approvals[tag] == 0) {
			n++
		}
	}
	return n
}

// effect counts one effect and holds it against the allowance.
func (o *oracle) effect(tag string) {
	o.effects[tag]++
	if n, may := o.effects[tag], o.allowance(tag); n > may {
		o.s.fail("%q had %d effects and may have %d", tag, n, may)
	}
}

// launched counts a new agent that is not among the truth yet, by a request that
// left after a commit. After a restore only v1 is held to its promise: a
// forgotten v0 launch may be in no list, and what a forgotten v0 turn asked for
// has another key, because v0 gives its runs no ids.
func (o *oracle) launched(a *cloudAgent, prompt string, left int) {
	o.grew(a, left)
	if o.s.restored && (a.api == bridge.APIv0 || o.askedAtV0(prompt)) && o.allowance(prompt) > 0 {
		return
	}
	o.effect(prompt)
}

func (o *oracle) askedAtV0(tag string) bool {
	for _, wr := range o.byTag[tag] {
		if wr.run != nil && wr.run.agent.api == bridge.APIv0 {
			return true
		}
	}
	return false
}

// acted counts an execution at the relay, of a request that left after a commit.
func (o *oracle) acted(q bridge.ActionRequest, left int) {
	action := q.Grant.Action()
	o.requests[q.Request]++
	if !o.s.restored || !o.askedAtV0(action) || o.allowance(action) == 0 {
		o.effect(action)
	}
	o.ran(action, left)
}

// executed reports whether a request was carried out.
func (o *oracle) executed(request string) bool { return o.requests[request] > 0 }

// sent counts a follow-up that left after a commit.
func (o *oracle) sent(a *cloudAgent, f bridge.FollowUp, left int) {
	o.sends[f.Marker]++
	// A restored database has forgotten what was sent since; only launches and
	// actions have keys that outlive it.
	if n := o.sends[f.Marker]; n > 1 && !o.s.restored {
		o.s.fail("agent %s got the turn %s %d times", a.id, f.Marker, n)
	}
	o.spoke(a, f, left)
}

// told notes what a commit left for agents to hear.
func (o *oracle) told(notices []bridge.Notice) {
	for _, n := range notices {
		o.toldOf(n)
		for _, token := range tokensIn(n.Untrusted) {
			if slices.Contains(o.heard[n.Agent], token) && !o.s.restored {
				o.s.fail("agent %s is to hear of %s twice", n.Agent, token)
			}
			o.heard[n.Agent] = append(o.heard[n.Agent], token)
			o.held[token] = o.held[token] || n.Withheld
			if r := o.reminders[token]; r != nil && n.Cause == bridge.CauseReminder {
				o.reminded(n.Agent, token, r)
			}
		}
	}
}

// reminder is when a reminder may come back, and whether it was cancelled.
type reminder struct {
	from      time.Time
	cancelled bool
}

// reminds notes a reminder that an agent asks for, by the token in it, and when it may come back.
func (o *oracle) reminds(token string, from time.Time) { o.reminders[token] = &reminder{from: from} }

// cancelled notes that a person cancelled a reminder.
func (o *oracle) cancelled(m bridge.Command) {
	o.reminders[tokensIn(m.Parsed.Message)[0]].cancelled = true
}

// reminded checks that a reminder is wanted and due.
func (o *oracle) reminded(id bridge.AgentID, token string, r *reminder) {
	switch {
	case r.cancelled && !o.s.restored:
		o.s.fail("agent %s is to hear %s, which was cancelled", id, token)
	case o.s.skewless() && o.s.now.Before(r.from):
		o.s.fail("agent %s is to hear %s before its time", id, token)
	}
}

// waits reports whether an agent has something left to hear, or commands that were not reported.
func (o *oracle) waits(id bridge.AgentID) (waits bool) {
	o.s.look(func(tx *bridge.Scene) error {
		waiting, err := tx.WaitingNotices(id, 1)
		waits = len(waiting) > 0
		return err
	})
	return waits
}

// awake checks that an agent at rest that may hear has nothing to hear that is worth a turn.
func (o *oracle) awake(a bridge.Agent) {
	if a.State == bridge.AgentBusy || a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return
	}
	o.s.look(func(tx *bridge.Scene) error {
		waiting, err := tx.WaitingNotices(a.ID, everything)
		if slices.ContainsFunc(waiting, func(n bridge.Notice) bool { return !n.Quiet }) {
			o.s.fail("agent %s is %s, and what is to be told to it lies still", a.ID, a.State)
		}
		return err
	})
}

// atRest reports whether nothing more will happen by itself.
func (o *oracle) atRest() bool {
	for _, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending} {
		if len(o.s.commands(state)) > 0 {
			return false
		}
	}
	if slices.ContainsFunc(o.s.commands(bridge.CommandConfirmed), func(m bridge.Command) bool { return !o.waitsForUser(o.s.agent(m.Child)) }) {
		return false
	}
	stuck := o.stuckTurns()
	for _, state := range []bridge.TurnState{bridge.TurnQueued, bridge.TurnDelivering, bridge.TurnRunning} {
		for _, t := range o.s.turns(state) {
			broke := state == bridge.TurnQueued && o.s.purse > 0 && o.s.agent(t.Agent).State == bridge.AgentGated
			if !stuck[t.Agent] && !broke {
				return false
			}
		}
	}
	return !slices.ContainsFunc(o.s.turns(bridge.TurnReplied), func(t bridge.Turn) bool { return t.Joining != 0 })
}

// stuckTurns are the agents whose turn is uncertain, so that nothing more comes.
func (o *oracle) stuckTurns() map[bridge.AgentID]bool {
	stuck := map[bridge.AgentID]bool{}
	for _, t := range o.s.turns(bridge.TurnUncertain) {
		stuck[t.Agent] = true
	}
	return stuck
}
