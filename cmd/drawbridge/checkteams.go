package main

import (
	"fmt"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/probe"
	"drawbridge/config"
	"drawbridge/mcpserver"
	"drawbridge/policy"
)

// muteTeams warns of orchestrators whose agents are offered tools to write to each
// other, and of which some have no door to the bridge: those can be written to, and
// cannot answer.
func muteTeams(cfg *config.Bridge, rules policy.Rules) (out []probe.Finding) {
	for _, o := range cfg.Orchestrators {
		sets := slices.DeleteFunc(slices.Clone(o.Toolsets), func(set string) bool {
			return set != mcpserver.SetTeam && set != mcpserver.SetThreads && set != mcpserver.SetChannels
		})
		if len(sets) == 0 || !bridge.InCloud(o.Runtime) {
			continue
		}
		for _, why := range doorless(cfg, rules) {
			out = append(out, probe.Finding{What: "warning", OK: true, Detail: fmt.Sprintf("orchestrator %s has the toolsets %s, but %s",
				o.Name, strings.Join(sets, ", "), why)})
		}
	}
	return out
}

// doorless says which agents of the cloud get no door to the bridge, and what would give them one.
func doorless(cfg *config.Bridge, rules policy.Rules) []string {
	if cfg.PublicURL == "" {
		return []string{"its agents in the cloud cannot reach the bridge to answer messages; set public_url in bridge.yaml"}
	}
	var why []string
	if cfg.Cursor.API == bridge.APIv0 {
		why = append(why, "agents at the v0 API cannot reach the bridge to answer messages; set cursor.api to v1 in bridge.yaml")
	}
	for _, r := range rules.Repos {
		if r.API == bridge.APIv0 {
			why = append(why, fmt.Sprintf("agents on %s use the v0 API and cannot reach the bridge to answer messages; set api: v1 for %[1]s in the allowlist", r.Pattern))
		}
	}
	return why
}
