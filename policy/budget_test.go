package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/parser"
	"drawbridge/policy"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{
		Repos:  []policy.RepoRule{{Pattern: "github.com/a/*"}},
		Limits: policy.Limits{Tree: policy.Budget{Launches: 5, Turns: 9, Tokens: 1000}},
		Agents: map[string]policy.Narrowing{"main": {Tree: policy.Budget{Launches: 3, CostUSD: 2}}, "wide": {Tree: policy.Budget{Launches: 50, Tokens: 5000}}},
	})
	for name, c := range map[string]struct {
		agents []string
		want   policy.Budget
	}{
		"nobody":              {nil, policy.Budget{Launches: 5, Open: 10, Turns: 9, Tokens: 1000}},
		"narrowed":            {[]string{"main"}, policy.Budget{Launches: 3, Open: 10, Turns: 9, Tokens: 1000, CostUSD: 2}},
		"under the narrowed":  {[]string{"main", "my-app-1"}, policy.Budget{Launches: 3, Open: 10, Turns: 9, Tokens: 1000, CostUSD: 2}},
		"never more":          {[]string{"wide"}, policy.Budget{Launches: 5, Open: 10, Turns: 9, Tokens: 1000}},
		"of two the narrower": {[]string{"wide", "main"}, policy.Budget{Launches: 3, Open: 10, Turns: 9, Tokens: 1000, CostUSD: 2}},
	} {
		if diff := cmp.Diff(c.want, p.Budget(c.agents)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBudgetRefuses(t *testing.T) {
	t.Parallel()
	tight := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/*"}}, Limits: policy.Limits{Tree: policy.Budget{Launches: 3, Open: 2, Turns: 4, Tokens: 100, CostUSD: 1}}})
	counted := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/*"}}, Limits: policy.Limits{Tree: policy.Budget{Launches: 3, Open: 2, Turns: 4}}})
	narrow := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/*"}}, Limits: policy.Limits{Tree: policy.Budget{Launches: 3, Open: 2, Turns: 4}},
		Agents: map[string]policy.Narrowing{"boss": {Tree: policy.Budget{Launches: 9, Open: 2, Turns: 2}}, "kid": {Tree: policy.Budget{Tokens: 50}}}})
	for name, c := range map[string]struct {
		p        *policy.Policy
		used     policy.TreeUsage
		launches int
		// turn and launch are what the refusals hold, "" for none.
		turn, launch string
	}{
		"nothing used":         {tight, policy.TreeUsage{}, 2, "", ""},
		"the last launch":      {tight, policy.TreeUsage{Launches: 2}, 1, "", ""},
		"a launch too many":    {tight, policy.TreeUsage{Launches: 2}, 2, "", "it has had 2 and its budget is 3 (limits.tree.launches); ask for at most 1 now"},
		"no launch left":       {tight, policy.TreeUsage{Launches: 7}, 1, "", "work with the subagents that you have"},
		"too many open":        {tight, policy.TreeUsage{Open: 1}, 2, "", "1 of its subagents is open and its budget is 2"},
		"the last turn":        {tight, policy.TreeUsage{Turns: 3}, 1, "", ""},
		"a turn too many":      {tight, policy.TreeUsage{Turns: 4}, 1, "has had 4 turns and its budget is 4; raise limits.tree.turns", ""},
		"tokens left":          {tight, policy.TreeUsage{Tokens: 99}, 1, "", ""},
		"tokens spent":         {tight, policy.TreeUsage{Tokens: 100}, 1, "100 tokens and its budget is 100", "100 tokens and its budget is 100"},
		"money left":           {tight, policy.TreeUsage{CostMicros: 999_999}, 1, "", ""},
		"money spent":          {tight, policy.TreeUsage{CostMicros: 1_000_000}, 1, "cost 1.00 US dollars and its budget is 1", "cost 1.00 US dollars"},
		"usage unknown":        {tight, policy.TreeUsage{Unmetered: 1}, 1, "the usage of 1 agent of the tree is unknown", "is unknown"},
		"nobody needs to":      {counted, policy.TreeUsage{Unmetered: 9, Tokens: 1 << 60, CostMicros: 1 << 60}, 1, "", ""},
		"an agent's own turns": {narrow, policy.TreeUsage{Turns: 2}, 1, "its budget is 2; raise agents.boss.tree.turns to go on", ""},
		"an agent's launches":  {narrow, policy.TreeUsage{Launches: 3}, 1, "", "its budget is 3 (limits.tree.launches)"},
		"two bounds alike":     {narrow, policy.TreeUsage{Open: 2}, 1, "", "its budget is 2 (limits.tree.open and agents.boss.tree.open)"},
		"unknown use":          {narrow, policy.TreeUsage{Unmetered: 1}, 1, "or remove agents.kid.tree.tokens\n", "or remove agents.kid.tree.tokens\n"},
		"an agent's tokens":    {narrow, policy.TreeUsage{Tokens: 50}, 1, "raise agents.kid.tree.tokens", "raise agents.kid.tree.tokens"},
		"counters below zero":  {tight, policy.TreeUsage{Launches: -5, Open: -5, Turns: -5}, 3, "", "open"},
	} {
		for what, got := range map[string][2]string{"turn": {c.p.TurnRefused([]string{"boss", "boss", "kid"}, c.used), c.turn}, "launch": {c.p.LaunchRefused([]string{"boss", "boss", "kid"}, c.used, c.launches), c.launch}} {
			if (got[0] == "") != (got[1] == "") || !strings.Contains(got[0]+"\n", got[1]) {
				t.Errorf("%s, %s: %q, want %q in it", name, what, got[0], got[1])
			}
		}
	}
}

// TestJudgeKeepsTheBudget: a turn that asks for more than the tree has left runs nothing at all.
func TestJudgeKeepsTheBudget(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/*"}}, Limits: policy.Limits{Tree: policy.Budget{Launches: 3}}})
	launch := func(prompt string) parser.Command {
		return parser.Command{Verb: parser.Subagent, Repo: "https://github.com/a/b", Prompt: prompt}
	}
	r := policy.Request{Commands: []parser.Command{launch("x"), launch("y")}, Usage: policy.Usage{Tree: policy.TreeUsage{Launches: 2}}}
	j := p.Judge(r)
	if !strings.Contains(j.OverCap, "nothing of this turn ran") || j.Verdicts[0].Grant.Valid() || j.Verdicts[0].Decision != policy.Refused {
		t.Errorf("over the budget: %+v", j)
	}
	r.Commands = r.Commands[:1]
	if j := p.Judge(r); j.OverCap != "" || !j.Verdicts[0].Grant.Valid() {
		t.Errorf("within the budget: %+v", j)
	}
}

// TestApprovalLiftsNoCap: what a person lets pass is held against every cap on launches.
func TestApprovalLiftsNoCap(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{Limits: policy.Limits{Depth: 2, LaunchesPerHour: 5, OpenSubagents: 4, Tree: policy.Budget{Launches: 3}}})
	for name, c := range map[string]struct {
		used policy.Usage
		want string
	}{
		"room":     {policy.Usage{Depth: 1, LaunchesLastHour: 4, OpenSubagents: 3, Tree: policy.TreeUsage{Launches: 2}}, ""},
		"depth":    {policy.Usage{Depth: 2}, "the limit is 2, so it may not launch subagents; do the work here"},
		"an hour":  {policy.Usage{LaunchesLastHour: 5}, "5 were made in the last hour and the limit is 5 an hour; wait until some are an hour old"},
		"open":     {policy.Usage{OpenSubagents: 4}, "4 subagents are open and the limit is 4; wait until some have ended"},
		"the tree": {policy.Usage{Tree: policy.TreeUsage{Launches: 3}}, "its budget is 3 (limits.tree.launches)"},
	} {
		if got := p.ApprovalRefused(nil, c.used); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || strings.Contains(got, "nothing of this turn") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
