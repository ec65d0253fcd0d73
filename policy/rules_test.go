package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/parser"
	"drawbridge/policy"

	"github.com/google/go-cmp/cmp"
)

func TestNewProblems(t *testing.T) {
	t.Parallel()
	repo := func(pattern string) policy.Rules {
		return policy.Rules{Repos: []policy.RepoRule{{Pattern: pattern, At: "a.yaml:3"}}}
	}
	for name, c := range map[string]struct {
		rules policy.Rules
		want  []string
	}{
		"a bare star":         {repo("*"), []string{"repos[0] * stands for a whole name"}},
		"every owner":         {repo("github.com/*"), []string{"repos[0] is missing"}},
		"owners and names":    {repo("github.com/*/*"), []string{"repos[0] a wildcard for owners or hosts is never accepted"}},
		"any host":            {repo("*/acme/*"), []string{"repos[0] never accepted"}},
		"a star in a name":    {repo("github.com/acme/tool-*"), []string{"repos[0] only at the end"}},
		"a star in an owner":  {repo("github.com/ac*/*"), []string{"repos[0] never accepted"}},
		"a slash at the end":  {repo("github.com/acme/*/"), []string{"repos[0] only at the end"}},
		"three segments":      {repo("github.com/acme/x/*"), []string{"repos[0] more than an owner and a name"}},
		"another host":        {repo("gitlab.com/acme/*"), []string{"repos[0] not exactly github.com"}},
		"a bare name":         {repo("me/my-app"), []string{"repos[0] host github.com/ is missing"}},
		"an empty entry":      {repo(""), []string{"repos[0] empty"}},
		"twice":               {policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/b", At: "a:1"}, {Pattern: "https://github.com/A/B"}}}, []string{"repos[1] is listed already at a:1"}},
		"an API":              {policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/b", API: "v2"}}}, []string{"repos[0].api is not known"}},
		"an approval":         {policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/a/b", Approval: policy.Approval{Mode: "maybe"}}}}, []string{"repos[0].approval is not an approval"}},
		"an endless approval": {policy.Rules{Actions: []policy.ActionRule{{ID: "a", Approval: policy.Approval{Mode: policy.ApprovalOnce}}}}, []string{"actions.a.approval is not an approval"}},
		"action ids":          {policy.Rules{Actions: []policy.ActionRule{{ID: "A"}, {ID: ""}, {ID: "-a"}, {ID: "a b"}, {ID: strings.Repeat("a", 65)}}}, []string{"actions", "actions", "actions", "actions", "actions"}},
		"an action twice":     {policy.Rules{Actions: []policy.ActionRule{{ID: "a"}, {ID: "a", Relay: "x"}}}, []string{"actions.a is listed already"}},
		"limits":              {policy.Rules{Limits: policy.Limits{Depth: -1, CommandsPerTurn: -2}}, []string{"limits.commands_per_turn is negative", "limits.depth is negative"}},
		"budgets": {policy.Rules{Limits: policy.Limits{Reminders: -1, Tree: policy.Budget{Turns: -1}}, Agents: map[string]policy.Narrowing{"a": {Tree: policy.Budget{CostUSD: -5}}}},
			[]string{"limits.tree.turns is negative", "limits.reminders is negative", "agents.a.tree.cost_usd is negative"}},
		"an operator's":         {policy.Rules{OperatorRepos: []string{"github.com/me/*"}}, []string{"operator repository 0 is not a repository"}},
		"a narrowing":           {policy.Rules{Agents: map[string]policy.Narrowing{"b": {Repos: []string{"x"}}, "a": {Actions: []string{"X"}}}}, []string{"agents.a.actions[0] is not an action id", "agents.b.repos[0] is not a repository pattern"}},
		"several problems once": {policy.Rules{Repos: []policy.RepoRule{{Pattern: "x"}, {Pattern: "y"}}, Actions: []policy.ActionRule{{ID: "?"}}}, []string{"repos[0]", "repos[1]", "actions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, problems := policy.New(c.rules)
			if p != nil || len(problems) != len(c.want) {
				t.Fatalf("policy %v, problems %+v", p, problems)
			}
			for i, want := range c.want {
				key, reason, _ := strings.Cut(want, " ")
				if strings.HasPrefix(want, "operator") {
					key, reason = "operator repository 0", "is not a repository"
				}
				got := problems[i]
				if got.Key != key || !strings.Contains(got.Reason, reason) || got.Remedy == "" || got.Reason == "" {
					t.Errorf("problem %+v, want %q", got, want)
				}
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/acme/*"}, {Pattern: "github.com/me/a"}},
		Actions: []policy.ActionRule{{ID: "x"}},
		Agents: map[string]policy.Narrowing{"bot": {
			Repos:   []string{"github.com/acme/tool", "github.com/me/*", "github.com/me/b", "github.com/you/*"},
			Actions: []string{"x", "y"}, At: "allowlist.yaml:7",
		}},
	})
	var got []string
	for _, w := range p.Warnings() {
		got = append(got, w.At+" "+w.Key+" "+w.Value)
	}
	want := []string{
		"allowlist.yaml:7 agents.bot.repos[2] github.com/me/b",
		"allowlist.yaml:7 agents.bot.repos[3] github.com/you/*",
		"allowlist.yaml:7 agents.bot.actions[1] y",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"github.com/acme/tool", "github.com/me/a"}, p.AllowedRepos([]string{"bot"})); diff != "" {
		t.Error(diff)
	}
}

func TestExactRuleBeatsWildcard(t *testing.T) {
	t.Parallel()
	each := policy.Approval{Mode: policy.ApprovalEach}
	p := mustPolicy(t, policy.Rules{
		Repos:         []policy.RepoRule{{Pattern: "github.com/a/*"}, {Pattern: "github.com/a/prod", Approval: each}, {Pattern: "github.com/a/env"}},
		OperatorRepos: []string{"github.com/a/env"},
	})
	for repo, want := range map[string]policy.Decision{
		"github.com/a/x":    policy.Granted,
		"github.com/a/prod": policy.Held,
		// Listed by its exact name, an orchestrator's repository is open to agents.
		"github.com/a/env": policy.Granted,
	} {
		if v := p.Grant(nil, launch(repo, "x"), false); v.Decision != want {
			t.Errorf("%s: %s, want %s", repo, v, want)
		}
	}
}

func TestDefaultsAndAccessors(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{Limits: policy.Limits{Depth: 7}})
	want := policy.Limits{CommandsPerTurn: 10, LaunchesPerHour: 20, OpenSubagents: 10, Depth: 7, TurnsPerChain: 50, Reminders: 20, Tree: policy.Budget{Launches: 100, Open: 10, Turns: 500}}
	if diff := cmp.Diff(want, p.Limits()); diff != "" {
		t.Error(diff)
	}
	house := mustPolicy(t, houseRules())
	if got := house.RepoRules(); len(got) != 4 || got[3].Pattern != "github.com/me/my-app" || got[3].API != "v0" {
		t.Errorf("repo rules %+v", got)
	}
	if got := house.ActionRules(); len(got) != 3 || got[0].ID != "backup_script" {
		t.Errorf("action rules %+v", got)
	}
	if diff := cmp.Diff([]policy.Repo{"github.com/acme/agent-env", "github.com/boss/env"}, house.OperatorRepos()); diff != "" {
		t.Error(diff)
	}
	// What a caller does to a returned list must not reach the policy.
	house.AllowedRepos(nil)[0] = "github.com/evil/*"
	house.AllowedActions(nil)[0] = "evil"
	if house.AllowedRepos(nil)[0] == "github.com/evil/*" || house.AllowedActions(nil)[0] == "evil" {
		t.Error("a returned list is the policy's own")
	}
}

func TestParseApproval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.Approval{
		"never":          {Mode: policy.ApprovalNever},
		" each\t":        {Mode: policy.ApprovalEach},
		"once per 24h":   {Mode: policy.ApprovalOnce, For: 24 * time.Hour},
		"once per 7d":    {Mode: policy.ApprovalOnce, For: 7 * 24 * time.Hour},
		"once per 1h30m": {Mode: policy.ApprovalOnce, For: 90 * time.Minute},
		"once per 365d":  {Mode: policy.ApprovalOnce, For: 365 * 24 * time.Hour},
	} {
		got, err := policy.ParseApproval(text)
		if err != nil || got != want {
			t.Errorf("ParseApproval(%q) = %v, %v", text, got, err)
		}
		if again, err := policy.ParseApproval(got.String()); err != nil || again != got {
			t.Errorf("%q does not read back: %v, %v", got.String(), again, err)
		}
	}
	for _, text := range []string{"", "Never", "always", "once", "once per", "once per day", "once per 0s", "once per -1h",
		"once per 1ms", "once per 366d", "once per 1.5d", "once per 99999d", "each 1h", "never once per 1h", "once  per 1h"} {
		if got, err := policy.ParseApproval(text); err == nil || !strings.Contains(err.Error(), "once per 24h") {
			t.Errorf("ParseApproval(%q) = %v, %v", text, got, err)
		}
	}
	if got := (policy.Approval{}).String(); got != "never" {
		t.Errorf("the zero approval prints as %q", got)
	}
}

func TestCommandKey(t *testing.T) {
	t.Parallel()
	same := [][2]parser.Command{
		{launch("github.com/a/b", "p"), {Verb: parser.Subagent, Repo: "HTTPS://github.com/A/B.git/", Prompt: "\tp ", Line: 9, Raw: "other"}},
		{launch("not a repo", "p"), launch(" not a repo ", "p")},
		{action("x"), action(" x\t")},
		{reminder("1h", "m"), reminder(" 1h", "m ")},
	}
	for _, pair := range same {
		if policy.CommandKey(pair[0]) != policy.CommandKey(pair[1]) {
			t.Errorf("keys differ: %+v", pair)
		}
	}
	seen := make(map[string]parser.Command)
	for _, cmd := range []parser.Command{
		launch("github.com/a/b", "p"), launch("github.com/a/b", "P"), launch("github.com/a/bp", ""), launch("not a repo", "p"),
		action("p"), action("P"), action(""), reminder("p", ""), reminder("", "p"), reminder("1h", "m"),
		{Verb: parser.WebhookResult, AgentID: "p"}, {Verb: parser.WebhookResult, Status: "p"}, {}, {Raw: "x"},
	} {
		key := policy.CommandKey(cmd)
		if earlier, ok := seen[key]; ok || len(key) != 64 {
			t.Errorf("key %q of %+v is that of %+v", key, cmd, earlier)
		}
		seen[key] = cmd
	}
	// The key is stored: a change of its computation would forget every echo.
	if got := policy.CommandKey(action("backup_script")); got != stableKey {
		t.Errorf("the key of backup_script became %s", got)
	}
}

const stableKey = "cb47e7a81948868740e601a4f6810100cb1ec61f0a5e216901691eee60b54afb"

func bigRules(n int) policy.Rules {
	var r policy.Rules
	for i := range n {
		r.Repos = append(r.Repos, policy.RepoRule{Pattern: fmt.Sprintf("github.com/o%d/r%d", i%1000, i)})
		r.Actions = append(r.Actions, policy.ActionRule{ID: fmt.Sprintf("a%d", i)})
	}
	r.Agents = map[string]policy.Narrowing{"bot": {Repos: []string{"github.com/o1/*"}, Actions: []string{"a1"}}}
	return r
}

func BenchmarkNew100k(b *testing.B) {
	r := bigRules(100_000)
	for b.Loop() {
		if p, _ := policy.New(r); p == nil {
			b.Fatal("no policy")
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	p := mustPolicy(b, bigRules(100_000))
	good := make([]parser.Command, 0, 10)
	bad := make([]parser.Command, 0, 10)
	for i := range 5 {
		good = append(good, launch(fmt.Sprintf("https://github.com/o%d/r%d.git", i, i), "work"), action(fmt.Sprintf("a%d", i)))
		bad = append(bad, launch("github.com/no/pe", "work"), action("nope"))
	}
	flood := make([]parser.Command, 10_000)
	for _, c := range []struct {
		name string
		r    policy.Request
	}{
		{"granted", policy.Request{Commands: good}},
		{"refused", policy.Request{Commands: bad}},
		{"refused and narrowed", policy.Request{Commands: bad, Agents: []string{"bot"}}},
		{"flood", policy.Request{Commands: flood}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Judge(c.r)
			}
		})
	}
}
