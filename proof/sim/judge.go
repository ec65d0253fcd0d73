package sim

import (
	"maps"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/relay/wire"
)

// verdict is the oracle's last look at a play that has come to rest.
type verdict struct {
	o      *oracle
	s      *stage
	agents map[bridge.AgentID]bridge.Agent
	turns  map[bridge.AgentID][]bridge.Turn // by number
	stuck  map[bridge.AgentID]bool
	// commands are by the turn that asked for them.
	commands map[bridge.TurnID][]bridge.Command
}

// judge holds what the bridge recorded against what truly happened.
func (o *oracle) judge() {
	v := &verdict{o: o, s: o.s, agents: map[bridge.AgentID]bridge.Agent{}, turns: map[bridge.AgentID][]bridge.Turn{},
		stuck: o.stuckTurns(), commands: map[bridge.TurnID][]bridge.Command{}}
	for _, a := range o.s.agents() {
		v.agents[a.ID] = a
	}
	for _, t := range slices.Backward(o.s.turns("")) {
		v.turns[t.Agent] = append(v.turns[t.Agent], t)
	}
	for _, m := range o.s.commands("") {
		v.commands[m.Turn] = append(v.commands[m.Turn], m)
		v.command(m)
	}
	for _, a := range o.s.agents() {
		v.agent(a)
	}
	v.trees()
	v.words()
	for _, q := range o.truth.questions {
		// An agent that lost its only prompt, and was stopped before it got another, is nobody who asked. Nor is a session that its agent was moved away from.
		if x := o.truth.byID[q.about.Session]; q.heard != q.about.State && (q.heard != "" || x.lives() && x.movedTo == "") {
			v.s.fail("question %s is %s, and the bridge heard %q", q.about.ID, q.about.State, q.heard)
		}
	}
}

// healthy reports whether an agent hears all that it is to hear.
func (v *verdict) healthy(a bridge.Agent) bool {
	return !v.stuck[a.ID] && a.State != bridge.AgentGated && a.State != bridge.AgentFailed && !v.s.tree(a.Root).Stopped()
}

// command checks that a command has come to an end that is true and told.
func (v *verdict) command(m bridge.Command) {
	if m.Parsed.Verb == bridge.VerbPermission {
		v.question(m)
		return
	}
	switch m.State {
	case bridge.CommandReported:
	case bridge.CommandHeld:
		if !v.o.user.left[string(m.ID)] && v.healthy(v.agents[m.Agent]) {
			v.s.fail("command %s is still held, and nobody left it", m.ID)
		}
	case bridge.CommandUncertain:
		if !v.doubted(m) {
			v.s.fail("command %s is uncertain without a fault: %s", m.ID, m.Reason)
		}
		if m.Parsed.Verb == parser.LocalAction && v.o.executed(m.OpKey) && v.s.skewless() { // a clock that jumped lets the next look wait
			v.s.fail("command %s is uncertain, and its relay is back and knows what came of it", m.ID)
		}
	case bridge.CommandFinished, bridge.CommandFailed, bridge.CommandRefused:
		if m.Parsed.Verb != parser.WebhookResult && v.healthy(v.agents[m.Agent]) {
			v.s.fail("command %s is %s and was never reported", m.ID, m.State)
		}
	case bridge.CommandConfirmed:
		if !v.o.waitsForUser(v.agents[m.Child]) {
			v.s.fail("command %s is still confirmed, and nothing keeps the task of %s open", m.ID, m.Child)
		}
	default:
		v.s.fail("command %s is stuck at %s", m.ID, m.State)
	}
	v.truth(m)
}

// doubted reports whether something went wrong that makes a command uncertain.
func (v *verdict) doubted(m bridge.Command) bool {
	if m.Parsed.Verb == parser.LocalAction {
		return v.o.doubts[m.OpKey] || v.s.crashed()
	}
	return v.o.doubts[tagOf(m)] || v.s.crashed()
}

// truth checks that what is recorded of an effect is what happened.
func (v *verdict) truth(m bridge.Command) {
	if v.o.s.restored || m.State == bridge.CommandUncertain {
		return
	}
	switch m.Parsed.Verb {
	case parser.Subagent:
		a := v.o.truth.of(v.agents[m.Child])
		switch external := v.agents[m.Child].External; {
		case m.Child == "":
		case a.lives() && external == "" && a.movedTo == "":
			v.s.fail("command %s is recorded as not launched (%s), and agent %s runs", m.ID, m.Reason, a.id)
		case a == nil && external != "" && !v.o.truth.taken[external]:
			v.s.fail("command %s is recorded as launched, and there is no agent", m.ID)
		}
	case parser.LocalAction:
		ran := v.o.requests[m.OpKey] > 0
		said := m.Outcome != nil && m.Outcome.Status != string(bridge.ActionRefused)
		if ran != said {
			v.s.fail("command %s: it ran: %v; it was told as run: %v (%s)", m.ID, ran, said, m.Reason)
		}
	case parser.Remind:
		token := tokensIn(m.Parsed.Message)
		came := len(token) > 0 && slices.Contains(v.o.heard[m.Agent], token[0])
		if came != (m.Reason == "") {
			v.s.fail("command %s came back: %v (%s)", m.ID, came, m.Reason)
		}
	}
}

