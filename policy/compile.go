package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"drawbridge/internal/clip"
)

// Policy is compiled Rules. It is immutable and safe for concurrent use; a changed
// allowlist is a new Policy. The zero Policy refuses everything.
type Policy struct {
	repos    repoIndex
	actions  map[string]ActionRule
	operator map[Repo]bool
	// own maps an orchestrator's name to the repository that it may launch on besides the list.
	own      map[string]Repo
	agents   map[string]narrowing
	limits   Limits
	warnings []Problem
	// Sorted once, because every refusal names the beginning of one of them.
	repoList, actionList []string
}

const (
	maxActionID  = 64
	actionRemedy = "use 1 to 64 of a-z, 0-9, _, . and -, beginning with a letter or a digit"
	repoRemedy   = "write github.com/owner/name, or github.com/owner/* for all of one owner"
)

// New compiles the rules. Any problem means a nil Policy, and all problems come at
// once. What is suspicious but harmless is in Warnings.
func New(r Rules) (*Policy, []Problem) {
	c := compiler{owners: make(map[string]bool), p: &Policy{
		repos:    make(repoIndex, len(r.Repos)),
		actions:  make(map[string]ActionRule, len(r.Actions)),
		operator: make(map[Repo]bool, len(r.OperatorRepos)),
		own:      make(map[string]Repo, len(r.Own)),
		agents:   make(map[string]narrowing, len(r.Agents)),
		limits:   r.Limits.withDefaults(),
	}}
	c.addRepos(r.Repos)
	c.addActions(r.Actions)
	c.addOperatorRepos(r.OperatorRepos)
	c.addOwn(r.Own)
	c.checkLimits(r.Limits)
	for _, name := range slices.Sorted(maps.Keys(r.Agents)) {
		c.addAgent(name, r.Agents[name])
	}
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	c.p.repoList = c.p.repos.sorted()
	c.p.actionList = slices.Sorted(maps.Keys(c.p.actions))
	return c.p, nil
}

// compiler collects problems while it fills the policy that New returns.
type compiler struct {
	p        *Policy
	problems []Problem
	// owners holds the wildcard of every owner that repos names in any form.
	owners map[string]bool
}

func (c *compiler) problem(p Problem) { c.problems = append(c.problems, p) }

func (c *compiler) warn(p Problem) { c.p.warnings = append(c.p.warnings, p) }

func (c *compiler) addRepos(rules []RepoRule) {
	for i, rule := range rules {
		key := fmt.Sprintf("repos[%d]", i)
		c.checkApproval(rule.Approval, rule.At, key)
		if rule.API != "" && rule.API != "v0" && rule.API != "v1" {
			c.problem(Problem{rule.At, key + ".api", rule.API, "is not known", "use v1 or v0"})
		}
		pattern, err := canonicalPattern(rule.Pattern)
		if err != nil {
			c.problem(badPattern(rule.At, key, rule.Pattern, err))
			continue
		}
		earlier, twice := c.p.repos[pattern]
		if twice {
			c.problem(Problem{rule.At, key, rule.Pattern, "is listed already" + place(earlier.At), "keep one of the two"})
			continue
		}
		rule.Pattern = pattern
		c.checkRuntime(rule, key)
		c.owners[Repo(pattern).wildcard()] = true
		c.p.repos[pattern] = rule
	}
}

// checkRuntime has a clone of a machine name the runtime there. Which runtimes may be named, the configuration knows.
func (c *compiler) checkRuntime(rule RepoRule, key string) {
	if Repo(rule.Pattern).Local() && rule.Runtime == "" {
		c.problem(Problem{rule.At, key + ".runtime", "", "is required for " + rule.Pattern + ", a clone on a machine", "name the runtime of its relay: { repo: " + rule.Pattern + ", runtime: NAME }"})
	}
	if rule.Runtime != "" && rule.API != "" {
		c.problem(Problem{rule.At, key + ".api", rule.API, "has no effect in the runtime " + rule.Runtime, "leave api or runtime out"})
	}
}

func (c *compiler) addActions(rules []ActionRule) {
	for _, rule := range rules {
		key := "actions." + clip.Text(rule.ID, maxQuoted)
		c.checkApproval(rule.Approval, rule.At, key)
		if !validActionID(rule.ID) {
			c.problem(Problem{rule.At, "actions", rule.ID, "is not an action id", actionRemedy})
			continue
		}
		if earlier, twice := c.p.actions[rule.ID]; twice {
			c.problem(Problem{rule.At, key, rule.ID, "is listed already" + place(earlier.At), "keep one of the two"})
			continue
		}
		c.p.actions[rule.ID] = rule
	}
}

