package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drawbridge/cmd/drawbridge/internal/handout"
	"drawbridge/config"
	"drawbridge/mcpserver"
	"drawbridge/policy"
)

// pageNames is what the page for agents says of each toolset: these tools at least. REMIND stands for the command line.
var pageNames = map[string][]string{
	"bridge":   {"launch_agent", "run_local_action", "list_allowed"},
	"team":     {"spawn_agent", "send_message", "broadcast", "complete", "subscribe"},
	"threads":  {"create_thread", "send_message", "threads_send_message", "transfer_file"},
	"channels": {"send_channel_message", "send_dm", "do_nothing"},
	"memory":   {"update_memory", "store_memory", "search_memory"},
}

// TestPageDescribesWhatIsOn: the page for agents names the tools of the configured sets, and REMIND and the tools for reminders
// where they are on. It names no tool that its agent is not offered.
func TestPageDescribesWhatIsOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets  []string
		more  string
		wants []string
	}{
		{[]string{"bridge"}, "", []string{"remind", "cancel_reminder"}},
		{[]string{"bridge"}, "tools: { remind: false }\n", nil},
		{[]string{"bridge"}, "tools: { remind: false }\nparser: { remind: true }\n", []string{"REMIND"}},
		{[]string{"team"}, "", nil},
		{[]string{"threads"}, "", nil},
		{[]string{"channels"}, "parser: { remind: true }\n", []string{"REMIND"}},
		{[]string{"memory"}, "", nil},
		{[]string{"bridge", "team", "threads", "channels", "memory"}, "", []string{"remind", "cancel_reminder"}},
	} {
		wants := slices.Clone(c.wants)
		for _, set := range c.sets {
			wants = append(wants, pageNames[set]...)
		}
		page := pageOf(t, "orchestrators: [{ name: main, repo: github.com/me/agent-env, toolsets: ["+strings.Join(c.sets, ", ")+"] }]\n"+c.more)
		for _, name := range toolNames(t) {
			if has := regexp.MustCompile(`\b` + name + `\b`).MatchString(page); has != slices.Contains(wants, name) {
				t.Errorf("sets %v, %q: the page names %s: %t", c.sets, c.more, name, has)
			}
		}
	}
}

// pageOf writes the page for a bridge.yaml.
func pageOf(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, wrong := config.LoadToJudge(path, os.LookupEnv)
	p, problems := policy.New(policy.Rules{})
	if len(wrong) > 0 || len(problems) > 0 {
		t.Fatal(wrong, problems)
	}
	var page strings.Builder
	if err := handout.Write(&page, p, pageOptions(cfg, "")); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// toolNames are the names that the page must hold or must not: those of all tools, and REMIND.
func toolNames(t *testing.T) []string {
	t.Helper()
	names, err := mcpserver.ToolNames(mcpserver.SetNames(), true)
	if err != nil {
		t.Fatal(err)
	}
	return append(names, "REMIND")
}
