package main

import (
	"context"

	"drawbridge/relay/runner"
)

type relayRunCmd struct {
	Config string `default:"relay.yaml" type:"path"`
}

// Run is drawbridge-relay run, in this binary.
func (c relayRunCmd) Run(ctx context.Context, a app) error {
	return runner.Main(ctx, runner.MainOptions{ConfigPath: c.Config, Env: a.getenv, Log: a.stderr})
}
