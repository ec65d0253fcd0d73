package simulation

import (
	"slices"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/rules"
	"drawbridge/bridge/simulation/witness"
	"drawbridge/parser"
)

// oracle knows what was written and approved, and counts what came of it at the
// cloud and the relay.
type oracle struct {
	w *world
	// lines counts what agents wrote, numbers what was numbered.
	lines, numbers int
	byTag          map[string][]*written
	baits          map[string]bool
	approvals      map[string]int
	// hourly is true once a person approved a launch on the repository that one approval opens for an hour.
	hourly   bool
	effects  map[string]int
	doubts   map[string]bool
	requests map[string]int // executions by request
	outputs  map[string]string
	sends    map[string]int
	// heard are the tokens in what an agent was to be told, in the order of the commits.
	heard    map[bridge.AgentID][]string
	restored bool
	trees    map[string]*tree
	// begun are the commits by which turns began, by their markers, and launches, by their operations.
	begun     map[string]int
	joined    map[bridge.TurnID]waiting
	fences    map[int64]int64 // of the latest claims, by work
	reminders map[string]*reminder
	// held are the tokens that waited for others; they come later than what was told after them.
	held map[string]bool
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, byTag: map[string][]*written{}, baits: map[string]bool{}, approvals: map[string]int{}, effects: map[string]int{},
		doubts: map[string]bool{}, requests: map[string]int{}, outputs: map[string]string{}, sends: map[string]int{}, heard: map[bridge.AgentID][]string{},
		trees: map[string]*tree{}, begun: map[string]int{}, joined: map[bridge.TurnID]waiting{}, fences: map[int64]int64{}, reminders: map[string]*reminder{}, held: map[string]bool{}}
}

func (o *oracle) number() int {
	o.numbers++
	return o.numbers
}

func (o *oracle) wrote(wr *written) {
	o.lines++
	o.byTag[wr.tag] = append(o.byTag[wr.tag], wr)
}

// knows reports whether a tag has a meaning already.
func (o *oracle) knows(tag string) bool { return o.baits[tag] || len(o.byTag[tag]) > 0 }

func (o *oracle) bait(tag string) bool { return o.baits[tag] }

func (o *oracle) doubt(tag string) { o.doubts[tag] = true }

func tagOf(m bridge.Command) string {
	if m.Parsed.Verb == parser.Subagent {
		return m.Parsed.Prompt
	}
	return m.Parsed.Action
}

func (o *oracle) approved(m bridge.Command) {
	o.approvals[tagOf(m)]++
	if m.Canonical == rules.HourlyRepo {
		o.hourly = true
	}
}

// allowance is how many effects a tag may have by now.
func (o *oracle) allowance(tag string) int {
	n := o.approvals[tag]
	for _, wr := range o.byTag[tag] {
		if wr.run != nil && !wr.run.good() || wr.silenced && !o.restored {
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
		o.w.fail("%q had %d effects and may have %d", tag, n, may)
	}
}

// launched counts a new agent. After a restore only v1 is held to its promise: a
// forgotten v0 launch may be in no list, and what a forgotten v0 turn asked for
// has another key, because v0 gives its runs no ids.
func (o *oracle) launched(a *cloudAgent, prompt string) {
	if o.restored && (a.api == bridge.APIv0 || o.askedAtV0(prompt)) && o.allowance(prompt) > 0 {
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

// acted counts an execution at the relay.
func (o *oracle) acted(action, request, output string) {
	o.requests[request]++
	o.outputs[request] = output
	if o.restored && o.askedAtV0(action) && o.allowance(action) > 0 {
		return
	}
	o.effect(action)
}

// sent counts a follow-up.
func (o *oracle) sent(a *cloudAgent, f bridge.FollowUp) {
	o.sends[f.Marker]++
	// A restored database has forgotten what was sent since; only launches and
	// actions have keys that outlive it.
	if n := o.sends[f.Marker]; n > 1 && !o.restored {
		o.w.fail("agent %s got the turn %s %d times", a.id, f.Marker, n)
	}
}

// told notes what a commit left for agents to hear.
func (o *oracle) told(notices []bridge.Notice) {
	for _, n := range notices {
		for _, token := range witness.Tokens(n.Untrusted) {
			if slices.Contains(o.heard[n.Agent], token) && !o.restored {
				o.w.fail("agent %s is to hear of %s twice", n.Agent, token)
			}
			o.heard[n.Agent] = append(o.heard[n.Agent], token)
			o.held[token] = o.held[token] || n.Held
			if r := o.reminders[token]; r != nil && n.Cause == bridge.CauseReminder {
				o.reminded(n.Agent, token, r)
			}
		}
	}
}

// reminded checks that a reminder is wanted and due.
func (o *oracle) reminded(id bridge.AgentID, token string, r *reminder) {
	switch {
	case r.cancelled && !o.restored:
		o.w.fail("agent %s is to hear %s, which was cancelled", id, token)
	case o.skewless() && o.w.now.Before(r.from):
		o.w.fail("agent %s is to hear %s before its time", id, token)
	}
}

// waits reports whether an agent has something left to hear, or commands that were not reported.
func (o *oracle) waits(id bridge.AgentID) (waits bool) {
	o.w.look(func(tx bridge.Tx) error {
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
	o.w.look(func(tx bridge.Tx) error {
		waiting, err := tx.WaitingNotices(a.ID, everything)
		if slices.ContainsFunc(waiting, func(n bridge.Notice) bool { return !n.Quiet }) {
			o.w.fail("agent %s is %s, and what is to be told to it lies still", a.ID, a.State)
		}
		return err
	})
}

// atRest reports whether nothing more will happen by itself.
func (o *oracle) atRest() bool {
	for _, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending, bridge.CommandConfirmed} {
		if len(o.w.commands(state)) > 0 {
			return false
		}
	}
	stuck := o.stuckTurns()
	for _, state := range []bridge.TurnState{bridge.TurnQueued, bridge.TurnDelivering, bridge.TurnRunning} {
		for _, t := range o.w.turns(state) {
			broke := state == bridge.TurnQueued && o.w.purse > 0 && o.w.agent(t.Agent).State == bridge.AgentGated
			if !stuck[t.Agent] && !broke {
				return false
			}
		}
	}
	return !slices.ContainsFunc(o.w.turns(bridge.TurnReplied), func(t bridge.Turn) bool { return t.Joining != 0 })
}

// stuckTurns are the agents whose turn is uncertain, so that nothing more comes.
func (o *oracle) stuckTurns() map[bridge.AgentID]bool {
	stuck := map[bridge.AgentID]bool{}
	for _, t := range o.w.turns(bridge.TurnUncertain) {
		stuck[t.Agent] = true
	}
	return stuck
}
