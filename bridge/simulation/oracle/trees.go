package oracle

import (
	"cmp"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/rules"
	"drawbridge/bridge/simulation/stage"
	"drawbridge/bridge/simulation/witness"
	"drawbridge/policy"
)

// tree is what the agents under one root truly began and used, and whether the
// operator had stopped it, as the cloud, the relay and the user count it.
type tree struct {
	name string
	// stopped is the number of the commit since which nothing may begin, 0 while
	// it may; pauses are all times between a stop and its end.
	stopped int
	pauses  []pause
	// resuming is true while the operator's word that ends the stop is taken down.
	resuming bool
	// launches are of subagents, turns of every agent.
	launches, turns int
	used            map[string]meter
	// spent is the number of the commit that used up the budget of tokens or cost, 0 while there is some.
	spent int
}

// pause is the time for which a tree was stopped; it may have no end.
type pause struct{ from, to time.Time }

// meter is what one agent has used, as far as the bridge was told.
type meter struct {
	tokens, micros int64
	unknown        bool
}

// RootOf returns what the root of a tree was told first, by what one of its agents was.
func (o *Oracle) RootOf(tag string) string {
	if strings.HasPrefix(tag, RootTag("")) {
		return tag
	}
	for _, wr := range o.byTag[tag] {
		if wr.Run != nil {
			return wr.Run.Agent.Root
		}
	}
	return ""
}

// RootTag is what the user tells an orchestrator of a name first.
func RootTag(name string) string { return "root " + name }

func (o *Oracle) tree(root string) *tree {
	t := o.trees[root]
	if t == nil {
		t = &tree{name: strings.TrimPrefix(root, RootTag("")), used: map[string]meter{}}
		o.trees[root] = t
	}
	return t
}

// budget is what a tree may do by now. It never gets smaller in a play.
func (o *Oracle) budget(t *tree) policy.Budget {
	b := rules.Budgets[o.s.Purse]
	b.Launches, b.Open, b.Turns = cmp.Or(b.Launches, 100), cmp.Or(b.Open, 10), cmp.Or(b.Turns, 500)
	if t.name == rules.Poor {
		b.Launches = 1
	}
	return b
}

// begins holds what begins at the cloud or the relay against the operator's stop.
// What left before it may still arrive.
func (o *Oracle) begins(t *tree, left int, what string) {
	switch {
	case t.stopped == 0:
	case left > t.stopped:
		o.s.Fail("%s began, and its tree %s was stopped before it was sent", what, t.name)
	default:
		o.s.Happened("a stop met a call on its way")
	}
}

// grew counts a new agent of a tree.
func (o *Oracle) grew(a *Agent, left int) {
	t := o.tree(a.Root)
	o.begins(t, left, "agent "+a.ID)
	if t.turns++; a.Root == RootTag(t.name) && len(o.truth.under(a.Root)) == 0 {
		return
	}
	t.launches++
	open := 1
	for _, other := range o.truth.under(a.Root)[1:] {
		if other.Wrong.IsZero() && !other.Runs[0].Over(o.s.Now) {
			open++
		}
	}
	b := o.budget(t)
	switch {
	case o.s.Restored: // it has forgotten what it had counted
	case t.launches > b.Launches:
		o.s.Fail("tree %s had %d launches, and its budget is %d", t.name, t.launches, b.Launches)
	case open > b.Open:
		o.s.Fail("tree %s had %d open subagents, and its budget is %d", t.name, open, b.Open)
	}
	o.spends(t, o.begun[a.Op], "agent "+a.ID)
}

// spoke counts a follow-up to an agent of a tree.
func (o *Oracle) spoke(a *Agent, f bridge.FollowUp, left int) {
	t := o.tree(a.Root)
	t.turns++
	o.begins(t, left, "turn "+f.Marker)
	o.spends(t, o.begun[f.Marker], "turn "+f.Marker)
}

// spends holds a turn that was begun by a commit against what its tree has left.
func (o *Oracle) spends(t *tree, begun int, what string) {
	b := o.budget(t)
	switch {
	case o.s.Restored:
	case t.turns > b.Turns:
		o.s.Fail("tree %s had %d turns, and its budget is %d", t.name, t.turns, b.Turns)
	case t.spent > 0 && begun > t.spent:
		o.s.Fail("%s began, and the tokens or the cost of tree %s were used up or unknown", what, t.name)
	}
}

