package main

import (
	"context"
	"path/filepath"
	"time"

	"drawbridge/relay/agents/door"
	"drawbridge/relay/agents/hosting"
	"drawbridge/relay/link"
	"drawbridge/relay/runner"
)

type relayRunCmd struct {
	Config string `default:"relay.yaml" type:"path"`
}

// Run is drawbridge-relay run, in this binary.
func (c relayRunCmd) Run(ctx context.Context, a app) error {
	beside, err := link.Beside(filepath.Join(filepath.Dir(c.Config), link.DefaultFile), "")
	if err != nil {
		return err
	}
	return runner.Main(ctx, runner.MainOptions{ConfigPath: c.Config, Env: a.getenv, Log: a.stderr, Beside: beside, Agents: hosting.Agents("unknown", "relay-mcp")})
}

type relayJoinCmd struct {
	Invitation string `arg:""`
	CA         string `name:"ca"`
	Config     string `default:"relay.yaml" type:"path"`
}

// Run is drawbridge-relay join, in this binary.
func (c relayJoinCmd) Run(ctx context.Context) error {
	in, err := link.ReadInvitation(c.Invitation)
	if err == nil && c.CA != "" {
		in.CA, err = link.ReadCA(c.CA)
	}
	if err != nil {
		return err
	}
	_, err = link.Join(ctx, filepath.Join(filepath.Dir(c.Config), link.DefaultFile), in, time.Now)
	return err
}

type relayMCPCmd struct {
	Socket string `required:""`
}

// Run is drawbridge-relay mcp, in this binary.
func (c relayMCPCmd) Run(ctx context.Context, a app) error {
	word, _ := a.getenv(door.WordVariable)
	return door.Pipe(ctx, door.Ends{Socket: c.Socket, Word: word, In: a.stdin, Out: a.stdout})
}
