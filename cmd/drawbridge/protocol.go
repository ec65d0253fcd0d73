package main

import "drawbridge/cmd/drawbridge/internal/handout"

type protocolCmd struct {
	Allowlist string   `help:"The allowlist; allowlist.yaml of this folder when not given." placeholder:"FILE" type:"path"`
	Agent     string   `help:"Make the page for the agent of this name, with its narrowing." placeholder:"NAME"`
	Format    string   `help:"rule: a Cursor rule (.mdc). skill: a Cursor skill (SKILL.md). plain: no front matter." enum:"rule,skill,plain" default:"rule"`
	Enable    []string `help:"Describe these optional commands too: remind." enum:"remind" placeholder:"NAME"`
}

// Help shows an example.
func (protocolCmd) Help() string {
	return "Write it into the orchestrator's repository, and again when the allowlist changes.\n\nExample:\n  drawbridge protocol > ../agent-env/.cursor/rules/drawbridge.mdc"
}

// Run writes the page.
func (c protocolCmd) Run(a app) error {
	path, err := allowlistPath(c.Allowlist)
	if err != nil {
		return err
	}
	p, err := loadPolicy(path, a)
	if err != nil {
		return err
	}
	return handout.Write(a.stdout, p, handout.Options{Format: c.Format, Agent: c.Agent, Remind: len(c.Enable) > 0})
}
