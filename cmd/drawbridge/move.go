package main

import (
	"context"
	"fmt"

	"drawbridge/api"
)

type moveCmd struct {
	Agent   string `arg:"" help:"The agent's name or id."`
	Runtime string `help:"Move the agent to this runtime, which has kind relay below runtimes in bridge.yaml." required:"" placeholder:"NAME"`
	target
}

// Help shows an example.
func (moveCmd) Help() string {
	return "The agent keeps its name, its place in the tree, its mail, memory, reminders and tokens. It also keeps everything that waits for it. The agent's next turn begins a session in the other runtime. That session begins with a transcript of the agent's latest turns (20 at most, 32 KiB at most). The bridge refuses the move while a turn is under way or a permission question is open. The workspace does not move: it stays at its relay with all its files.\n\nExample:\n  drawbridge move main --runtime desk-codex"
}

// Run moves.
func (c moveCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (api.Moved, error) { return client.Move(ctx, c.Agent, c.Runtime) }, func(m api.Moved) error {
		_, err := fmt.Fprintf(a.stdout, "moved %s from %s to %s; its next turn there begins with its transcript\nworkspace: %s\n", m.Agent.Name, short(m.From, 60), short(m.Agent.Runtime, 60), short(m.Workspace, 400))
		return err
	})
}