// agent checks that an agent is at rest and that what it heard is what it was to hear.
func (v *verdict) agent(a bridge.Agent) {
	if v.s.tree(a.Root).Stopped() && a.State != bridge.AgentGated && a.State != bridge.AgentFailed && !v.stuck[a.ID] {
		v.s.fail("agent %s is %s, and its tree is stopped", a.ID, a.State)
	}
	if a.State == bridge.AgentBusy && !v.stuck[a.ID] {
		v.s.fail("agent %s is busy without end", a.ID)
	}
	for _, t := range v.turns[a.ID] {
		if !t.State.Over() && !v.stuck[a.ID] {
			v.s.fail("turn %s of %s is stuck at %s", t.ID, a.ID, t.State)
		}
	}
	external := v.o.truth.of(a)
	if a.Parent == "" && external.lives() && a.External == "" && external.movedTo == "" && !v.stuck[a.ID] && !v.o.s.restored {
		v.s.fail("agent %s is recorded as not launched, and %s runs", a.ID, external.id)
	}
	if external != nil && v.o.s.restored {
		v.once(a, external)
	}
	if external != nil && !v.o.s.restored {
		v.heard(a, external)
		v.order(a.ID, external)
		v.runs(a.ID, external)
		v.joins(a, external)
		v.result(a)
		if a.External != "" && !v.stuck[a.ID] && external.wrong.IsZero() {
			v.cancelled(external)
		}
	}
}

// heard compares what was to be told, in the order of its commits, with what
// stood in the agent's turns that ran.
func (v *verdict) heard(a bridge.Agent, external *cloudAgent) {
	var got []string
	for i, r := range external.runs {
		if !v.told(a.ID, external, i) || r.foreign || !r.over(v.s.now) {
			continue
		}
		for line := range strings.Lines(r.text) {
			if strings.HasPrefix(line, "| ") {
				got = append(got, tokensIn(line)...)
			}
		}
	}
	want := slices.DeleteFunc(slices.Clone(v.o.heard[a.ID]), func(token string) bool { return v.o.user.gaveUp[token] && !slices.Contains(got, token) })
	if v.s.cover.Faults[faultClockForward]+v.s.cover.Faults[faultClockBack] > 0 {
		// Notices are told in the order of their ids, and ids begin with the time
		// on the clock of whoever made them: order holds as far as clocks do.
		slices.Sort(got)
		slices.Sort(want)
	}
	complete := v.healthy(a) && external.wrong.IsZero()
	for _, late := range []bool{false, true} {
		got, want := v.pick(got, late), v.pick(want, late)
		if late { // what waited for others comes in the order of their ends, as joins checks
			slices.Sort(got)
			slices.Sort(want)
		}
		if complete && !slices.Equal(got, want) || !complete && !subsequence(got, want) {
			v.s.fail("agent %s (%s) heard %v and was to hear %v", a.ID, a.State, got, want)
		}
	}
}

// told reports whether a run counts as having told its agent what stood in it. One does that the agent had when a person stopped its turn, unless a
// later run of the turn counts.
func (v *verdict) told(id bridge.AgentID, a *cloudAgent, i int) bool {
	r := a.runs[i]
	t, known := v.byMarker(id, r.marker)
	if r.told() || !known || !r.cut() || !t.Stopped && !r.halted {
		return r.told()
	}
	return !slices.ContainsFunc(a.runs[i+1:], func(later *cloudRun) bool { return later.marker == r.marker && (later.told() || later.cut()) })
}

// pick returns the tokens that waited for others, or the rest.
func (v *verdict) pick(all []string, held bool) (some []string) {
	for _, token := range all {
		if v.o.held[token] == held {
			some = append(some, token)
		}
	}
	return some
}

// words checks that what a person said reached its agent, that what broke was
// said again, and no more often than is due.
func (v *verdict) words() {
	if v.o.s.restored {
		return
	}
	for _, text := range slices.Sorted(maps.Keys(v.o.user.words)) {
		said := v.o.user.words[text]
		external := v.o.truth.of(v.agents[said.Agent])
		rows := slices.DeleteFunc(slices.Clone(v.turns[said.Agent]), func(t bridge.Turn) bool { return !says(t.Text, text) })
		if len(rows) == 0 {
			v.s.fail("what a person said to agent %s is lost: %s", said.Agent, text)
		}
		if external == nil {
			continue
		}
		good, broken := 0, 0
		for _, r := range external.runs {
			switch {
			case r.lost || !says(r.text, text):
			case r.state == bridge.RunFinished:
				good++
			case r.state != bridge.RunCancelled:
				if broken++; broken == 2 {
					v.s.happened("a turn was tried again")
				}
			}
		}
		if most := 1 + v.o.user.replays[said.Agent]; good > most || broken > 4*most {
			v.s.fail("agent %s got %q %d times, %d of them broken", said.Agent, text, good+broken, broken)
		}
	}
	for _, a := range v.s.agents() {
		v.retried(a)
	}
}