// ran holds an execution at the relay against the stops of all trees that asked for the action.
func (o *Oracle) ran(action string, left int) {
	for _, wr := range o.byTag[action] {
		if t := o.tree(wr.Run.Agent.Root); t.stopped == 0 || left <= t.stopped {
			o.begins(t, left, "action "+action)
			return
		}
	}
	o.s.Fail("action %s ran, and its tree was stopped before it was sent", action)
}

// Committed takes over what a commit changed. told is what the process that made it
// had been told that agents have used, by their ids at the cloud.
func (o *Oracle) Committed(t *witness.Tx, told map[string]*bridge.Usage) {
	o.told(t.Notices)
	o.resulted(t)
	for _, r := range t.Begun {
		key := r.Marker()
		if r.Seq == 1 {
			key = o.s.Agent(r.Agent).OpKey[:opLength]
		}
		o.begun[key] = o.s.Commits
	}
	for _, w := range t.Given {
		if o.fences[w.ID] > w.Fence {
			o.s.Fail("work in lane %s was given back by one who had lost it", w.Lane)
		}
	}
	for _, w := range t.Claimed {
		o.fences[w.ID] = w.Fence
	}
	for _, id := range t.Queued {
		if tree := o.treeOf(id); tree.stopped > 0 && !tree.resuming {
			o.s.Fail("agent %s got a turn, and its tree %s is stopped", id, tree.name)
		}
	}
	for _, r := range t.Ended {
		o.metered(told, r.Agent)
		o.awaits(r)
		o.silence(r)
	}
	for _, id := range t.Metered {
		o.metered(told, id)
	}
	for _, text := range t.Troubles {
		o.budgetSaid(text)
	}
	for _, n := range t.Notices {
		o.budgetSaid(string(n.Text))
	}
}

// treeOf returns the tree of one of the bridge's agents.
func (o *Oracle) treeOf(id bridge.AgentID) *tree {
	return o.tree(RootTag(o.s.Agent(o.s.Agent(id).Root).Name))
}

// silence notes that nothing of a reply may happen any more, when its tree was
// stopped before it was taken over.
func (o *Oracle) silence(t bridge.Turn) {
	a := o.truth.Of(o.s.Agent(t.Agent))
	if a == nil || o.tree(a.Root).stopped == 0 {
		return
	}
	if r := a.Find(func(r *Run) bool { return r.is(t) }); r != nil {
		for _, wr := range r.Commands {
			wr.silenced = true
		}
	}
}

// opLength is how much of its operation key stands in the name of an agent's branch.
const opLength = 24

// budgetSaid notes which budget an agent or a person was told of.
func (o *Oracle) budgetSaid(text string) {
	const key = "limits.tree."
	if i := strings.Index(text, key); i >= 0 {
		word, _, _ := strings.Cut(text[i+len(key):], " ")
		o.s.Happened("budget of " + strings.TrimRight(word, ");") + " used up")
	}
	if strings.Contains(text, "does not tell") {
		o.s.Happened("budget that cannot be kept")
	}
}

// metered holds what the bridge recorded of an agent's usage against what it was just told.
func (o *Oracle) metered(all map[string]*bridge.Usage, id bridge.AgentID) {
	a := o.s.Agent(id)
	external := o.truth.ByID[a.External]
	if o.s.Restored || external == nil {
		return
	}
	t := o.tree(external.Root)
	m, told := t.used[a.External], all[a.External]
	if m.unknown = told == nil || (!told.CostKnown && o.budget(t).CostUSD > 0); !m.unknown {
		m.tokens = told.Tokens
		if told.CostKnown {
			m.micros = told.CostMicros
		}
	}
	t.used[a.External] = m
	if got := (meter{a.Tokens, a.CostMicros, a.Unmetered}); got != m {
		o.s.Fail("agent %s: recorded as used: %+v, told: %+v", id, got, m)
	}
	o.count(t)
}

