package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/parser"
	"drawbridge/policy"
)

// TestChange: an edited policy differs where an agent would notice it, and nowhere else.
func TestChange(t *testing.T) {
	t.Parallel()
	wait := time.Minute
	was := mustPolicy(t, policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/me/*"}, {Pattern: "github.com/me/api", API: "v0"}},
		Actions: []policy.ActionRule{{ID: "backup", Relay: "laptop"}, {ID: "lock", Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalEach}}, {ID: "old", Relay: "laptop"}},
		Agents:  map[string]policy.Narrowing{"docs": {Actions: []string{}}},
	})
	now := mustPolicy(t, policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/me/app"}, {Pattern: "github.com/me/api", Runtime: "laptop"}},
		Actions: []policy.ActionRule{{ID: "backup", Relay: "desk", Wait: &wait}, {ID: "lock", Relay: "laptop", Approval: policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour}}, {ID: "deploy", Relay: "laptop"}},
	})
	got := map[string]string{}
	for _, a := range []policy.Asked{
		{Verb: parser.Subagent, Target: "github.com/me/app"}, {Verb: parser.Subagent, Target: "github.com/me/web"}, {Verb: parser.Subagent, Target: "github.com/me/api"},
		{Verb: parser.LocalAction, Target: "backup"}, {Verb: parser.LocalAction, Target: "lock"}, {Verb: parser.LocalAction, Target: "old"}, {Verb: parser.LocalAction, Target: "deploy"},
		{Verb: parser.LocalAction, Target: "evil"}, {Agents: []string{"main", "docs"}, Verb: parser.LocalAction, Target: "lock"},
	} {
		before, after := was.Alone(a), now.Alone(a)
		if before.Grant.Valid() || after.Grant.Valid() {
			t.Errorf("%+v is granted for real", a)
		}
		name := a.Target
		if a.Agents != nil {
			name += " of docs"
		}
		got[name] = before.Change(after)
	}
	want := map[string]string{
		"github.com/me/app": "",
		"github.com/me/web": `repository "github.com/me/web" is not on the allowlist; allowed: github.com/me/api, github.com/me/app`,
		"github.com/me/api": "runtime: laptop, before: none; api: none, before: v0",
		"backup":            "relay: desk, before: laptop; wait: 1m0s, before: 1h0m0s",
		"lock":              "approval: once per 1h0m0s, before: each",
		"old":               `action "old" is not on the allowlist; allowed: backup, deploy, lock`,
		"deploy":            "allowed by deploy",
		"evil":              "",
		"lock of docs":      "lock needs a person's approval, once per 1h0m0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
