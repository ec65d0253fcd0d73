package policy_test

import (
	"slices"
	"testing"
	"time"

	"drawbridge/parser"
	"drawbridge/policy"
)

func mustPolicy(tb testing.TB, r policy.Rules) *policy.Policy {
	tb.Helper()
	p, problems := policy.New(r)
	if len(problems) > 0 {
		tb.Fatalf("problems: %+v", problems)
	}
	return p
}

func launch(repo, prompt string) parser.Command {
	return parser.Command{Verb: parser.Subagent, Repo: repo, Prompt: prompt}
}

func action(id string) parser.Command {
	return parser.Command{Verb: parser.LocalAction, Action: id}
}

func reminder(when, message string) parser.Command {
	return parser.Command{Verb: parser.Remind, When: when, Message: message}
}

// houseRules has one of everything: each approval, both APIs, a narrowed tree and
// an orchestrator's own repository under a wildcard.
func houseRules() policy.Rules {
	return policy.Rules{
		Repos: []policy.RepoRule{
			{Pattern: "github.com/me/my-app", API: "v0"},
			{Pattern: "github.com/me/guarded", Approval: policy.Approval{Mode: policy.ApprovalEach}},
			{Pattern: "github.com/me/daily", Approval: policy.Approval{Mode: policy.ApprovalOnce, For: 24 * time.Hour}},
			{Pattern: "github.com/acme/*"},
		},
		Actions: []policy.ActionRule{
			{ID: "backup_script", Relay: "laptop"},
			{ID: "lock_screen", Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalEach}},
			{ID: "open_browser", Relay: "desk", Approval: policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour}},
		},
		Agents: map[string]policy.Narrowing{
			"docs-bot": {Repos: []string{"github.com/acme/docs", "github.com/me/my-app"}, Actions: []string{}},
			"child":    {Repos: []string{"github.com/acme/*"}},
			"mute":     {Repos: []string{}, Actions: []string{"backup_script"}},
		},
		OperatorRepos: []string{"https://github.com/Acme/Agent-Env", "github.com/boss/env"},
	}
}

// TestOwnRepository: an orchestrator's own repository is open to that orchestrator and to all below it where the configuration
// says so, to nobody else, and not past a narrowing.
func TestOwnRepository(t *testing.T) {
	t.Parallel()
	rules := houseRules()
	rules.Own = []policy.OwnRule{{Agent: "main", Repo: "https://github.com/Boss/Env"}}
	p := mustPolicy(t, rules)
	own := launch("github.com/boss/env", "x")
	for name, c := range map[string]struct {
		agents []string
		want   policy.Decision
	}{
		"the orchestrator":               {[]string{"main"}, policy.Granted},
		"a subagent of it":               {[]string{"main", "boss-1a2b3c"}, policy.Granted},
		"nobody in particular":           {nil, policy.Refused},
		"another orchestrator":           {[]string{"other"}, policy.Refused},
		"a narrowing that leaves it out": {[]string{"main", "child"}, policy.Refused},
	} {
		if v := p.Grant(c.agents, own, true); v.Decision != c.want {
			t.Errorf("%s: %s (%s), want %s", name, v.Decision, v.Reason, c.want)
		}
		if listed := slices.Contains(p.AllowedRepos(c.agents), "github.com/boss/env"); listed != (c.want == policy.Granted) {
			t.Errorf("%s: the list of allowed repositories has it: %v", name, listed)
		}
	}
	if v := p.Grant([]string{"main"}, launch("github.com/acme/agent-env", "x"), true); v.Decision != policy.Refused {
		t.Errorf("another orchestrator's own repository: %s", v.Decision)
	}
	rules.Own = []policy.OwnRule{{Agent: "main", Repo: "nonsense"}}
	if _, problems := policy.New(rules); len(problems) == 0 {
		t.Error("an own repository that is not one was accepted")
	}
}
