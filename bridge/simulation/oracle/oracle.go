// Package oracle holds what the bridge did against what it promised. It is told
// what agents wrote and what a person approved, counts what the cloud and the
// relay truly effected, and compares in the end what the bridge recorded. It moves
// nothing, and takes no word of the bridge's for what happened. Rule of thumb: a
// promise that only the bridge's own record speaks for was not checked.
package oracle

import (
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/rules"
	"drawbridge/bridge/simulation/stage"
	"drawbridge/bridge/simulation/witness"
	"drawbridge/parser"
)

// Oracle knows what was written and approved, and counts what came of it at the
// cloud and the relay. What breaks a promise it tells the stage, by Stage.Fail.
// Commits are named by their numbers in Stage.Commits. Not for concurrent use.
type Oracle struct {
	s     *stage.Stage
	truth *Truth
	user  *Deeds
	// lines counts what agents wrote, numbers what was numbered.
	lines, numbers int
	byTag          map[string][]*Line
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
	joined    map[bridge.TurnID]Waiting
	fences    map[int64]int64 // of the latest claims, by work
	reminders map[string]*reminder
	// held are the tokens that waited for others; they come later than what was told after them.
	held    map[string]bool
	results results
}

// New returns the oracle of a play that has not begun. It reads t and d, which
// others keep up to date.
func New(s *stage.Stage, t *Truth, d *Deeds) *Oracle {
	return &Oracle{s: s, truth: t, user: d, byTag: map[string][]*Line{}, baits: map[string]bool{}, approvals: map[string]int{}, effects: map[string]int{},
		doubts: map[string]bool{}, requests: map[string]int{}, sends: map[string]int{}, heard: map[bridge.AgentID][]string{},
		trees: map[string]*tree{}, begun: map[string]int{}, joined: map[bridge.TurnID]Waiting{}, fences: map[int64]int64{}, reminders: map[string]*reminder{}, held: map[string]bool{},
		results: newResults()}
}

// Number returns another number for what agents write, so that no two texts are the same.
func (o *Oracle) Number() int {
	o.numbers++
	return o.numbers
}

// Wrote notes a line before anybody reads it.
func (o *Oracle) Wrote(wr *Line) {
	o.lines++
	o.byTag[wr.Tag] = append(o.byTag[wr.Tag], wr)
}

// Knows reports whether a tag has a meaning already.
func (o *Oracle) Knows(tag string) bool { return o.baits[tag] || len(o.byTag[tag]) > 0 }

// Written returns how many lines were written.
func (o *Oracle) Written() int { return o.lines }

// Bait notes an action that stands in text from outside.
func (o *Oracle) Bait(tag string) { o.baits[tag] = true }

// Baited reports whether Bait noted an action.
func (o *Oracle) Baited(tag string) bool { return o.baits[tag] }

// Doubt notes that the answer to a request with an effect was lost, by its tag or operation key.
func (o *Oracle) Doubt(tag string) { o.doubts[tag] = true }

func tagOf(m bridge.Command) string {
	if m.Parsed.Verb == parser.Subagent {
		return m.Parsed.Prompt
	}
	return m.Parsed.Action
}

// Approved notes that a person let a held command pass.
func (o *Oracle) Approved(m bridge.Command) {
	o.approvals[tagOf(m)]++
	if m.Canonical == rules.HourlyRepo {
		o.hourly = true
	}
}

// allowance is how many effects a tag may have by now.
func (o *Oracle) allowance(tag string) int {
	n := o.approvals[tag]
	for _, wr := range o.byTag[tag] {
		if wr.Run != nil && !wr.Run.good() || wr.silenced && !o.s.Restored {
			continue
		}
		if wr.Class == Granted || (wr.Class == Hourly && o.hourly && o.approvals[tag] == 0) {
			n++
		}
	}
	return n
}

// effect counts one effect and holds it against the allowance.
func (o *Oracle) effect(tag string) {
	o.effects[tag]++
	if n, may := o.effects[tag], o.allowance(tag); n > may {
		o.s.Fail("%q had %d effects and may have %d", tag, n, may)
	}
}

// Launched counts a new agent that is not among the Truth yet, by a request that
// left after a commit. After a restore only v1 is held to its promise: a
// forgotten v0 launch may be in no list, and what a forgotten v0 turn asked for
// has another key, because v0 gives its runs no ids.
func (o *Oracle) Launched(a *Agent, prompt string, left int) {
	o.grew(a, left)
	if o.s.Restored && (a.API == bridge.APIv0 || o.askedAtV0(prompt)) && o.allowance(prompt) > 0 {
		return
	}
	o.effect(prompt)
}

