package config

import (
	"slices"
	"strings"
	"testing"

	"drawbridge/policy"
)

// clone parses a bridge.yaml with a runtime, and compiles an allowlist under it.
func clone(t *testing.T, bridge, list string) (p *policy.Policy, all []string) {
	t.Helper()
	getenv := func(string) (string, bool) { return strings.Repeat("s", 40), true }
	b, problems := ParseBridge(Source{Name: "bridge.yaml", Dir: "/etc", Getenv: func(name string) (string, bool) { v, ok := getenv(name); return v + name, ok },
		Data: []byte("token: ${TOKEN}\nkey: ${KEY}\n" + bridge)})
	for _, p := range problems {
		all = append(all, p.String())
	}
	rules, problems := ParseAllowlist(Source{Name: "allowlist.yaml", Data: []byte(list)})
	for _, p := range problems {
		all = append(all, p.String())
	}
	if len(all) > 0 {
		return nil, all
	}
	p, problems = b.Policy(rules)
	for _, p := range problems {
		all = append(all, p.String())
	}
	return p, all
}

const (
	relayRuntime    = "runtimes: { laptop: { kind: relay, script: x } }\n"
	scriptedRuntime = "runtimes: { team: { kind: scripted, script: x } }\n"
	cloneRule       = "repos: [ { repo: local/my-app, runtime: laptop } ]\n"
)

// TestClonesNeedARelay: this version has no runtimes of kind relay, so a rule that names a runtime is a problem with the rule's place,
// and so is an orchestrator on a clone. It is not parallel, nor is the next one, which changes the kinds.
func TestClonesNeedARelay(t *testing.T) {
	for name, tt := range map[string]struct{ bridge, list, want string }{
		"rule":                   {"", cloneRule, `allowlist.yaml:1: repos[0].runtime: "laptop" cannot be used here, because this version of the bridge has no runtimes of kind relay; remove the rule`},
		"rule, scripted runtime": {scriptedRuntime, strings.Replace(cloneRule, "laptop", "team", 1), `repos[0].runtime: "team" cannot be used here`},
		"rule of github":         {scriptedRuntime, "repos: [ { repo: github.com/me/x, runtime: team } ]\n", `repos[0].runtime: "team" cannot be used here`},
		"without a runtime":      {"", "repos: [ local/my-app ]\n", `allowlist.yaml:1: repos[0].runtime: is required for local/my-app, a clone on a machine; name the runtime of its relay: { repo: local/my-app, runtime: NAME }`},
		"wildcard":               {"", "repos: [ { repo: 'local/*', runtime: laptop } ]\n", `each clone of a machine is listed by its own name`},
		"bad name":               {"", "repos: [ { repo: local/../x, runtime: laptop } ]\n", `write local/name: there is more than a name after local/`},
		"bad runtime":            {"", "repos: [ { repo: local/x, runtime: ../x } ]\n", `repos[0].runtime: "../x" is not a name`},
		"kind":                   {relayRuntime, "repos: []\n", `runtimes.laptop.kind: "relay" is not known; use scripted`},
		"orchestrator":           {"orchestrators: [{ name: main, repo: LOCAL/x }]\n", "repos: []\n", `orchestrators[0].runtime: cannot be used here, because this version of the bridge has no runtimes of kind relay (for local/x, a clone on a machine)`},
		"orchestrator, scripted": {scriptedRuntime + "orchestrators: [{ name: main, repo: local/x, runtime: team }]\n", "repos: []\n", `orchestrators[0].runtime: "team" cannot be used here`},
	} {
		if p, got := clone(t, tt.bridge, tt.list); p != nil || len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestClonesWithARelay: the arrival of the kind in runtimeKinds is all that rules and orchestrators of clones wait for.
func TestClonesWithARelay(t *testing.T) {
	before := runtimeKinds
	runtimeKinds = append(slices.Clone(before), kindRelay)
	t.Cleanup(func() { runtimeKinds = before })
	p, got := clone(t, relayRuntime+"orchestrators: [{ name: main, repo: LOCAL/x, runtime: laptop }]\n", cloneRule)
	if len(got) > 0 {
		t.Fatal(got)
	}
	if rules := p.RepoRules(); len(rules) != 1 || rules[0].Pattern != "local/my-app" || rules[0].Runtime != "laptop" || !slices.Equal(p.OperatorRepos(), []policy.Repo{"local/x"}) {
		t.Errorf("%+v %v", rules, p.OperatorRepos())
	}
	for name, tt := range map[string]struct{ bridge, list, want string }{
		"another":      {relayRuntime, strings.Replace(cloneRule, "laptop", "desk", 1), `repos[0].runtime: "desk" is not a runtime; add it below runtimes in bridge.yaml, with kind: relay`},
		"scripted":     {scriptedRuntime, strings.Replace(cloneRule, "laptop", "team", 1), `repos[0].runtime: "team" is a runtime of kind scripted, which has no clones of a machine; name a runtime of kind relay`},
		"orchestrator": {"orchestrators: [{ name: main, repo: local/x }]\n", "repos: []\n", `orchestrators[0].runtime: is not a runtime (for local/x, a clone on a machine)`},
	} {
		if p, got := clone(t, tt.bridge, tt.list); p != nil || len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
