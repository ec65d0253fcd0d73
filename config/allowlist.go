package config

import (
	"fmt"
	"strconv"
	"time"

	"drawbridge/internal/yamlconf"
	"drawbridge/policy"
)

// allowlist is allowlist.yaml as written.
type allowlist struct {
	Repos   []repoEntry            `yaml:"repos"`
	Actions map[string]actionEntry `yaml:"actions"`
	Limits  limits                 `yaml:"limits"`
	Agents  map[string]narrowing   `yaml:"agents"`
}

type repoEntry struct {
	Repo     string  `yaml:"repo,short"`
	Approval *string `yaml:"approval"`
	API      *string `yaml:"api" oneof:"v1 v0"`
	Runtime  *string `yaml:"runtime"`
	At       string  `yaml:",at"`
}

type actionEntry struct {
	Relay    *string `yaml:"relay"`
	Approval *string `yaml:"approval"`
	// Wait is how long the action waits for a relay that is away.
	Wait *time.Duration `yaml:"wait"`
	At   string         `yaml:",at"`
}

// limits are pointers, because a 0 in the file must not mean the default.
type limits struct {
	CommandsPerTurn *int `yaml:"commands_per_turn"`
	LaunchesPerHour *int `yaml:"launches_per_hour"`
	OpenSubagents   *int `yaml:"open_subagents"`
	Depth           *int `yaml:"depth"`
	TurnsPerChain   *int `yaml:"turns_per_chain"`
	Reminders       *int `yaml:"reminders"`
	Tree            tree `yaml:"tree"`
}

// tree is the budget of a tree of agents.
type tree struct {
	Launches *int `yaml:"launches"`
	Open     *int `yaml:"open"`
	Turns    *int `yaml:"turns"`
	Tokens   *int `yaml:"tokens"`
	CostUSD  *int `yaml:"cost_usd"`
}

type narrowing struct {
	Repos   []string `yaml:"repos"`
	Actions []string `yaml:"actions"`
	Tree    tree     `yaml:"tree"`
	At      string   `yaml:",at"`
}

const (
	maxLimit = 1_000_000
	// maxTokens keeps sums far from the end of 64 bits.
	maxTokens = 1_000_000_000_000
	maxDepth  = 100
)

// LoadAllowlist reads and checks allowlist.yaml. With any problem the rules are
// empty, which allows nothing, and all problems come at once. An empty file is no
// problem and allows nothing as well. A file that others could change is a
// problem. Whether the relays of actions exist only bridge.yaml knows: see
// Bridge.Rules.
func LoadAllowlist(path string) (policy.Rules, []Problem) {
	src, problem := open(path)
	if problem != nil {
		return policy.Rules{}, []Problem{*problem}
	}
	return ParseAllowlist(src)
}

// PreviewAllowlist is LoadAllowlist for a command that only shows what a list
// says: it accepts a file that others can change, such as one of a checkout.
func PreviewAllowlist(path string) (policy.Rules, []Problem) {
	src, problem := openAny(path)
	if problem != nil {
		return policy.Rules{}, []Problem{*problem}
	}
	return ParseAllowlist(src)
}

// ParseAllowlist is LoadAllowlist for a text that is in memory already.
func ParseAllowlist(src Source) (policy.Rules, []Problem) {
	var a allowlist
	file, problems := yamlconf.Read(src, &a)
	if unreadable(file, problems) {
		return policy.Rules{}, problems
	}
	c := checker{file: file, reported: keysOf(problems)}
	rules := c.rules(&a)
	problems = append(problems, c.problems...)
	_, found := policy.New(rules)
	for _, p := range Problems(found) {
		// What could not be read was empty for the policy; once is enough.
		if c.reported[p.Key] || c.reported[p.Key+".repo"] {
			continue
		}
		if p.At == "" {
			p.At = file.At(p.Key)
		}
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return policy.Rules{}, problems
	}
	return rules, nil
}

