// Package rules holds the allowlists of the plays of package simulation: the
// same few repositories and actions, with caps and budgets that are soon reached.
// It decides nothing; package policy does. Rule of thumb: what a play's agents
// may do is written here once, for them who write and for the oracle who judges.
package rules

import (
	"fmt"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// The repositories of the plays.
const (
	// RootRepo is the orchestrators' own, V1Repo and V0Repo are free for all.
	RootRepo = "github.com/me/agent-env"
	V1Repo   = "github.com/acme/one"
	V0Repo   = "github.com/acme/old"
	// CarefulRepo wants each launch approved, HourlyRepo one an hour.
	CarefulRepo = "github.com/me/careful"
	HourlyRepo  = "github.com/me/hourly"
)

// The bounds of the plays: commands in a turn, actions that run at once and
// that want approval, and reminders of one agent.
const (
	CommandsPerTurn = 4
	PlainActions    = 24
	GuardedActions  = 6
	Reminders       = 2
)

// Book names an allowlist: the length of chains (1, 4 or 40), whether it is
// narrowed, and the budget of trees.
type Book struct {
	Chain  int
	Narrow bool
	Purse  int // in Budgets
}

// Poor is the name of an orchestrator whose trees get one launch alone.
const Poor = "main2"

// Budgets are those of trees; the first is the defaults, which no play reaches.
var Budgets = []policy.Budget{{}, {Launches: 3}, {Open: 2}, {Turns: 5}, {Tokens: 400}, {CostUSD: 1}, {Launches: 4, Open: 1, Turns: 12, Tokens: 900}}

// Policies are the allowlists of all books, compiled once. Safe for concurrent use.
var Policies = sync.OnceValue(func() map[Book]*policy.Policy {
	all := map[Book]*policy.Policy{}
	for _, chain := range []int{1, 4, 40} {
		for purse := range Budgets {
			for _, narrow := range []bool{false, true} {
				b := Book{chain, narrow, purse}
				all[b] = compile(b)
			}
		}
	}
	return all
})

func compile(b Book) *policy.Policy {
	r := policy.Rules{
		Repos: []policy.RepoRule{{Pattern: V1Repo, API: bridge.APIv1}, {Pattern: V0Repo, API: bridge.APIv0},
			{Pattern: CarefulRepo, Approval: policy.Approval{Mode: policy.ApprovalEach}},
			{Pattern: HourlyRepo, Approval: policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour}}},
		Limits: policy.Limits{CommandsPerTurn: CommandsPerTurn, LaunchesPerHour: 8, OpenSubagents: 5, Depth: 2, TurnsPerChain: b.Chain,
			Reminders: Reminders, Tree: Budgets[b.Purse]},
		Agents:        map[string]policy.Narrowing{Poor: {Tree: policy.Budget{Launches: 1}}},
		OperatorRepos: []string{RootRepo},
	}
	for i := range PlainActions {
		r.Actions = append(r.Actions, policy.ActionRule{ID: fmt.Sprintf("act_%d", i), Relay: "laptop"})
	}
	for i := range GuardedActions {
		r.Actions = append(r.Actions, policy.ActionRule{ID: fmt.Sprintf("guarded_%d", i), Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalEach}})
	}
	if b.Narrow {
		r.Repos, r.Actions = r.Repos[2:3], r.Actions[:4]
	}
	p, problems := policy.New(r)
	if len(problems) > 0 {
		panic(fmt.Sprintf("the play's own rules: %v", problems))
	}
	return p
}
