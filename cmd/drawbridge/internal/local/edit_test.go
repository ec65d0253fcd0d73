package local_test

import (
	"strings"
	"testing"

	"drawbridge/cmd/drawbridge/internal/local"
)

// An entry is added to whatever a person wrote, and nothing else of the file changes.
func TestAdd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, entry, keys, want, wrong string }{
		"empty flow":       {"# a\nrepos: {} # none\nx: 1\n", "a: b", "repos", "# a\nrepos: {a: b} # none\nx: 1\n", ""},
		"empty list":       {"repos: []\n", "{ r: 1 }", "repos", "repos: [{ r: 1 }]\n", ""},
		"block":            {"repos:\n\n  # mine\n  z: 1 # old\nx: 1\n", "a: b", "repos", "repos:\n\n  # mine\n  a: b\n  z: 1 # old\nx: 1\n", ""},
		"block list":       {"repos:\n- one\nx: 1\n", "{ r: 1 }", "repos", "repos:\n- { r: 1 }\n- one\nx: 1\n", ""},
		"list of mappings": {"repos:\n  - repo: one\n    runtime: x\n", "{ r: 1 }", "repos", "repos:\n  - { r: 1 }\n  - repo: one\n    runtime: x\n", ""},
		"flow":             {"repos: { z: 1 }\n", "a: b", "repos", "repos: { a: b, z: 1 }\n", ""},
		"flow, wide":       {"ü: é\nrepos: {\n  é: 1,\n}\n", "a: b", "repos", "ü: é\nrepos: {\n  a: b, é: 1,\n}\n", ""},
		"nested":           {"repos: { z: { agents: [one] } }\n", "two", "repos.z.agents", "repos: { z: { agents: [two, one] } }\n", ""},
		"missing":          {"x: 1", "a: b", "repos", "x: 1\nrepos:\n  a: b\n", ""},
		"missing list":     {"x: 1\n", "{ r: 1 }", "repos", "x: 1\nrepos:\n  - { r: 1 }\n", ""},
		"a word":           {"repos: no\n", "a: b", "repos", "", "cannot"},
		"anchor":           {"x: &x { z: 1 }\nrepos: *x\n", "a: b", "repos", "", "anchor"},
		"not YAML":         {"repos: {\n", "a: b", "repos", "", "cannot be read"},
		"nested, missing":  {"repos: {}\n", "two", "repos.z.agents", "", "has no repos.z.agents"},
		"a list at top":    {"- repos\n", "two", "repos", "", "mapping"},
	} {
		got, err := local.Add([]byte(tt.file), tt.entry, strings.Split(tt.keys, ".")...)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) && tt.wrong != "cannot" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, tt.want)
		}
	}
}

// A rule gets another runtime, and keeps all else.
func TestSetRuntime(t *testing.T) {
	t.Parallel()
	const file = "repos:\n  - github.com/a/b\n  - { repo: local/é, runtime: \"old-one\", approval: each } # é\n  - repo: Local/App # x\n    runtime: a-b # y\n"
	got, err := local.SetRuntime([]byte(file), "local/app", "desk-claude")
	if want := strings.Replace(file, "a-b", "desk-claude", 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	got, err = local.SetRuntime([]byte(file), "local/é", "desk-claude")
	if want := strings.Replace(file, `"old-one"`, "desk-claude", 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := local.SetRuntime([]byte(file), "github.com/a/b", "x"); err == nil {
		t.Errorf("%s", got)
	}
}
