package main

import (
	"context"
	"fmt"

	"drawbridge/api"
)

type moveCmd struct {
	Agent   string `arg:"" help:"The agent's name or id."`
	Runtime string `help:"The runtime of kind relay, below runtimes in bridge.yaml, in which it goes on." required:"" placeholder:"NAME"`
	target
}

// Help shows an example.
func (moveCmd) Help() string {
	return "The agent keeps its name, its place in the tree, its mail, memory, reminders and tokens, and all that waits for it. Its next turn begins a session in the other runtime with a transcript of its latest turns (20 at most, 32 KiB at most). The bridge refuses the move while a turn is under way or a permission question is open. The workspace does not come along: it stays at its relay with all that is in it.\n\nExample:\n  drawbridge move main --runtime desk-codex"
}

// Run moves.
func (c moveCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (api.Moved, error) { return client.Move(ctx, c.Agent, c.Runtime) }, func(m api.Moved) error {
		_, err := fmt.Fprintf(a.stdout, "moved %s from %s to %s; its next turn there begins with its transcript\nworkspace: %s\n", m.Agent.Name, short(m.From, 60), short(m.Agent.Runtime, 60), short(m.Workspace, 400))
		return err
	})
}
