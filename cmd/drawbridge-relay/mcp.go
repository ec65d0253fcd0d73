package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"drawbridge/relay/agents/door"
)

const mcpDescription = `Serve the bridge's tools over standard input and output, to an agent that this relay hosts.

The relay gives this command line to each process of an agent: in the ACP request session/new, or in the mcp.json of an agent of kind cli.
The socket belongs to one process of an agent, and exists while that process lives. The socket accepts only programs that the
process has started and that know the word in ` + door.WordVariable + `. The relay passes calls to the bridge over its own
connection, in the agent's name. The agent gets no key. The command fails when you start it by hand.`

func newMCP(s streams) *cobra.Command {
	var socket string
	cmd := command(help{"mcp", "Serve the bridge's tools to an agent; the relay starts it", mcpDescription, "  drawbridge-relay mcp --socket PATH"}, func(ctx context.Context) error {
		if socket == "" {
			return errors.New("--socket is missing; let the relay start this program, because the relay chooses the socket")
		}
		word := os.Getenv(door.WordVariable)
		if word == "" {
			return errors.New(door.WordVariable + " is not set; let the relay start this program, because the relay sets the variable")
		}
		return door.Pipe(ctx, door.Ends{Socket: socket, Word: word, In: os.Stdin, Out: s.out})
	})
	cmd.Hidden = true
	cmd.Flags().StringVar(&socket, "socket", "", "the `PATH` of the socket that the relay made for the agent's process")
	return cmd
}
