package sim

import (
	"fmt"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// The repositories of the plays.
const (
	// rootRepo is the orchestrators' own, v1Repo and v0Repo are free for all.
	rootRepo = "github.com/me/agent-env"
	v1Repo   = "github.com/acme/one"
	v0Repo   = "github.com/acme/old"
	// carefulRepo wants each launch approved, hourlyRepo one an hour.
	carefulRepo = "github.com/me/careful"
	hourlyRepo  = "github.com/me/hourly"
	// hostedRepo is a clone on the laptop, and agents on anyRepo live where their parent does.
	hostedRepo = "local/app"
	anyRepo    = "github.com/acme/any"
)

// The bounds of the plays: commands in a turn, actions that run at once and
// that want approval, and reminders of one agent.
const (
	commandsPerTurn = 4
	plainActions    = 24
	guardedActions  = 6
	reminders       = 2
)

// book names an allowlist: the length of chains (1, 4 or 40), whether it is
// narrowed, and the budget of trees.
type book struct {
	chain  int
	narrow bool
	purse  int // in Budgets
}

// poorName is the name of an orchestrator whose trees get one launch alone.
const poorName = "main2"

// budgets are those of trees; the first is the defaults, which no play reaches.
var budgets = []policy.Budget{{}, {Launches: 3}, {Open: 2}, {Turns: 5}, {Tokens: 400}, {CostUSD: 1}, {Launches: 4, Open: 1, Turns: 12, Tokens: 900}}

// policies are the allowlists of all books, compiled once. Safe for concurrent use.
var policies = sync.OnceValue(func() map[book]*policy.Policy {
	all := map[book]*policy.Policy{}
	for _, chain := range []int{1, 4, 40} {
		for purse := range budgets {
			for _, narrow := range []bool{false, true} {
				b := book{chain, narrow, purse}
				all[b] = compile(b)
			}
		}
	}
	return all
})

func compile(b book) *policy.Policy {
	r := policy.Rules{
		Repos: []policy.RepoRule{{Pattern: v1Repo, API: bridge.APIv1}, {Pattern: v0Repo, API: bridge.APIv0},
			{Pattern: carefulRepo, Approval: policy.Approval{Mode: policy.ApprovalEach}},
			{Pattern: hourlyRepo, Approval: policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour}},
			{Pattern: hostedRepo, Runtime: hostedRuntime}, {Pattern: anyRepo}},
		Limits: policy.Limits{CommandsPerTurn: commandsPerTurn, LaunchesPerHour: 8, OpenSubagents: 5, Depth: 2, TurnsPerChain: b.chain,
			Reminders: reminders, Tree: budgets[b.purse]},
		Agents:        map[string]policy.Narrowing{poorName: {Tree: policy.Budget{Launches: 1}}},
		OperatorRepos: []string{rootRepo, anyRepo},
	}
	for i := range plainActions {
		r.Actions = append(r.Actions, policy.ActionRule{ID: fmt.Sprintf("act_%d", i), Relay: "laptop"})
	}
	for i := range guardedActions {
		r.Actions = append(r.Actions, policy.ActionRule{ID: fmt.Sprintf("guarded_%d", i), Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalEach}})
	}
	if b.narrow {
		r.Repos, r.Actions = r.Repos[2:3], r.Actions[:4]
	}
	p, problems := policy.New(r)
	if len(problems) > 0 {
		panic(fmt.Sprintf("the play's own rules: %v", problems))
	}
	return p
}
