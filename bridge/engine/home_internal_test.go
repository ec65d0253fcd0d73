package engine

import (
	"testing"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// TestHashOfALaunchStaysTheSame: a held launch keeps its hash over an upgrade, so that a yes to it still counts. The hashes were
// made by the version before, in which one field held the API version or the runtime.
func TestHashOfALaunchStaysTheSame(t *testing.T) {
	t.Parallel()
	each := policy.Approval{Mode: policy.ApprovalEach}
	for name, tt := range map[string]struct{ parent, rule, says, hash string }{
		"cloud":                 {bridge.CloudRuntime, "", "v1", "96ac7366b1d3dff22220010982dfca80"},
		"cloud, v0 by its rule": {bridge.CloudRuntime, bridge.APIv0, "v0", "baa306b375dc6d4547131941f222a571"},
		"another":               {"local", "", "local", "0e67497caf22d63dd10cb73e807cb04d"},
		"another, with a rule that names a version": {"local", bridge.APIv0, "local", "0e67497caf22d63dd10cb73e807cb04d"},
	} {
		hold(t, func(w *court) {
			w.rules.Repos = []policy.RepoRule{{Pattern: "github.com/me/app", Approval: each, API: tt.rule}}
			w.c.e.o.API = bridge.APIv1
			a, err := w.c.Agent("agt_1")
			w.must(err)
			a.Runtime, a.API = tt.parent, ""
			w.must(w.c.UpdateAgent(a))
			q := w.question(w.ask(parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "fix it"}).ID)
			if q.Hash != tt.hash || !effectHas(q, "runtime", tt.says) {
				t.Errorf("%s: hash %s of %v, want %s", name, q.Hash, q.Effect, tt.hash)
			}
		})
	}
}

func effectHas(q bridge.Question, name, text string) bool {
	for _, f := range q.Effect {
		if f.Name == name {
			return f.Text == text
		}
	}
	return false
}

// TestSubagentLivesWithItsParent: the runtime comes from the parent; the version comes from the rule, in the cloud alone.
func TestSubagentLivesWithItsParent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ parent, rule, runtime, api string }{
		"cloud":                      {bridge.CloudRuntime, "", bridge.CloudRuntime, bridge.APIv1},
		"cloud, v0 by its rule":      {bridge.CloudRuntime, bridge.APIv0, bridge.CloudRuntime, bridge.APIv0},
		"another":                    {"local", "", "local", ""},
		"another, v0 by a rule":      {"local", bridge.APIv0, "local", ""},
		"another named like a cloud": {"cloud", "", "cloud", ""},
	} {
		hold(t, func(w *court) {
			w.rules.Repos = []policy.RepoRule{{Pattern: "github.com/me/app", API: tt.rule}}
			w.c.e.o.API = bridge.APIv1
			a, err := w.c.Agent("agt_1")
			w.must(err)
			a.Runtime, a.API = tt.parent, ""
			w.must(w.c.UpdateAgent(a))
			m, err := w.c.askOnce("agt_1", bridge.Once{}, parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "fix it"})
			w.must(err)
			child, err := w.c.Agent(m.Child)
			w.must(err)
			m, err = w.c.Command(m.ID)
			w.must(err)
			if child.Runtime != tt.runtime || child.API != tt.api || m.Runtime != tt.runtime || m.API != tt.api {
				t.Errorf("%s: the agent lives in %q at %q, its command says %q at %q; want %q at %q", name, child.Runtime, child.API, m.Runtime, m.API, tt.runtime, tt.api)
			}
		})
	}
}
