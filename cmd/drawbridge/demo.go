package main

import (
	"context"
	"errors"

	"drawbridge/cmd/drawbridge/internal/demo"
)

type demoCmd struct {
	JSON bool `help:"Print what happens as JSON lines."`
	Keep bool `help:"Stay up at the end; prints the addresses and the token."`
	Team bool `help:"Another story: a team of five scripted agents solves a task by mail, at the real MCP door."`
	// The story must end the same whatever the fault.
	Fault string `help:"Let something go wrong: kill (the bridge is killed in mid-story and started again) or no-webhooks (none arrives)." enum:",kill,no-webhooks" default:"" placeholder:"FAULT"`
}

// Help says what to expect.
func (demoCmd) Help() string {
	return "Starts a simulated cloud, a bridge and a relay as processes of this machine, in a folder that is removed at the end.\nOne subagent goes through v1 of the API and one through v0 with signed webhooks. Exits with 0 only if everything\nthat was expected happened.\n\nExample:\n  drawbridge demo --keep\n  drawbridge demo --team --fault kill"
}

// Run tells the story.
func (c demoCmd) Run(ctx context.Context, a app) error {
	o := demo.Options{JSON: c.JSON, Keep: c.Keep, Fault: c.Fault, Out: a.stdout, Color: isTerminal(a.stdout)}
	if !c.Team {
		return demo.Run(ctx, o)
	}
	if c.Keep || c.Fault == demo.FaultNoWebhooks {
		return usageError{errors.New("demo --team sends no webhooks and cannot stay running; leave out --keep and --fault no-webhooks")}
	}
	return demo.RunTeam(ctx, o)
}
