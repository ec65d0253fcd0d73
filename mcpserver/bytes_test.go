package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mcpserver"
	"drawbridge/parser"
	"drawbridge/policy"
)

// odd are bytes that a door might drop without a word.
var odd = []string{"\n", "\r", "\r\n", "\x00", "\t", " ", "\u00a0", "\u2028", "\u0085", "\v", "\f", "\ufeff", "\u200b", "\u202e", "\u2066", "\x1b", "\x7f", "\ufffd", "\U000e0041", "\u3000"}

// spellings are a value with odd bytes before, behind and in it.
func spellings(value string) []string {
	all := []string{value, ""}
	for _, o := range odd {
		all = append(all, value+o, o+value, value[:2]+o+value[2:], o)
	}
	return all
}

// TestDoorsJudgeTheSameBytes: what a tool call is granted, a line of text would be granted with the same bytes. It guards against
// doors that trim: launch_agent took a repository with a line feed behind it.
func TestDoorsJudgeTheSameBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free := rules
	free.Limits = policy.Limits{CommandsPerTurn: 1000, LaunchesPerHour: 1000, OpenSubagents: 1000, Reminders: 1000, Tree: policy.Budget{Launches: 1000, Open: 1000, Turns: 1000}}
	p, problems := policy.New(free)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w.policy.Store(p)
	w.launch("main")
	s := w.connect("main", newEra, "")
	byText := func(line, value string, field func(parser.Command) string) bool {
		f := parser.Read(line, parser.Options{Remind: true})
		if f.Total != 1 || field(f.Commands[0]) != strings.Trim(value, " \t") {
			return false
		}
		return w.policy.Load().Grant([]string{"main"}, f.Commands[0], true).Grant.Valid()
	}
	n := 0
	byTool := func(tool string, a args) bool {
		n++
		r := w.call(s, tool, a)
		if r.IsError && (strings.Contains(words(r), "limit") || strings.Contains(words(r), "budget")) {
			t.Fatalf("%s: %s", tool, words(r))
		}
		return !r.IsError
	}
	repo, action, prompt := "github.com/me/my-app", "backup_script", "Fix the bug"
	for _, v := range spellings(repo) {
		want := byText("SUBAGENT: repo="+v+", prompt=x", v, func(c parser.Command) string { return c.Repo })
		if got := byTool("launch_agent", args{"repo": v, "prompt": fmt.Sprintf("%s %d", prompt, n)}); got != want {
			t.Errorf("repo %+q: granted to a tool call: %t, to a line: %t", v, got, want)
		}
	}
	for _, v := range spellings(action) {
		want := byText("LOCAL_ACTION: "+v, v, func(c parser.Command) string { return c.Action })
		if got := byTool("run_local_action", args{"action": v}); got != want {
			t.Errorf("action %+q: granted to a tool call: %t, to a line: %t", v, got, want)
		}
	}
	for _, v := range spellings(prompt) {
		if strings.Contains(v, "\n") {
			continue // only a tool call can have more lines than one
		}
		want := byText("SUBAGENT: repo="+repo+", prompt="+v, v, func(c parser.Command) string { return c.Prompt })
		if got := byTool("launch_agent", args{"repo": repo, "prompt": v}); got != want {
			t.Errorf("prompt %+q: granted to a tool call: %t, to a line: %t", v, got, want)
		}
	}
	for _, v := range spellings("10m") {
		want := byText("REMIND: "+v+", look", v, func(c parser.Command) string { return c.When })
		if got := byTool("remind", args{"when": v, "message": fmt.Sprint("look ", n)}); got != want {
			t.Errorf("time %+q: granted to a tool call: %t, to a line: %t", v, got, want)
		}
	}
}

// TestNamesAtEveryDoor: an agent's name is judged alike by spawn_agent and by the operator's launch, and none that speaks for a
// person or for the bridge is given.
func TestNamesAtEveryDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	w.launch("main")
	s := w.connect("main", newEra, "")
	for i, v := range append(spellings("docs-bot"), "operator", "Operator", "0per4tor", "the-operator", "_operator_", "USER", "user", "assistant", "system", "bridge", "everyone", "re1ay", "LOCAL_ACTION",
		"operator-kim", "mr-operator", "operator_says", "bridge-system", "the-operator", "system2", "drawbridge-v2", "OperatorKim", "kim-operator") {
		r := w.call(s, "spawn_agent", args{"name": v, "instructions": fmt.Sprint("Work ", i), "repo": "github.com/me/my-app"})
		_, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: v + "", Repo: "github.com/me/agent-env", Prompt: "go"})
		want := v == "docs-bot"
		if got := !r.IsError; got != want {
			t.Errorf("spawn_agent %+q: %t, %s", v, got, words(r))
		}
		if got := bridge.KindOf(err) != bridge.Invalid; got != want {
			t.Errorf("launch %+q: %v", v, err)
		}
		if v == "operator" && (!strings.Contains(words(r), "name the agent after its task") || !strings.Contains(err.Error(), "name the agent after its task")) {
			t.Errorf("%q: %s; %v", v, words(r), err)
		}
	}
}