func (c *compiler) checkApproval(a Approval, at, key string) {
	if !a.valid() {
		c.problem(Problem{at, key + ".approval", a.String(), "is not an approval", errApproval.Error()})
	}
}

func (c *compiler) addOperatorRepos(repos []string) {
	for i, value := range repos {
		repo, err := CanonicalRepo(value)
		if err != nil {
			c.problem(Problem{"", fmt.Sprintf("operator repository %d", i), value, "is not a repository", err.Error()})
			continue
		}
		c.p.operator[repo] = true
	}
}

func (c *compiler) addOwn(rules []OwnRule) {
	for _, rule := range rules {
		repo, err := CanonicalRepo(rule.Repo)
		if err != nil {
			c.problem(Problem{"", "own repository of " + clip.Text(rule.Agent, maxQuoted), rule.Repo, "is not a repository", err.Error()})
			continue
		}
		c.p.own[rule.Agent] = repo
	}
}

// Bound is a number with its key in the allowlist file, such as tree.turns.
type Bound struct {
	Key   string
	Value int
}

// Bounds returns all limits, in a fixed order.
func (l Limits) Bounds() []Bound {
	return append(l.Tree.Bounds("tree."), []Bound{
		{"commands_per_turn", l.CommandsPerTurn},
		{"launches_per_hour", l.LaunchesPerHour},
		{"open_subagents", l.OpenSubagents},
		{"depth", l.Depth},
		{"turns_per_chain", l.TurnsPerChain},
		{"reminders", l.Reminders},
	}...)
}

// Bounds returns all bounds under keys with a prefix.
func (b Budget) Bounds(prefix string) []Bound {
	return []Bound{{prefix + "launches", b.Launches}, {prefix + "open", b.Open}, {prefix + "turns", b.Turns}, {prefix + "tokens", b.Tokens}, {prefix + "cost_usd", b.CostUSD}}
}

func (c *compiler) checkLimits(l Limits) { c.notNegative("limits.", l.Bounds()) }

func (c *compiler) notNegative(prefix string, bounds []Bound) {
	for _, f := range bounds {
		if f.Value < 0 {
			c.problem(Problem{"", prefix + f.Key, strconv.Itoa(f.Value), "is negative", "use 1 or more"})
		}
	}
}

func (c *compiler) addAgent(name string, n Narrowing) {
	key := "agents." + name
	var out narrowing
	if n.Repos != nil {
		out.repos = make(repoIndex, len(n.Repos))
		for i, value := range n.Repos {
			c.narrowRepo(out.repos, Problem{At: n.At, Key: fmt.Sprintf("%s.repos[%d]", key, i), Value: value})
		}
	}
	if n.Actions != nil {
		out.actions = make(map[string]bool, len(n.Actions))
		for i, id := range n.Actions {
			c.narrowAction(out.actions, Problem{At: n.At, Key: fmt.Sprintf("%s.actions[%d]", key, i), Value: id})
		}
	}
	c.notNegative(key+".", n.Tree.Bounds("tree."))
	out.tree = n.Tree
	c.p.agents[name] = out
}

// narrowRepo adds the entry in p.Value; p says where it stands.
func (c *compiler) narrowRepo(to repoIndex, p Problem) {
	pattern, err := canonicalPattern(p.Value)
	if err != nil {
		c.problem(badPattern(p.At, p.Key, p.Value, err))
		return
	}
	to[pattern] = RepoRule{Pattern: pattern}
	if !c.covered(pattern) {
		p.Reason, p.Remedy = "can never be allowed, because repos does not cover it", "add it to repos"
		c.warn(p)
	}
}

func (c *compiler) narrowAction(to map[string]bool, p Problem) {
	if !validActionID(p.Value) {
		p.Reason, p.Remedy = "is not an action id", actionRemedy
		c.problem(p)
		return
	}
	to[p.Value] = true
	if _, ok := c.p.actions[p.Value]; !ok {
		p.Reason, p.Remedy = "can never be allowed, because actions does not list it", "add it to actions"
		c.warn(p)
	}
}

// covered reports whether the general list leaves anything of a pattern. A
// wildcard over an owner of whom only single repositories are listed leaves those.
func (c *compiler) covered(pattern string) bool {
	return c.p.repos.has(Repo(pattern)) || c.owners[pattern]
}

func badPattern(at, key, value string, err error) Problem {
	return Problem{at, key, value, "is not a repository pattern (" + err.Error() + ")", repoRemedy}
}

func place(at string) string {
	if at == "" {
		return ""
	}
	return " at " + at
}

// validActionID reports whether id matches [a-z0-9][a-z0-9_.-]{0,63}.
func validActionID(id string) bool {
	if id == "" || len(id) > maxActionID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		word := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !word && (i == 0 || c != '_' && c != '.' && c != '-') {
			return false
		}
	}
	return true
}
