package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/relay/runner/settings"
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

// A rule for a command joins the permissions of one agent, however a person wrote them, and nothing else changes.
func TestAllowCommand(t *testing.T) {
	t.Parallel()
	rule, c := "{ program: go, args: [test] }", settings.Command{Program: "go", Args: []string{"test"}}
	for name, tt := range map[string]struct{ before, after, wrong string }{
		"a word for commands":  {"permissions: { read: allow, execute: ask, other: ask } # é\n", "permissions: { read: allow, execute: [RULE], other: ask } # é\n", ""},
		"a quoted word":        {"permissions: { execute: \"ask\" }\n", "permissions: { execute: [RULE] }\n", ""},
		"a word below":         {"permissions:\n      execute: ask # mine\n", "permissions:\n      execute: [RULE] # mine\n", ""},
		"rules":                {"permissions: { execute: [{ program: make }] }\n", "permissions: { execute: [RULE, { program: make }] }\n", ""},
		"rules below":          {"permissions:\n      execute:\n        - { program: make } # é\n", "permissions:\n      execute:\n        - RULE\n        - { program: make } # é\n", ""},
		"no rules":             {"permissions: { execute: [] }\n", "permissions: { execute: [RULE] }\n", ""},
		"no word for commands": {"permissions: { read: allow }\n", "permissions: { execute: [RULE], read: allow }\n", ""},
		"nothing":              {"permissions: {}\n", "permissions: {execute: [RULE]}\n", ""},
		"a word for all":       {"permissions: ask\n", "permissions: { execute: [RULE] }\n", ""},
		"no permissions":       {"", "", ""},
		"all commands":         {"permissions: { execute: allow }\n", "", "lets agent b run every command"},
		"all":                  {"permissions: allow\n", "", "lets agent b run every command"},
		"rules elsewhere":      {"permissions: { execute: *a }\n", "", "cannot be read"},
	} {
		file := func(permissions string) string {
			if permissions != "" {
				permissions = "    " + permissions
			}
			return "# mine\nagents:\n  a: { permissions: { execute: ask } }\n  b:\n    kind: acp\n" + permissions + "    slots: 2\nrepos: {}\n"
		}
		want := file(strings.ReplaceAll(tt.after, "RULE", rule))
		if tt.before == "" {
			want = strings.Replace(file(""), "    kind: acp\n", "    permissions: { execute: ["+rule+"] }\n    kind: acp\n", 1)
		}
		got, err := local.AllowCommand([]byte(file(tt.before)), "b", c)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v\n%s", name, err, got)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
	if _, err := local.AllowCommand([]byte("agents: {}\n"), "b", c); err == nil || !strings.Contains(err.Error(), "has no agent b") {
		t.Error(err)
	}
}

// A change goes into the file that a link names, keeps the mode of the file, and happens only if the result is good.
func TestEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "link.yaml")
	if err := errors.Join(os.WriteFile(file, []byte("one"), 0o640), os.Chmod(file, 0o640), os.Symlink("real.yaml", link)); err != nil {
		t.Fatal(err)
	}
	change := func(b []byte) ([]byte, error) { return append(b, " two"...), nil }
	if err := local.Edit(link, change, func(string) error { return errors.New("bad") }); err == nil || !strings.Contains(err.Error(), "stays as it is") {
		t.Error(err)
	}
	if err := local.Edit(link, change, func(string) error { return nil }); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	stat, _ := os.Lstat(file)
	if to, linked := os.Readlink(link); err != nil || string(text) != "one two" || stat.Mode() != 0o640 || linked != nil || to != "real.yaml" {
		t.Errorf("%q %v, %v, %q %v", text, err, stat.Mode(), to, linked)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Each rule is read back as the command that it is for.
func TestRule(t *testing.T) {
	t.Parallel()
	for _, c := range []settings.Command{
		{Program: "make", Exact: true}, {Program: "make", Args: []string{"-j4", "true", "1", "null", "n"}, Exact: true}, {Program: "/usr/bin/x-2.1", Args: []string{"two words", "a=b", "%x", "@y", "+z", "-", "x,y", "a:"}},
	} {
		file := filepath.Join(t.TempDir(), "relay.yaml")
		if err := os.WriteFile(file, []byte("listen: none\nagents: { a: { kind: acp, argv: [/bin/cat], i_know: true, permissions: { execute: ["+local.Rule(c)+"] } } }\nactions: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := settings.Load(file, nil)
		if err != nil || !reflect.DeepEqual(read.Agents["a"].Permissions.Commands, []settings.Command{c}) {
			t.Errorf("%s: %+v %v", local.Rule(c), read.Agents["a"].Permissions.Commands, err)
		}
	}
}