// says reports whether a person's words stand in a text, alone or among others.
func says(text, words string) bool { return slices.Contains(strings.Split(text, "\n\n"), words) }

// retried checks that each turn whose run broke has a successor.
func (v *verdict) retried(a bridge.Agent) {
	root := v.o.truth.of(a)
	if root == nil || len(v.o.tree(root.root).pauses) > 0 {
		return
	}
	for _, t := range v.turns[a.ID] {
		broke := t.Status == bridge.RunError || t.Status == bridge.RunExpired
		if !broke || t.Stopped || root.host != nil || // a relay says why, and a person judges it
			t.Text == "" || t.Retry >= 3 || t.IsLaunch() && a.Parent != "" {
			continue
		}
		if !slices.ContainsFunc(v.turns[a.ID], func(n bridge.Turn) bool { return n.Says(t.Text) && n.Retry == t.Retry+1 }) {
			v.s.fail("turn %s of %s ended %s and was not tried again", t.ID, a.ID, t.Status)
		}
	}
}

// subsequence reports whether got is want with some left out.
func subsequence(got, want []string) bool {
	for _, token := range got {
		i := slices.Index(want, token)
		if i < 0 {
			return false
		}
		want = want[i+1:]
	}
	return true
}

// order checks that an agent's turns arrived in the order of their numbers, and
// that those which are told as not sent did not arrive.
func (v *verdict) order(id bridge.AgentID, a *cloudAgent) {
	var last int64
	for _, r := range a.runs {
		if r.marker == "" || r.lost {
			continue
		}
		t, known := v.byMarker(id, r.marker)
		switch {
		case !known:
			v.s.fail("agent %s got %s, of which the bridge knows nothing", a.id, r.marker)
		case t.Seq <= last:
			v.s.fail("agent %s got its turn %d after %d", a.id, t.Seq, last)
		}
		last = max(last, t.Seq)
	}
}

func (v *verdict) byMarker(id bridge.AgentID, marker string) (bridge.Turn, bool) {
	for _, t := range v.turns[id] {
		if t.Marker() == marker || (marker == "" && t.IsLaunch()) {
			return t, true
		}
	}
	return bridge.Turn{}, false
}

// runs checks that each run's end is recorded, with its commands, and a bad one told to the parent.
func (v *verdict) runs(id bridge.AgentID, a *cloudAgent) {
	if !a.wrong.IsZero() {
		return
	}
	for _, r := range a.runs {
		t, known := v.byMarker(id, r.marker)
		if r.foreign || r.lost || !known || v.stuck[t.Agent] {
			continue
		}
		parent := v.agents[t.Agent].Parent
		switch {
		case t.Text != "" && r.marker != "" && !strings.HasPrefix(r.text, t.Text):
			v.s.fail("run %s of %s was to begin with %q: %q", r.id, a.id, t.Text, r.text)
		case r.settled && t.State == bridge.TurnFailed:
		case r.cause == wire.TurnLimited && t.State == bridge.TurnFailed: // it was stopped, or its relay could not go on with it
		case t.Run != r.id && v.o.user.replays[t.Agent] > 0: // the turn went on in another run
		case t.Status != r.state:
			v.s.fail("run %s of %s ended %s, and turn %d is %s with status %q: %s", r.id, a.id, r.state, t.Seq, t.State, t.Status, t.Trouble)
		case r.good() && v.lines(t.ID) != len(r.commands):
			v.s.fail("run %s wrote %d commands, and %d are recorded", r.id, len(r.commands), v.lines(t.ID))
		case parent != "" && !r.told() && !slices.Contains(v.o.heard[parent], r.token):
			v.s.fail("run %s of %s ended %s, and its parent was never to hear of it", r.id, a.id, r.state)
		}
	}
}

// lines counts the commands of a turn that stood in its reply.
func (v *verdict) lines(id bridge.TurnID) (n int) {
	for _, m := range v.commands[id] {
		if m.Parsed.Verb != bridge.VerbPermission {
			n++
		}
	}
	return n
}

// once checks, after a database was put back, that an agent heard nothing twice,
// however its turns were joined.
func (v *verdict) once(a bridge.Agent, external *cloudAgent) {
	told := map[string]string{}
	for _, r := range external.runs {
		if r.state != bridge.RunFinished || r.foreign || !r.over(v.s.now) {
			continue
		}
		for line := range strings.Lines(r.text) {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			for _, token := range tokensIn(line) {
				if before := told[token]; before != "" && external.api == bridge.APIv0 {
					v.s.happened("a v0 agent was told twice after a copy was put back")
				} else if before != "" {
					v.s.fail("agent %s (%s) was told %s twice, by %s and %s", a.ID, external.api, token, before, r.id)
				}
				told[token] = r.id
			}
		}
	}
}
