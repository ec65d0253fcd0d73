package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Budget bounds what all agents under one root may use together, the root
// included. A field that is zero means its default; Tokens and CostUSD are
// without a bound by default, because not every account is told its usage.
type Budget struct {
	// Launches is how many subagents may be launched in the tree's whole life. Default 100.
	Launches int
	// Open is how many subagents of the tree may be open at a time. Default 10.
	Open int
	// Turns is how many turns the tree's agents may be given in all. Default 500.
	Turns int
	// Tokens is how many tokens the tree may use as they are reported; 0 for no bound.
	Tokens int
	// CostUSD is what the tree may cost, in US dollars as it is reported; 0 for no bound.
	CostUSD int
}

// TreeUsage is what a tree has used so far. What a launch reserves is in it
// from the moment of its grant. A negative counter counts as zero.
type TreeUsage struct {
	Launches, Open, Turns int
	Tokens, CostMicros    int64
	// Unmetered counts agents whose usage is unknown.
	Unmetered int
}

func (b Budget) withDefaults() Budget {
	if b.Launches == 0 {
		b.Launches = 100
	}
	if b.Open == 0 {
		b.Open = 10
	}
	if b.Turns == 0 {
		b.Turns = 500
	}
	return b
}

// narrowed takes of each bound the lower one; 0 in with leaves b's.
func (b Budget) narrowed(with Budget) Budget {
	for _, f := range []struct {
		mine  *int
		other int
	}{
		{&b.Launches, with.Launches}, {&b.Open, with.Open}, {&b.Turns, with.Turns}, {&b.Tokens, with.Tokens}, {&b.CostUSD, with.CostUSD},
	} {
		if f.other > 0 && (*f.mine == 0 || f.other < *f.mine) {
			*f.mine = f.other
		}
	}
	return b
}

// Budget returns the budget of the tree that agents belong to, root first: the
// general one, and of each bound the lowest that any of them is narrowed to.
func (p *Policy) Budget(agents []string) Budget {
	b := p.limits.Tree
	for _, n := range p.narrowings(agents) {
		b = b.narrowed(n.tree)
	}
	return b
}

// TurnRefused says why the tree that agents belong to may not have another
// turn, or "". It fails closed: with a bound on tokens or cost, usage that
// nobody can read is too much.
func (p *Policy) TurnRefused(agents []string, u TreeUsage) string {
	b := p.Budget(agents)
	if u.Turns >= b.Turns {
		return fmt.Sprintf("the tree has had %s and its budget is %d; raise %s to go on",
			count(u.Turns, "turn"), b.Turns, p.bound(agents, "turns", func(b Budget) int { return b.Turns }))
	}
	return p.spent(agents, u)
}

// LaunchRefused says why the tree that agents belong to may not have so many
// more subagents, or "".
func (p *Policy) LaunchRefused(agents []string, u TreeUsage, launches int) string {
	b := p.Budget(agents)
	if had := max(u.Launches, 0); launches > b.Launches-had {
		return fmt.Sprintf("the tree asks for %s, it has had %d and its budget is %d (%s); %s", count(launches, "launch"), had, b.Launches,
			p.bound(agents, "launches", func(b Budget) int { return b.Launches }), room(b.Launches-had, "work with the subagents that you have"))
	}
	if had := max(u.Open, 0); launches > b.Open-had {
		return fmt.Sprintf("the tree asks for %s, %d of its subagents %s open and its budget is %d (%s); %s", count(launches, "launch"), had, verb(had, "is", "are"), b.Open,
			p.bound(agents, "open", func(b Budget) int { return b.Open }), room(b.Open-had, "wait until some have ended"))
	}
	return p.spent(agents, u)
}

// bound names every setting that bounds a tree to its budget; "" without a bound.
func (p *Policy) bound(agents []string, key string, of func(Budget) int) string {
	lowest, names := of(p.Budget(agents)), []string(nil)
	if lowest == 0 {
		return ""
	}
	if of(p.limits.Tree) == lowest {
		names = append(names, "limits.tree."+key)
	}
	for i, name := range agents {
		if of(p.agents[name].tree) == lowest && !slices.Contains(agents[:i], name) { // an agent often has the name of its role
			names = append(names, "agents."+name+".tree."+key)
		}
	}
	return strings.Join(names, " and ")
}

// spent says which of the bounds on usage is reached.
func (p *Policy) spent(agents []string, u TreeUsage) string {
	const micros = 1_000_000
	b := p.Budget(agents)
	tokens := p.bound(agents, "tokens", func(b Budget) int { return b.Tokens })
	cost := p.bound(agents, "cost_usd", func(b Budget) int { return b.CostUSD })
	switch {
	case b.Tokens == 0 && b.CostUSD == 0:
		return ""
	case b.Tokens > 0 && u.Tokens >= int64(b.Tokens):
		return fmt.Sprintf("the tree has used %d tokens and its budget is %d; raise %s to go on",
			u.Tokens, b.Tokens, tokens)
	case b.CostUSD > 0 && u.CostMicros >= int64(b.CostUSD)*micros:
		return fmt.Sprintf("the tree has cost %.2f US dollars and its budget is %d; raise %s to go on",
			float64(u.CostMicros)/micros, b.CostUSD, cost)
	case u.Unmetered > 0:
		return fmt.Sprintf("the usage of %s of the tree is unknown, so the budget of tokens or cost cannot be checked; use agents that report their usage, or remove %s",
			count(u.Unmetered, "agent"), strings.Join(slices.DeleteFunc([]string{tokens, cost}, func(name string) bool { return name == "" }), " and "))
	}
	return ""
}
