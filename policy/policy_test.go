package policy_test

import (
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
