package sim

import (
	"cmp"
	"strings"
	"time"

	"drawbridge/bridge"
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

// rootOf returns what the root of a tree was told first, by what one of its agents was.
func (o *oracle) rootOf(tag string) string {
	if strings.HasPrefix(tag, rootTag("")) {
		return tag
	}
	for _, wr := range o.byTag[tag] {
		if wr.run != nil {
			return wr.run.agent.root
		}
	}
	return ""
}

// rootTag is what the user tells an orchestrator of a name first.
func rootTag(name string) string { return "root " + name }

func (o *oracle) tree(root string) *tree {
	t := o.trees[root]
	if t == nil {
		t = &tree{name: strings.TrimPrefix(root, rootTag("")), used: map[string]meter{}}
		o.trees[root] = t
	}
	return t
}

// budget is what a tree may do by now. It never gets smaller in a play.
func (o *oracle) budget(t *tree) policy.Budget {
	b := budgets[o.s.purse]
	b.Launches, b.Open, b.Turns = cmp.Or(b.Launches, 100), cmp.Or(b.Open, 10), cmp.Or(b.Turns, 500)
	if t.name == poorName {
		b.Launches = 1
	}
	return b
}

// begins holds what begins at the cloud or the relay against the operator's stop.
// What left before it may still arrive.
func (o *oracle) begins(t *tree, left int, what string) {
	switch {
	case t.stopped == 0:
	case left > t.stopped:
		o.s.fail("%s began, and its tree %s was stopped before it was sent", what, t.name)
	default:
		o.s.happened("a stop met a call on its way")
	}
}

// grew counts a new agent of a tree.
func (o *oracle) grew(a *cloudAgent, left int) {
	t := o.tree(a.root)
	o.begins(t, left, "agent "+a.id)
	if t.turns++; a.root == rootTag(t.name) && len(o.truth.under(a.root)) == 0 {
		return
	}
	t.launches++
	open := 1
	for _, other := range o.truth.under(a.root)[1:] {
		if other.wrong.IsZero() && len(other.runs) > 0 && !other.runs[0].over(o.s.now) {
			open++
		}
	}
	b := o.budget(t)
	switch {
	case o.s.restored: // it has forgotten what it had counted
	case t.launches > b.Launches:
		o.s.fail("tree %s had %d launches, and its budget is %d", t.name, t.launches, b.Launches)
	case open > b.Open:
		o.s.fail("tree %s had %d open subagents, and its budget is %d", t.name, open, b.Open)
	}
	o.spends(t, o.begun[a.op], "agent "+a.id)
}

// spoke counts a follow-up to an agent of a tree.
func (o *oracle) spoke(a *cloudAgent, f bridge.FollowUp, left int) {
	t := o.tree(a.root)
	t.turns++
	o.begins(t, left, "turn "+f.Marker)
	o.spends(t, o.begun[f.Marker], "turn "+f.Marker)
}

// spends holds a turn that was begun by a commit against what its tree has left.
func (o *oracle) spends(t *tree, begun int, what string) {
	b := o.budget(t)
	switch {
	case o.s.restored:
	case t.turns > b.Turns:
		o.s.fail("tree %s had %d turns, and its budget is %d", t.name, t.turns, b.Turns)
	case t.spent > 0 && begun > t.spent:
		o.s.fail("%s began, and the tokens or the cost of tree %s were used up or unknown", what, t.name)
	}
}

// ran holds an execution at the relay against the stops of all trees that asked for the action.
func (o *oracle) ran(action string, left int) {
	for _, wr := range o.byTag[action] {
		if t := o.tree(wr.run.agent.root); t.stopped == 0 || left <= t.stopped {
			o.begins(t, left, "action "+action)
			return
		}
	}
	o.s.fail("action %s ran, and its tree was stopped before it was sent", action)
}

// committed takes over what a commit changed. told is what the process that made it
// had been told that agents have used, by their ids at the cloud.
func (o *oracle) committed(t *witness, told map[string]*bridge.Usage) {
	o.told(t.notices)
	o.resulted(t)
	for _, r := range t.begun {
		key := r.Marker()
		if r.IsLaunch() {
			key = o.s.agent(r.Agent).OpKey[:opLength]
		}
		o.begun[key] = o.s.commits
	}
	for _, w := range t.handedBack {
		if o.fences[w.ID] > w.Fence {
			o.s.fail("work in lane %s was given back by one who had lost it", w.Lane)
		}
	}
	for _, w := range t.claimed {
		o.fences[w.ID] = w.Fence
	}
	for _, id := range t.queued {
		if tree := o.treeOf(id); tree.stopped > 0 && !tree.resuming {
			o.s.fail("agent %s got a turn, and its tree %s is stopped", id, tree.name)
		}
	}
	for _, r := range t.ended {
		o.metered(told, r.Agent)
		o.awaits(r)
		o.silence(r)
	}
	for _, id := range t.metered {
		o.metered(told, id)
	}
	for _, text := range t.troubles {
		o.budgetSaid(text)
	}
	for _, n := range t.notices {
		o.budgetSaid(string(n.Text))
	}
}

// treeOf returns the tree of one of the bridge's agents.
func (o *oracle) treeOf(id bridge.AgentID) *tree {
	return o.tree(rootTag(o.s.agent(o.s.agent(id).Root).Name))
}

// silence notes that nothing of a reply may happen any more, when its tree was
// stopped before it was taken over.
func (o *oracle) silence(t bridge.Turn) {
	a := o.truth.of(o.s.agent(t.Agent))
	if a == nil || o.tree(a.root).stopped == 0 {
		return
	}
	if r := a.find(func(r *cloudRun) bool { return r.is(t) }); r != nil {
		for _, wr := range r.commands {
			wr.silenced = true
		}
	}
}

// opLength is how much of its operation key stands in the name of an agent's branch.
const opLength = 24

// budgetSaid notes which budget an agent or a person was told of.
func (o *oracle) budgetSaid(text string) {
	const key = "limits.tree."
	if i := strings.Index(text, key); i >= 0 {
		word, _, _ := strings.Cut(text[i+len(key):], " ")
		o.s.happened("budget of " + strings.TrimRight(word, ");") + " used up")
	}
	if strings.Contains(text, "the budget of tokens or cost cannot be checked") {
		o.s.happened("budget that cannot be kept")
	}
}

// metered holds what the bridge recorded of an agent's usage against what it was just told.
func (o *oracle) metered(all map[string]*bridge.Usage, id bridge.AgentID) {
	a := o.s.agent(id)
	external := o.truth.byID[a.External]
	if o.s.restored || external == nil {
		return
	}
	t := o.tree(external.root)
	m, told := t.used[string(id)], all[a.External]
	if m.unknown = told == nil || (!told.CostKnown && o.budget(t).CostUSD > 0); !m.unknown {
		m.tokens = told.Tokens
		if told.CostKnown {
			m.micros = told.CostMicros
		}
	}
	t.used[string(id)] = m
	if got := (meter{a.Tokens, a.CostMicros, a.Unmetered}); got != m {
		o.s.fail("agent %s: recorded as used: %+v, told: %+v", id, got, m)
	}
	o.count(t)
}

// count settles whether the tokens or the cost of a tree are used up.
func (o *oracle) count(t *tree) {
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
		t.spent = o.s.commits
	}
}