func (o *Oracle) askedAtV0(tag string) bool {
	for _, wr := range o.byTag[tag] {
		if wr.Run != nil && wr.Run.Agent.API == bridge.APIv0 {
			return true
		}
	}
	return false
}

// Acted counts an execution at the relay, of a request that left after a commit.
func (o *Oracle) Acted(q bridge.ActionRequest, left int) {
	action := q.Grant.Action()
	o.requests[q.Request]++
	if !o.s.Restored || !o.askedAtV0(action) || o.allowance(action) == 0 {
		o.effect(action)
	}
	o.ran(action, left)
}

// Executed reports whether a request was carried out.
func (o *Oracle) Executed(request string) bool { return o.requests[request] > 0 }

// Sent counts a follow-up that left after a commit.
func (o *Oracle) Sent(a *Agent, f bridge.FollowUp, left int) {
	o.sends[f.Marker]++
	// A restored database has forgotten what was sent since; only launches and
	// actions have keys that outlive it.
	if n := o.sends[f.Marker]; n > 1 && !o.s.Restored {
		o.s.Fail("agent %s got the turn %s %d times", a.ID, f.Marker, n)
	}
	o.spoke(a, f, left)
}

// told notes what a commit left for agents to hear.
func (o *Oracle) told(notices []bridge.Notice) {
	for _, n := range notices {
		for _, token := range witness.Tokens(n.Untrusted) {
			if slices.Contains(o.heard[n.Agent], token) && !o.s.Restored {
				o.s.Fail("agent %s is to hear of %s twice", n.Agent, token)
			}
			o.heard[n.Agent] = append(o.heard[n.Agent], token)
			o.held[token] = o.held[token] || n.Held
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

// Reminds notes a reminder that an agent asks for, by the token in it, and when it may come back.
func (o *Oracle) Reminds(token string, from time.Time) { o.reminders[token] = &reminder{from: from} }

// Cancelled notes that a person cancelled a reminder.
func (o *Oracle) Cancelled(m bridge.Command) {
	o.reminders[witness.Tokens(m.Parsed.Message)[0]].cancelled = true
}

// reminded checks that a reminder is wanted and due.
func (o *Oracle) reminded(id bridge.AgentID, token string, r *reminder) {
	switch {
	case r.cancelled && !o.s.Restored:
		o.s.Fail("agent %s is to hear %s, which was cancelled", id, token)
	case o.s.Skewless() && o.s.Now.Before(r.from):
		o.s.Fail("agent %s is to hear %s before its time", id, token)
	}
}

// Waits reports whether an agent has something left to hear, or commands that were not reported.
func (o *Oracle) Waits(id bridge.AgentID) (waits bool) {
	o.s.Look(func(tx bridge.Tx) error {
		waiting, err := tx.WaitingNotices(id, 1)
		waits = len(waiting) > 0
		return err
	})
	return waits
}

// Awake checks that an agent at rest that may hear has nothing to hear that is worth a turn.
func (o *Oracle) Awake(a bridge.Agent) {
	if a.State == bridge.AgentBusy || a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return
	}
	o.s.Look(func(tx bridge.Tx) error {
		waiting, err := tx.WaitingNotices(a.ID, stage.Everything)
		if slices.ContainsFunc(waiting, func(n bridge.Notice) bool { return !n.Quiet }) {
			o.s.Fail("agent %s is %s, and what is to be told to it lies still", a.ID, a.State)
		}
		return err
	})
}

// AtRest reports whether nothing more will happen by itself.
func (o *Oracle) AtRest() bool {
	for _, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending} {
		if len(o.s.Commands(state)) > 0 {
			return false
		}
	}
	if slices.ContainsFunc(o.s.Commands(bridge.CommandConfirmed), func(m bridge.Command) bool { return !o.waitsForUser(o.s.Agent(m.Child)) }) {
		return false
	}
	stuck := o.stuckTurns()
	for _, state := range []bridge.TurnState{bridge.TurnQueued, bridge.TurnDelivering, bridge.TurnRunning} {
		for _, t := range o.s.Turns(state) {
			broke := state == bridge.TurnQueued && o.s.Purse > 0 && o.s.Agent(t.Agent).State == bridge.AgentGated
			if !stuck[t.Agent] && !broke {
				return false
			}
		}
	}
	return !slices.ContainsFunc(o.s.Turns(bridge.TurnReplied), func(t bridge.Turn) bool { return t.Joining != 0 })
}

// stuckTurns are the agents whose turn is uncertain, so that nothing more comes.
func (o *Oracle) stuckTurns() map[bridge.AgentID]bool {
	stuck := map[bridge.AgentID]bool{}
	for _, t := range o.s.Turns(bridge.TurnUncertain) {
		stuck[t.Agent] = true
	}
	return stuck
}
