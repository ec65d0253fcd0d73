package main

import (
	"drawbridge/cmd/drawbridge/internal/handout"
	"drawbridge/config"
)

type protocolCmd struct {
	Allowlist string   `help:"Use this allowlist. The default is allowlist.yaml of this folder." placeholder:"FILE" type:"path"`
	Format    string   `help:"Print a Cursor rule (rule, .mdc), a Cursor skill (skill, SKILL.md), or a page without front matter (plain)." enum:"rule,skill,plain" default:"rule"`
	Enable    []string `help:"Also describe these optional commands, if bridge.yaml does not enable them: remind." enum:"remind" placeholder:"NAME"`
	asking
}

// Help shows an example.
func (protocolCmd) Help() string {
	return "Without a flag, the page describes the tools and the REMIND command that bridge.yaml enables. Write the page into the orchestrator's repository. Write the page again when the allowlist changes.\n\nExample:\n  drawbridge protocol > ../agent-env/.cursor/rules/drawbridge.mdc"
}

// Run writes the page.
func (c protocolCmd) Run(a app) error {
	path, err := allowlistPath(c.Allowlist)
	if err != nil {
		return err
	}
	p, cfg, err := c.rules(path, a)
	if err != nil {
		return err
	}
	o := pageOptions(cfg, c.Agent)
	o.Format, o.Remind = c.Format, o.Remind || len(c.Enable) > 0
	return handout.Write(a.stdout, p, o)
}

// pageOptions takes from bridge.yaml what the page describes for one agent, or for all when agent is "". cfg may be nil.
func pageOptions(cfg *config.Bridge, agent string) handout.Options {
	o := handout.Options{Format: "rule", Agent: agent}
	if cfg == nil {
		return o
	}
	o.Remind, o.RemindTools, o.WebhookResult = cfg.Parser.Remind, cfg.Tools.Remind, cfg.Parser.WebhookResult
	for _, orchestrator := range cfg.Orchestrators {
		if agent != "" && orchestrator.Name != agent {
			continue
		}
		for _, set := range offeredSets(cfg, &orchestrator, orchestrator.Runtime, orchestrator.Runtime) {
			if !o.Tools(set) {
				o.Toolsets = append(o.Toolsets, set)
			}
		}
	}
	return o
}