// rules translates what could be read. Entries with a problem stay in, so that the
// policy counts them as the file does.
func (c *checker) rules(a *allowlist) policy.Rules {
	rules := policy.Rules{Limits: c.limits(a.Limits), Agents: c.agents(a.Agents)}
	for i, e := range a.Repos {
		key := fmt.Sprintf("repos[%d]", i)
		rules.Repos = append(rules.Repos, policy.RepoRule{
			Pattern: e.Repo, Approval: c.approval(key+".approval", e.Approval), API: orEmpty(e.API), Runtime: c.nameOf(key+".runtime", e.Runtime), At: e.At,
		})
	}
	for _, id := range sortedKeys(a.Actions) {
		e, key := a.Actions[id], "actions."+id
		rules.Actions = append(rules.Actions, policy.ActionRule{
			ID: id, Relay: c.nameOf(key+".relay", e.Relay), Approval: c.approval(key+".approval", e.Approval), Wait: c.wait(key+".wait", e.Wait), At: e.At,
		})
	}
	return rules
}

// wait bounds how long an action waits for its relay.
func (c *checker) wait(key string, d *time.Duration) *time.Duration {
	if d != nil && (*d < 0 || *d > policy.MaxWait) {
		c.problem(key, d.String(), "is out of range", "use 0s to 168h, such as 10m or 1h")
		return nil
	}
	return d
}

func (c *checker) approval(key string, text *string) policy.Approval {
	if text == nil {
		return policy.Approval{Mode: policy.ApprovalNever}
	}
	a, err := policy.ParseApproval(*text)
	if err != nil {
		c.problem(key, *text, "is not an approval", err.Error())
	}
	return a
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// nameOf reads the name of a relay or a runtime; "" where none is given.
func (c *checker) nameOf(key string, text *string) string {
	if text == nil {
		return ""
	}
	c.name(key, *text)
	return *text
}

func (c *checker) limits(l limits) policy.Limits {
	return policy.Limits{
		CommandsPerTurn: c.limit("limits.commands_per_turn", l.CommandsPerTurn, maxLimit),
		LaunchesPerHour: c.limit("limits.launches_per_hour", l.LaunchesPerHour, maxLimit),
		OpenSubagents:   c.limit("limits.open_subagents", l.OpenSubagents, maxLimit),
		Depth:           c.limit("limits.depth", l.Depth, maxDepth),
		TurnsPerChain:   c.limit("limits.turns_per_chain", l.TurnsPerChain, maxLimit),
		Reminders:       c.limit("limits.reminders", l.Reminders, maxLimit),
		Tree:            c.tree("limits.tree.", l.Tree),
	}
}

func (c *checker) tree(key string, t tree) policy.Budget {
	return policy.Budget{
		Launches: c.limit(key+"launches", t.Launches, maxLimit),
		Open:     c.limit(key+"open", t.Open, maxLimit),
		Turns:    c.limit(key+"turns", t.Turns, maxLimit),
		Tokens:   c.limit(key+"tokens", t.Tokens, maxTokens),
		CostUSD:  c.limit(key+"cost_usd", t.CostUSD, maxLimit),
	}
}

// limit refuses 0, which a person might write for "none" and another for "no limit".
func (c *checker) limit(key string, value *int, most int) int {
	if value == nil {
		return 0
	}
	if *value < 1 || *value > most {
		c.problem(key, strconv.Itoa(*value), "is out of range", fmt.Sprintf("use 1 to %d, or remove the key for the default; to forbid something, leave it out of repos and actions", most))
		return 0
	}
	return *value
}

func (c *checker) agents(entries map[string]narrowing) map[string]policy.Narrowing {
	agents := make(map[string]policy.Narrowing, len(entries))
	for _, n := range sortedKeys(entries) {
		e := entries[n]
		if n == "" || len(n) > 128 {
			c.problem("agents", n, "is not an agent's name", "use 1 to 128 characters")
		}
		unread := c.reported["agents."+n+".repos"] || c.reported["agents."+n+".actions"]
		budget := c.tree("agents."+n+".tree.", e.Tree)
		if e.Repos == nil && e.Actions == nil && e.Tree == (tree{}) && !unread {
			c.problem("agents."+n, "", "has no repos, actions or tree, so it limits nothing", "write repos, actions or tree below it; [] allows nothing")
		}
		agents[n] = policy.Narrowing{Repos: e.Repos, Actions: e.Actions, Tree: budget, At: e.At}
	}
	return agents
}