// readable checks, when all has come to rest, that no tree is shut for want of usage that the cloud tells.
func (o *oracle) readable() {
	if !o.s.skewless() { // a clock that jumped let the next look wait
		return
	}
	for _, a := range o.s.agents() {
		t := o.treeOf(a.ID)
		dark := o.truth.tells == tellsNothing || o.truth.tells == tellsNoCost && o.budget(t).CostUSD > 0
		for _, x := range o.truth.under(rootTag(t.name)) {
			dark = dark || x.api == bridge.APIv0
		}
		for _, b := range o.s.agents() {
			_, _, hosted := hosts(b.Runtime)
			dark = dark || hosted && b.Root == a.Root // relays tell no usage
		}
		if !dark && a.State == bridge.AgentGated && strings.Contains(a.Trouble, "does not tell") {
			o.s.fail("agent %s is gated, and the usage of its tree can be read: %s", a.ID, a.Trouble)
		}
	}
}

// resumes notes that the operator's word that ends a stop is taken down, until
// the function that it returns is called.
func (o *oracle) resumes(root bridge.Agent) (resumed func()) {
	t := o.tree(rootTag(root.Name))
	t.resuming = true
	return func() { t.resuming = false }
}

// recallTree takes over whether a tree is stopped now. Whoever is not told that
// an order was carried out looks; then it counts.
func (o *oracle) recallTree(root bridge.Agent) (stopped bool) {
	t := o.tree(rootTag(root.Name))
	stopped = o.s.tree(root.ID).Stopped()
	switch {
	case stopped && t.stopped == 0:
		t.stopped = o.s.commits
		t.pauses = append(t.pauses, pause{from: o.s.now})
	case !stopped && t.stopped > 0:
		t.stopped = 0
		t.pauses[len(t.pauses)-1].to = o.s.now
	}
	return stopped
}

// recall looks at everything again after the database was put back.
func (o *oracle) recall() {
	clear(o.fences)
	for _, t := range o.trees {
		t.stopped, t.pauses = 0, nil
	}
	for _, root := range o.s.roots() {
		o.recallTree(root)
	}
}

// recount holds all trees against another budget.
func (o *oracle) recount() {
	for _, t := range o.trees {
		o.count(t)
	}
}

// trees checks the bridge's own counts, and that what went on in a stopped tree was cancelled.
func (v *verdict) trees() {
	for _, a := range v.s.roots() {
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
		got := v.s.tree(a.ID)
		if want.Root, want.StoppedAt, want.Why = got.Root, got.StoppedAt, got.Why; got != want {
			v.s.fail("tree %s is recorded as %+v, and its agents and turns as %+v", a.Name, got, want)
		}
	}
}

// cancelled checks that the runs of an agent did not outlive a stop by long,
// unless a clock that jumped let the next look wait.
func (v *verdict) cancelled(external *cloudAgent) {
	const patience = 10 * time.Minute
	if !v.o.s.skewless() || external.hidden { // nobody can cancel what nobody finds
		return
	}
	for _, r := range external.runs {
		for _, p := range v.o.tree(external.root).pauses {
			since := later(later(p.from, v.s.calmed), r.begun)
			if !r.foreign && r.state != bridge.RunCancelled && r.ends.Sub(since) > patience && (p.to.IsZero() || p.to.After(r.ends)) {
				v.s.fail("run %s of %s went on to its end, and its tree was stopped at %s", r.id, external.id, p.from)
			}
		}
	}
}
