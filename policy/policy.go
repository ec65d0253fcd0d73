package policy

import (
	"maps"
	"slices"
)

// Warnings lists entries that have no effect, such as a narrowing to what the
// general list does not allow.
func (p *Policy) Warnings() []Problem { return slices.Clone(p.warnings) }

// Limits returns the caps with every default filled in.
func (p *Policy) Limits() Limits { return p.limits }

// RepoRules returns the repository rules with canonical patterns, sorted by pattern.
func (p *Policy) RepoRules() []RepoRule {
	rules := make([]RepoRule, 0, len(p.repoList))
	for _, pattern := range p.repoList {
		rules = append(rules, p.repos[pattern])
	}
	return rules
}

// ActionRules returns the action rules, sorted by id.
func (p *Policy) ActionRules() []ActionRule {
	rules := make([]ActionRule, 0, len(p.actionList))
	for _, id := range p.actionList {
		rules = append(rules, p.actions[id])
	}
	return rules
}

// Narrowed returns what the rules narrow for single agents, with canonical patterns, by the agents' names.
func (p *Policy) Narrowed() map[string]Narrowing {
	all := make(map[string]Narrowing, len(p.agents))
	for name, n := range p.agents {
		out := Narrowing{Tree: n.tree}
		if n.repos != nil {
			out.Repos = append([]string{}, n.repos.sorted()...)
		}
		if n.actions != nil {
			out.Actions = append([]string{}, slices.Sorted(maps.Keys(n.actions))...)
		}
		all[name] = out
	}
	return all
}

// Own returns which orchestrators may launch on their own repository, which the lists need not name, by the orchestrators' names.
func (p *Policy) Own() map[string]Repo { return maps.Clone(p.own) }

// OperatorRepos returns the repositories where only the operator launches
// unless Repos names them exactly, in canonical form and sorted.
func (p *Policy) OperatorRepos() []Repo { return slices.Sorted(maps.Keys(p.operator)) }

// AllowedRepos returns the patterns that the last of agents may launch on,
// sorted. agents is as in Request; nil means the general list.
func (p *Policy) AllowedRepos(agents []string) []string {
	return slices.Clone(p.reposFor(agents))
}

// AllowedActions returns the ids that the last of agents may ask for, sorted.
func (p *Policy) AllowedActions(agents []string) []string {
	return slices.Clone(p.actionsFor(agents))
}

// ownRepo reports whether one of agents may launch on repo because it is that agent's own.
func (p *Policy) ownRepo(agents []string, repo Repo) bool {
	return slices.ContainsFunc(agents, func(name string) bool { own, ok := p.own[name]; return ok && own == repo })
}

// reposFor is AllowedRepos without the copy: nothing may change the list.
func (p *Policy) reposFor(agents []string) []string {
	list := p.repoList
	for _, name := range agents {
		if own, ok := p.own[name]; ok && !slices.Contains(list, string(own)) {
			list = append(slices.Clone(list), string(own))
			slices.Sort(list)
		}
	}
	for _, n := range p.narrowings(agents) {
		if n.repos != nil {
			list = intersect(list, n.repos)
			slices.Sort(list)
		}
	}
	return list
}

// actionsFor is AllowedActions without the copy: nothing may change the list.
func (p *Policy) actionsFor(agents []string) []string {
	list := p.actionList
	for _, n := range p.narrowings(agents) {
		if n.actions != nil {
			list = slices.DeleteFunc(slices.Clone(list), func(id string) bool { return !n.actions[id] })
		}
	}
	return list
}

// narrowings returns what applies to the last of agents: the narrowing of every
// one of them that has one.
func (p *Policy) narrowings(agents []string) []narrowing {
	if len(p.agents) == 0 {
		return nil
	}
	var out []narrowing
	for _, name := range agents {
		if n, ok := p.agents[name]; ok {
			out = append(out, n)
		}
	}
	return out
}

// repoLeft reports whether every narrowing of agents leaves the repository.
func (p *Policy) repoLeft(agents []string, repo Repo) bool {
	for _, n := range p.narrowings(agents) {
		if n.repos != nil && !n.repos.has(repo) {
			return false
		}
	}
	return true
}

func (p *Policy) actionLeft(agents []string, id string) bool {
	for _, n := range p.narrowings(agents) {
		if n.actions != nil && !n.actions[id] {
			return false
		}
	}
	return true
}
