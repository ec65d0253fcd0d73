package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"drawbridge/api"
)

type resolveCmd struct {
	ID          string `arg:"" help:"The uncertain command's or turn's id; see drawbridge commands --state uncertain, drawbridge turns AGENT --state uncertain."`
	Launched    string `help:"It happened: the id of the agent that is there." placeholder:"AGENT" xor:"word"`
	NotLaunched bool   `help:"It did not happen; the agent that asked is told so." xor:"word"`
	Unchecked   bool   `help:"Take --launched as it is: the Cloud Agents API cannot be asked whether that agent is on the granted repository."`
	target
}

// Help shows an example.
func (resolveCmd) Help() string {
	return "Look into the cloud's own list first: agents of this bridge work on a branch named bridge/ and 24 letters and digits, which the uncertain turn names. The agent must be on the repository that was granted; --unchecked takes your word for it.\n\nExamples:\n  drawbridge resolve cmd_0123 --launched bc-8f7e…\n  drawbridge resolve cmd_0123 --not-launched\n  drawbridge resolve trn_0123 --not-launched"
}

// Run resolves.
func (c resolveCmd) Run(ctx context.Context, a app) error {
	if c.Launched == "" && !c.NotLaunched {
		return usageError{errors.New("say what happened: --launched AGENT or --not-launched")}
	}
	if c.Unchecked && c.Launched == "" {
		return usageError{errors.New("--unchecked goes with --launched AGENT")}
	}
	word := api.ResolveRequest{Launched: c.Launched, NotLaunched: c.NotLaunched, Unchecked: c.Unchecked}
	if strings.HasPrefix(c.ID, "trn_") {
		t, err := ask(c.target, a, func(client *api.Client) (api.Turn, error) { return client.ResolveTurn(ctx, c.ID, word) })
		if err != nil {
			return err
		}
		return printTurn(a, c.JSON, t)
	}
	m, err := ask(c.target, a, func(client *api.Client) (api.Command, error) { return client.Resolve(ctx, c.ID, word) })
	if err != nil {
		return err
	}
	return printDecision(a, c.JSON, "resolved", m)
}

type replayCmd struct {
	Turn string `arg:"" help:"The turn's id; see drawbridge turns AGENT."`
	target
}

// Help shows an example.
func (replayCmd) Help() string {
	return "A failed turn is said again as a new one, with all that waits for the agent; an uncertain one is sent again as it is.\n\nExample:\n  drawbridge replay trn_0123"
}

// Run replays.
func (c replayCmd) Run(ctx context.Context, a app) error {
	t, err := ask(c.target, a, func(client *api.Client) (api.Turn, error) { return client.Replay(ctx, c.Turn) })
	if err != nil {
		return err
	}
	return printTurn(a, c.JSON, t)
}

func printTurn(a app, asJSON bool, t api.Turn) error {
	if asJSON {
		return printJSON(a.stdout, t)
	}
	_, err := fmt.Fprintf(a.stdout, "turn %d is %s (%s)\n", t.Seq, t.State, t.ID)
	return err
}
