package main

import (
	"context"
	"errors"

	"drawbridge/cmd/drawbridge/internal/demo"
	"drawbridge/internal/logs"
)

type demoCmd struct {
	JSON bool `help:"Print what happens as JSON lines."`
	Keep bool `help:"Leave lock_screen to you. Keep all processes running at the end, and print a link to the page."`
	Team bool `help:"Run another story, in which a team of five scripted agents solves a task by mail through the real MCP endpoint."`
	// The story must end the same whatever the fault.
	Fault string `help:"Cause a fault: kill (kill the bridge in mid-story and start it again) or no-webhooks (let no webhook arrive)." enum:",kill,no-webhooks" default:"" placeholder:"FAULT"`
}

// Help says what to expect.
func (demoCmd) Help() string {
	return "The demo starts a simulated cloud, a bridge and a relay as processes of this machine. It works in a folder that it removes at the end.\nOne subagent uses v1 of the Cloud Agents API, and another uses v0 with signed webhooks. The exit code is 0 only if everything\nhappened as expected.\n\nExample:\n  drawbridge demo --keep\n  drawbridge demo --team --fault kill"
}

// Run tells the story.
func (c demoCmd) Run(ctx context.Context, a app) error {
	o := demo.Options{JSON: c.JSON, Keep: c.Keep, Fault: c.Fault, Out: a.stdout, Color: logs.IsTerminal(a.stdout)}
	if !c.Team {
		return demo.Run(ctx, o)
	}
	if c.Keep || c.Fault == demo.FaultNoWebhooks {
		return usageError{errors.New("demo --team sends no webhooks and cannot stay running; leave out --keep and --fault no-webhooks")}
	}
	return demo.RunTeam(ctx, o)
}
