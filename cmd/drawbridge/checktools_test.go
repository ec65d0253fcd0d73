package main

import (
	"slices"
	"strings"
	"testing"

	"drawbridge/config"
	"drawbridge/mcpserver"
	"drawbridge/policy"
)

// An orchestrator's toolsets count before those of the runtime in which its tree began, and these before those of the agent's own runtime.
func TestOfferedSets(t *testing.T) {
	t.Parallel()
	cfg := &config.Bridge{Runtimes: map[string]config.Runtime{"full": {Kind: "relay", Toolsets: []string{"bridge", "team"}}, "bare": {Kind: "relay"}, "model": {Kind: kindChat}}}
	for _, c := range []struct {
		o         *config.Orchestrator
		root, own string
		want      string
	}{
		{&config.Orchestrator{Toolsets: []string{"memory"}}, "full", "full", "memory"},
		{&config.Orchestrator{}, "full", "bare", "bridge team"},
		{nil, "bare", "full", "bridge team"},
		{nil, "model", "full", "bridge team"},
		{nil, "bare", "model", "bridge team channels memory"},
		{nil, "bare", "bare", "bridge"},
		{nil, "", "", "bridge"},
	} {
		if got := strings.Join(offeredSets(cfg, c.o, c.root, c.own), " "); got != c.want {
			t.Errorf("an agent in %q below a root in %q is offered %s, want %s", c.own, c.root, got, c.want)
		}
	}
}

// check compares tool_cap with the toolsets that agents of a runtime really get, by their orchestrator, its runtime and the rules.
func TestToolCaps(t *testing.T) {
	t.Parallel()
	const all = "bridge, team, threads, channels, memory"
	for name, c := range map[string]struct {
		most  int
		sets  []string
		home  string
		ruled bool
		want  string // of the detail; "" for no finding
		fits  bool
	}{
		"no cap":                           {0, strings.Split(all, ", "), "laptop", true, "", true},
		"the usual sets":                   {40, nil, "laptop", false, "tools of the bridge (bridge); tool_cap leaves", true},
		"every set":                        {20, strings.Split(all, ", "), "laptop", false, "runtime laptop: the bridge offers agents of orchestrator main 33 tools (" + all + "), but they take only 20", false},
		"below an orchestrator that fits":  {20, []string{"bridge"}, "", true, "tool_cap leaves", true},
		"below an orchestrator of a chat":  {5, nil, "model", true, "(bridge, team, channels, memory)", false},
		"of an orchestrator that is apart": {1, []string{"team"}, "", false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &config.Bridge{
				Orchestrators: []config.Orchestrator{{Name: "main", Runtime: c.home, Toolsets: c.sets}},
				Runtimes:      map[string]config.Runtime{"laptop": {Kind: "relay", ToolCap: c.most}, "model": {Kind: kindChat}},
			}
			rules := policy.Rules{Repos: []policy.RepoRule{{Pattern: "local/app"}}}
			if c.ruled {
				rules.Repos[0].Runtime = "laptop"
			}
			got := toolCaps(cfg, rules)
			switch {
			case c.want == "":
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
			case len(got) != 1 || !strings.Contains(got[0].Detail, c.want) || (got[0].What == "warning") == c.fits:
				t.Errorf("%+v", got)
			}
		})
	}
	alone := &config.Bridge{Runtimes: map[string]config.Runtime{"laptop": {Kind: "relay", ToolCap: 10, Toolsets: []string{"bridge", "team"}}}}
	if got := toolCaps(alone, policy.Rules{}); len(got) != 1 || got[0].What != "warning" || !strings.Contains(got[0].Detail, "runtime laptop: the bridge offers its agents 15 tools (bridge, team), but they take only 10") {
		t.Errorf("without an orchestrator: %+v", got)
	}
	names, err := mcpserver.ToolNames([]string{"bridge"}, false)
	if err != nil || slices.Contains(names, "remind") || !slices.Contains(names, "launch_agent") {
		t.Errorf("%v, %v", names, err)
	}
	if more, err := mcpserver.ToolNames([]string{"bridge"}, true); err != nil || len(more) != len(names)+2 {
		t.Errorf("%v, %v", more, err)
	}
	if _, err := mcpserver.ToolNames([]string{"unheard"}, true); err == nil {
		t.Error("a set that does not exist is counted")
	}
}
