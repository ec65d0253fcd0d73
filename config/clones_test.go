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
	relayRuntime    = "runtimes: { laptop: { kind: relay, relay: desk, agent: opencode } }\n"
	scriptedRuntime = "runtimes: { team: { kind: scripted, script: x } }\n"
	chatRuntime     = "runtimes: { thinker: { kind: chat, url: 'http://127.0.0.1:1/v1', model: m } }\n"
	cloneRule       = "repos: [ { repo: local/my-app, runtime: laptop } ]\n"
)

// TestClonesNeedARelay: what stands in the way of a clone is a problem with its place and what to write.
func TestClonesNeedARelay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ bridge, list, want string }{
		"rule":                   {"", cloneRule, `allowlist.yaml:1: repos[0].runtime: "laptop" is not a runtime; add it below runtimes in bridge.yaml, with kind: relay`},
		"rule, scripted runtime": {scriptedRuntime, strings.Replace(cloneRule, "laptop", "team", 1), `repos[0].runtime: "team" is a runtime of kind scripted, and its agents cannot use a clone on a machine`},
		"rule of github":         {scriptedRuntime, "repos: [ { repo: github.com/me/x, runtime: team } ]\n", `repos[0].runtime: "team" is a runtime of kind scripted`},
		"rule, chat runtime":     {chatRuntime, strings.Replace(cloneRule, "laptop", "thinker", 1), `repos[0].runtime: "thinker" is a runtime of kind chat, and its agents cannot use a clone on a machine; write a repository such as github.com/me/team in this rule, or name a runtime of kind relay`},
		"without a runtime":      {"", "repos: [ local/my-app ]\n", `allowlist.yaml:1: repos[0].runtime: is required for local/my-app, a clone on a machine; name the runtime of its relay: { repo: local/my-app, runtime: NAME }`},
		"wildcard":               {"", "repos: [ { repo: 'local/*', runtime: laptop } ]\n", `each clone of a machine is listed by its own name`},
		"bad name":               {"", "repos: [ { repo: local/../x, runtime: laptop } ]\n", `write local/name: there is more than a name after local/`},
		"bad runtime":            {"", "repos: [ { repo: local/x, runtime: ../x } ]\n", `repos[0].runtime: "../x" is not a name`},
		"kind":                   {"runtimes: { laptop: { kind: tunnel } }\n", "repos: []\n", `runtimes.laptop.kind: "tunnel" is not known; use `},
		"orchestrator":           {"orchestrators: [{ name: main, repo: LOCAL/x }]\n", "repos: []\n", `orchestrators[0].runtime: is not a runtime (for local/x, a clone on a machine)`},
		"orchestrator, scripted": {scriptedRuntime + "orchestrators: [{ name: main, repo: local/x, runtime: team }]\n", "repos: []\n", `orchestrators[0].runtime: "team" is a runtime of kind scripted`},
	} {
		if p, got := clone(t, tt.bridge, tt.list); p != nil || len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestRelayRuntimes: each key that such a runtime needs, and each that belongs to another kind.
func TestRelayRuntimes(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"{ kind: relay, agent: opencode }":                        `runtimes.r.relay: is required; name the relay, as in drawbridge relay token NAME`,
		"{ kind: relay, relay: desk }":                            `runtimes.r.agent: is required; name the entry below agents in relay.yaml of that machine`,
		"{ kind: relay, relay: ../desk, agent: a }":               `runtimes.r.relay: "../desk" is not a name`,
		"{ kind: relay, relay: desk, agent: 'A b' }":              `runtimes.r.agent: "A b" is not a name`,
		"{ kind: relay, relay: desk, agent: a, script: x }":       `runtimes.r.script: "x" is for runtimes of kind scripted; remove it`,
		"{ kind: relay, relay: desk, agent: a, dir: x }":          `runtimes.r.dir: "x" is for runtimes of kind scripted; remove it`,
		"{ kind: scripted, script: x, relay: desk }":              `runtimes.r.relay: "desk" is for runtimes of kind relay; remove it`,
		"{ kind: scripted, script: x, agent: a }":                 `runtimes.r.agent: "a" is for runtimes of kind relay; remove it`,
		"{ kind: relay, relay: desk, agent: a, tool_cap: 0 }":     `runtimes.r.tool_cap: "0" is out of range; use 1 to 10000`,
		"{ kind: relay, relay: desk, agent: a, tool_cap: 10001 }": `runtimes.r.tool_cap: "10001" is out of range`,
		"{ kind: scripted, script: x, tool_cap: 40 }":             `runtimes.r.tool_cap: is not a setting of kind scripted`,
		"{ kind: scripted }":                                      `runtimes.r.script: is required`,
		"{ kind: relay, relay: called, agent: a }":                `runtimes.r.relay: "called" is a relay that the bridge calls at an address, and such a relay hosts no agents; let the machine join instead`,
	} {
		bridge := "runtimes: { r: " + entry + " }\nrelays: { called: { url: 'https://called.example.com', token: '${TOKEN}' } }\n"
		if p, got := clone(t, bridge, "repos: []\n"); p != nil || len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
}

// TestClonesWithARelay: rules and orchestrators of clones name a runtime of kind relay.
func TestClonesWithARelay(t *testing.T) {
	t.Parallel()
	p, got := clone(t, relayRuntime+"orchestrators: [{ name: main, repo: LOCAL/x, runtime: laptop }]\n", cloneRule)
	if len(got) > 0 {
		t.Fatal(got)
	}
	if rules := p.RepoRules(); len(rules) != 1 || rules[0].Pattern != "local/my-app" || rules[0].Runtime != "laptop" || !slices.Equal(p.OperatorRepos(), []policy.Repo{"local/x"}) {
		t.Errorf("%+v %v", rules, p.OperatorRepos())
	}
	for name, tt := range map[string]struct{ bridge, list, want string }{
		"another":      {relayRuntime, strings.Replace(cloneRule, "laptop", "desk", 1), `repos[0].runtime: "desk" is not a runtime; add it below runtimes in bridge.yaml, with kind: relay`},
		"scripted":     {scriptedRuntime, strings.Replace(cloneRule, "laptop", "team", 1), `repos[0].runtime: "team" is a runtime of kind scripted, and its agents cannot use a clone on a machine; name a runtime of kind relay`},
		"orchestrator": {"orchestrators: [{ name: main, repo: local/x }]\n", "repos: []\n", `orchestrators[0].runtime: is not a runtime (for local/x, a clone on a machine)`},
	} {
		if p, got := clone(t, tt.bridge, tt.list); p != nil || len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A rule may have the agents on a repository be chat models. They have no clone, and the repository is a name alone.
func TestRuleNamesAChatRuntime(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"github.com/me/team", "github.com/me/*"} {
		p, problems := clone(t, chatRuntime, "repos: [ { repo: '"+pattern+"', runtime: thinker } ]\n")
		if len(problems) > 0 || p.OperatorGrant("github.com/me/team", "think").Runtime != "thinker" {
			t.Errorf("%s: %q", pattern, problems)
		}
	}
}
