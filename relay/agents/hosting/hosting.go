// Package hosting puts together what a relay needs to host agents: drivers, workspaces and the record of turns.
//
// It decides nothing, and is there so that each program with a relay in it hosts the same way. Rule of thumb: a part of a hosted agent's
// turn is made in its own package, and connected here.
package hosting

import (
	"context"

	"drawbridge/relay/agents/cli"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/settings"
)

// Agents returns what a relay of this version takes as runner.MainOptions.Agents.
func Agents(version string) func(context.Context, runner.Parts) (runner.Agents, error) {
	return func(ctx context.Context, p runner.Parts) (runner.Agents, error) {
		spaces, err := workspace.Open(workspace.Options{State: p.Config.State, Run: p.Pool, Ability: p.Ability})
		if err != nil {
			return nil, err
		}
		starter := &host.Host{Config: p.Config, Executor: p.Pool, Ability: p.Ability, Version: version}
		return turns.Open(ctx, turns.Options{
			Config: p.Config, Spaces: spaces, Log: p.Log,
			Drivers: map[string]turns.Driver{settings.AgentACP: turns.ACP{Host: starter}, settings.AgentCLI: &cli.Driver{Host: starter}},
		})
	}
}
