package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"drawbridge/bridge/words"
	"drawbridge/cmd/drawbridge/internal/probe"
	"drawbridge/config"
	"drawbridge/mcpserver"
	"drawbridge/policy"
)

// offeredSets are the toolsets of an agent under an orchestrator, nil for one without an entry. root and own are the runtimes of the two.
func offeredSets(cfg *config.Bridge, o *config.Orchestrator, root, own string) []string {
	switch {
	case o != nil && len(o.Toolsets) > 0:
		return o.Toolsets
	case len(cfg.Runtimes[root].Toolsets) > 0:
		return cfg.Runtimes[root].Toolsets
	case len(cfg.Runtimes[own].Toolsets) > 0:
		return cfg.Runtimes[own].Toolsets
	case cfg.Runtimes[root].Kind == kindChat, cfg.Runtimes[own].Kind == kindChat:
		return chatToolsets
	}
	return mcpserver.DefaultToolsets
}

// toolCaps compares how many tools the agents of a runtime take with the tools that they are offered.
func toolCaps(cfg *config.Bridge, rules policy.Rules) (out []probe.Finding) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
		most := cfg.Runtimes[name].ToolCap
		if most == 0 {
			continue
		}
		ruled := slices.ContainsFunc(rules.Repos, func(r policy.RepoRule) bool { return r.Runtime == name })
		for _, o := range cfg.Orchestrators {
			if o.Runtime == name || ruled {
				out = append(out, toolCap(cfg, &o, name))
			}
		}
		if len(cfg.Orchestrators) == 0 { // as drawbridge up writes it
			out = append(out, toolCap(cfg, nil, name))
		}
	}
	return out
}

// toolCap compares the tools of one orchestrator's agents, or of agents without one, with what a runtime takes.
func toolCap(cfg *config.Bridge, o *config.Orchestrator, runtime string) probe.Finding {
	root, what, who := runtime, "runtime "+runtime, "its agents"
	if o != nil {
		root, what, who = o.Runtime, fmt.Sprintf("runtime %s: agents of %s", runtime, o.Name), "agents of orchestrator "+o.Name
	}
	sets, most := offeredSets(cfg, o, root, runtime), cfg.Runtimes[runtime].ToolCap
	tools, err := mcpserver.ToolNames(sets, cfg.Tools.Remind)
	if err != nil {
		return probe.Finding{What: what, Detail: err.Error()}
	}
	f := probe.Finding{What: what, OK: true, Detail: fmt.Sprintf("%s of the bridge (%s); tool_cap leaves %d for other servers", words.Count(len(tools), "tool"), strings.Join(sets, ", "), most-len(tools))}
	if len(tools) > most {
		f.What, f.Detail = "warning", fmt.Sprintf("runtime %s: the bridge offers %s %s (%s), but they take only %d and leave the others out; name fewer toolsets in bridge.yaml",
			runtime, who, words.Count(len(tools), "tool"), strings.Join(sets, ", "), most)
	}
	return f
}
