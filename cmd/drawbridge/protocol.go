package main

import (
	"drawbridge/cmd/drawbridge/internal/handout"
	"drawbridge/config"
	"drawbridge/mcpserver"
)

type protocolCmd struct {
	Allowlist string   `help:"The allowlist; allowlist.yaml of this folder when not given." placeholder:"FILE" type:"path"`
	Format    string   `help:"rule: a Cursor rule (.mdc). skill: a Cursor skill (SKILL.md). plain: no front matter." enum:"rule,skill,plain" default:"rule"`
	Enable    []string `help:"Describe these optional commands too, when bridge.yaml does not say so: remind." enum:"remind" placeholder:"NAME"`
	asking
}

// Help shows an example.
func (protocolCmd) Help() string {
	return "What bridge.yaml says of tools and REMIND stands on the page without a flag. Write it into the orchestrator's repository, and again when the allowlist changes.\n\nExample:\n  drawbridge protocol > ../agent-env/.cursor/rules/drawbridge.mdc"
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
		sets := orchestrator.Toolsets
		if len(sets) == 0 {
			sets = mcpserver.DefaultToolsets
		}
		for _, set := range sets {
			if !o.Tools(set) {
				o.Toolsets = append(o.Toolsets, set)
			}
		}
	}
	return o
}