// count settles whether the tokens or the cost of a tree are used up.
func (o *Oracle) count(t *tree) {
	var sum meter
	for _, m := range t.used {
		sum.tokens += m.tokens
		sum.micros += m.micros
		sum.unknown = sum.unknown || m.unknown
	}
	b := o.budget(t)
	over := (b.Tokens > 0 && sum.tokens >= int64(b.Tokens)) || (b.CostUSD > 0 && sum.micros >= int64(b.CostUSD)*1_000_000) ||
		((b.Tokens > 0 || b.CostUSD > 0) && sum.unknown)
	switch {
	case !over:
		t.spent = 0
	case t.spent == 0:
		t.spent = o.s.Commits
	}
}

// Readable checks, when all has come to rest, that no tree is shut for want of usage that the cloud tells.
func (o *Oracle) Readable() {
	if !o.s.Skewless() { // a clock that jumped let the next look wait
		return
	}
	for _, a := range o.s.Agents() {
		t := o.treeOf(a.ID)
		dark := o.truth.Tells == TellsNothing || o.truth.Tells == TellsNoCost && o.budget(t).CostUSD > 0
		for _, x := range o.truth.under(RootTag(t.name)) {
			dark = dark || x.API == bridge.APIv0
		}
		if !dark && a.State == bridge.AgentGated && strings.Contains(a.Trouble, "does not tell") {
			o.s.Fail("agent %s is gated, and the usage of its tree can be read: %s", a.ID, a.Trouble)
		}
	}
}

// Resumes notes that the operator's word that ends a stop is taken down, until
// the function that it returns is called.
func (o *Oracle) Resumes(root bridge.Agent) (resumed func()) {
	t := o.tree(RootTag(root.Name))
	t.resuming = true
	return func() { t.resuming = false }
}

// RecallTree takes over whether a tree is stopped now. Whoever is not told that
// an order was carried out looks; then it counts.
func (o *Oracle) RecallTree(root bridge.Agent) (stopped bool) {
	t := o.tree(RootTag(root.Name))
	stopped = o.s.Tree(root.ID).Stopped()
	switch {
	case stopped && t.stopped == 0:
		t.stopped = o.s.Commits
		t.pauses = append(t.pauses, pause{from: o.s.Now})
	case !stopped && t.stopped > 0:
		t.stopped = 0
		t.pauses[len(t.pauses)-1].to = o.s.Now
	}
	return stopped
}

// Recall looks at everything again after the database was put back.
func (o *Oracle) Recall() {
	clear(o.fences)
	for _, t := range o.trees {
		t.stopped, t.pauses = 0, nil
	}
	for _, root := range o.s.Roots() {
		o.RecallTree(root)
	}
}

// Recount holds all trees against another budget.
func (o *Oracle) Recount() {
	for _, t := range o.trees {
		o.count(t)
	}
}

// trees checks the bridge's own counts, and that what went on in a stopped tree was cancelled.
func (v *verdict) trees() {
	for _, a := range v.s.Roots() {
		var want bridge.Tree
		for _, b := range v.agents {
			if b.Root != a.ID {
				continue
			}
			if b.Parent != "" {
				want.Launches++
			}
			for _, t := range v.turns[b.ID] {
				if t.Attempts > 0 {
					want.Turns++
				}
			}
			want.Tokens, want.CostMicros = want.Tokens+b.Tokens, want.CostMicros+b.CostMicros
			if b.Unmetered {
				want.Unmetered++
			}
		}
		got := v.s.Tree(a.ID)
		if want.Root, want.StoppedAt, want.Why = got.Root, got.StoppedAt, got.Why; got != want {
			v.s.Fail("tree %s is recorded as %+v, and its agents and turns as %+v", a.Name, got, want)
		}
	}
}

// cancelled checks that the runs of an agent did not outlive a stop by long,
// unless a clock that jumped let the next look wait.
func (v *verdict) cancelled(external *Agent) {
	const patience = 10 * time.Minute
	if !v.o.s.Skewless() || external.Hidden { // nobody can cancel what nobody finds
		return
	}
	for _, r := range external.Runs {
		for _, p := range v.o.tree(external.Root).pauses {
			since := stage.Later(stage.Later(p.from, v.s.Calmed), r.Begun)
			if !r.Foreign && r.State != bridge.RunCancelled && r.Ends.Sub(since) > patience && (p.to.IsZero() || p.to.After(r.Ends)) {
				v.s.Fail("run %s of %s went on to its end, and its tree was stopped at %s", r.ID, external.ID, p.from)
			}
		}
	}
}
