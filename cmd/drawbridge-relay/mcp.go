package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"drawbridge/relay/agents/door"
)

const mcpDescription = `Serve the bridge's tools over standard input and output, to an agent that this relay hosts.

The relay itself gives each process of an agent the command line: in the ACP request session/new, or in the mcp.json of an agent of kind cli. The
socket belongs to that process alone. It is there while the process lives, and lets in only what the process has started, with the
word in ` + door.WordVariable + `. Calls go over the relay's own connection to the bridge, in the agent's name; no key is in
the agent's hands. Started by hand it is refused.`

func newMCP(s streams) *cobra.Command {
	var socket string
	cmd := command(help{"mcp", "Serve the bridge's tools to an agent; the relay starts it", mcpDescription, "  drawbridge-relay mcp --socket PATH"}, func(ctx context.Context) error {
		if socket == "" {
			return errors.New("give --socket; an agent of this relay gets the whole command line from the relay")
		}
		word := os.Getenv(door.WordVariable)
		if word == "" {
			return errors.New(door.WordVariable + " is not set; a relay sets it for each agent that it starts, so do not run this by hand")
		}
		return door.Pipe(ctx, door.Ends{Socket: socket, Word: word, In: os.Stdin, Out: s.out})
	})
	cmd.Hidden = true
	cmd.Flags().StringVar(&socket, "socket", "", "the `PATH` of the socket that the relay made for the agent's process")
	return cmd
}
