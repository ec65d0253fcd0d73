package policy

import (
	"maps"
	"slices"
)

// repoIndex holds compiled repository rules under their canonical patterns. A
// lookup is at most two map reads by equality, however long the list is: nothing
// is ever matched by prefix, suffix or regular expression.
type repoIndex map[string]RepoRule

// find returns the rule for a repository; the exact rule beats the wildcard.
func (x repoIndex) find(repo Repo) (RepoRule, bool) {
	if rule, ok := x[string(repo)]; ok {
		return rule, true
	}
	rule, ok := x[repo.wildcard()]
	return rule, ok
}

func (x repoIndex) has(repo Repo) bool {
	_, ok := x.find(repo)
	return ok
}

func (x repoIndex) sorted() []string { return slices.Sorted(maps.Keys(x)) }

// narrowing is one agent's compiled Narrowing. Nil means that it inherits.
type narrowing struct {
	repos   repoIndex
	actions map[string]bool
	tree    Budget
}

// intersect returns the patterns that both lists cover, in no order. A wildcard
// that meets single repositories of its owner leaves those.
func intersect(patterns []string, with repoIndex) []string {
	listed := make(map[string]bool, len(patterns))
	var out []string
	for _, p := range patterns {
		// A wildcard is its own wildcard, so has finds it only in the same words.
		if with.has(Repo(p)) {
			out = append(out, p)
		}
		listed[p] = true
	}
	for p := range with {
		if !listed[p] && listed[Repo(p).wildcard()] {
			out = append(out, p)
		}
	}
	return out
}
