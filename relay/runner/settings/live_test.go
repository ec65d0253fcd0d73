package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/runner/settings"
)

// Clones and permissions count as soon as they stand in the file. Any other change waits for the next start, and holds up what comes with it.
func TestLive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret"), "abcdefgh", 0o600)
	must(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	file := filepath.Join(dir, "relay.yaml")
	text := func(agent, repos string) string {
		return `
listen: none
redact: [ "${file:secret}", { pattern: 'k-\d+' } ]
actions: { a: { argv: [/bin/echo, "${WORD}"], i_know: true } }
agents:
  one: { kind: acp, argv: [/bin/cat], i_know: true` + agent + ` }
  two: { kind: acp, argv: [/bin/cat], i_know: true }
repos: {` + repos + `}
`
	}
	rule := ", permissions: { execute: [ { program: go, args: [test] } ] }"
	clone := " local/r: { clone: " + dir + ", agents: [one] } "
	env := func(string) (string, bool) { return "word", true }
	write(t, file, text("", ""), 0o600)
	start, err := settings.Load(file, env)
	must(t, err)
	var told []string
	live := settings.Follow(start, env, func(before, now settings.Config) {
		if before.SHA256 == now.SHA256 {
			t.Error("the same text was told as a change")
		}
		told = append(told, now.SHA256)
	})
	for _, step := range []struct {
		name, text             string
		clones, rules, changes int
		outdated               bool
	}{
		{"as it was", text("", ""), 0, 0, 0, false},
		{"a clone", text("", clone), 1, 0, 1, false},
		{"a rule", text(rule, clone), 1, 1, 2, false},
		{"words that change nothing", "# note\n" + text(rule, clone), 1, 1, 3, false},
		{"no file", "", 1, 1, 3, false},
		{"not relay.yaml", "agents: 1\n", 1, 1, 3, true},
		{"another agent without the clone", text(rule+", slots: 2", ""), 1, 1, 3, true},
		{"the same once more", text(rule+", slots: 2", ""), 1, 1, 3, true},
		{"an agent more", strings.Replace(text(rule, ""), "agents:\n", "agents:\n  three: { kind: acp, argv: [/bin/cat], i_know: true }\n", 1), 1, 1, 3, true},
		{"another action", strings.Replace(text(rule, ""), "${WORD}", "x", 1), 1, 1, 3, true},
		{"another pattern", strings.Replace(text(rule, ""), `k-\d`, `k-\D`, 1), 1, 1, 3, true},
		{"taken back", "# note\n" + text(rule, clone), 1, 1, 3, false},
		{"neither", text("", ""), 0, 0, 4, false},
	} {
		if step.text == "" {
			must(t, os.Remove(file))
		} else {
			write(t, file, step.text, 0o600)
		}
		outdated, now := live.Outdated(), live.Now()
		if len(now.Repos) != step.clones || len(now.Agents["one"].Permissions.Commands) != step.rules || len(told) != step.changes || outdated != step.outdated {
			t.Errorf("%s: %d clones, rules %v, told %d times, outdated %t", step.name, len(now.Repos), now.Agents["one"].Permissions, len(told), outdated)
		}
		if len(now.Agents) != 2 || now.Agents["one"].Slots != 1 || len(now.Actions) != 1 {
			t.Errorf("%s: something else counts without a start", step.name)
		}
	}
	if fixed := settings.Follow(settings.Config{}, nil, nil); fixed.Outdated() || len(fixed.Now().Repos) > 0 {
		t.Error("a configuration without a file has changed")
	}
}
