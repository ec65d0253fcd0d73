package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/settings"
)

// place is where a command finds the relay.
type place struct {
	Config string `default:"relay.yaml" placeholder:"FILE" help:"Path of relay.yaml."`
	State  string `placeholder:"DIR" help:"The relay's state folder, for when relay.yaml cannot be read."`
}

func (p place) state() (string, error) {
	if p.State != "" {
		return p.State, nil
	}
	config, err := settings.Load(p.Config, os.LookupEnv)
	return config.State, err
}

func (p place) client() (*control.Client, error) {
	state, err := p.state()
	if err != nil {
		return nil, err
	}
	return control.NewClient(state), nil
}

type approvalsCmd struct {
	place
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is what approvals --help says beside the flags.
func (approvalsCmd) Help() string {
	return `Each entry shows what would run, and what the agent wrote with everything but plain ASCII escaped. What nobody approves in
time is refused.

Example:
  drawbridge-relay approvals
  drawbridge-relay approve apr_k3jx7qpa`
}

// Run lists the open questions.
func (c approvalsCmd) Run(ctx context.Context, s streams) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	open, err := client.Pending(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if open == nil {
			open = []approval.Pending{}
		}
		return json.NewEncoder(s.out).Encode(open)
	}
	if len(open) == 0 {
		_, err := fmt.Fprintln(s.out, "nothing waits for an approval")
		return err
	}
	for _, p := range open {
		fmt.Fprint(s.out, p.Text(time.Now()))
	}
	return nil
}

type approveCmd struct {
	place
	ID string `arg:"" help:"The id that drawbridge-relay approvals shows, such as apr_k3jx7qpa."`
}

// Help is what approve --help says beside the flags.
func (approveCmd) Help() string {
	return "Example:\n  drawbridge-relay approve apr_k3jx7qpa"
}

// Run says yes.
func (c approveCmd) Run(ctx context.Context, s streams) error {
	return c.decide(ctx, s, c.ID, true)
}

type denyCmd struct {
	place
	ID string `arg:"" help:"The id that drawbridge-relay approvals shows, such as apr_k3jx7qpa."`
}

// Help is what deny --help says beside the flags.
func (denyCmd) Help() string {
	return "Example:\n  drawbridge-relay deny apr_k3jx7qpa"
}

// Run says no.
func (c denyCmd) Run(ctx context.Context, s streams) error {
	return c.decide(ctx, s, c.ID, false)
}

func (p place) decide(ctx context.Context, s streams, id string, approve bool) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	if err := client.Decide(ctx, id, approve); err != nil {
		return err
	}
	word := map[bool]string{true: "approved", false: "denied"}[approve]
	_, err = fmt.Fprintf(s.out, "%s: %s\n", id, word)
	return err
}

type stopCmd struct{ place }

// Help is what stop --help says beside the flags.
func (stopCmd) Help() string {
	return `From then on the relay refuses everything, also after a restart; what runs is ended and what waits for an approval is
denied. It needs no running relay.

Example:
  drawbridge-relay stop`
}

// Run turns the kill switch on. The file comes first: it counts whether or not the relay can be told.
func (c stopCmd) Run(ctx context.Context, s streams) error {
	state, err := c.state()
	if err != nil {
		return err
	}
	if err := control.Switch(state, true); err != nil {
		return err
	}
	switch err := control.NewClient(state).SwitchOff(ctx); {
	case errors.Is(err, control.ErrNoRelay):
		_, err = fmt.Fprintln(s.out, "stopped; no relay is running, and one that is started refuses everything until drawbridge-relay start")
		return err
	case err != nil:
		return fmt.Errorf("the kill switch is on and the relay follows within a second, but could not be asked: %w", err)
	}
	_, err = fmt.Fprintln(s.out, "stopped; nothing runs, and everything is refused until drawbridge-relay start")
	return err
}

type startCmd struct{ place }

// Help is what start --help says beside the flags.
func (startCmd) Help() string {
	return "It takes drawbridge-relay stop back. It does not start a relay; that is drawbridge-relay run.\n\nExample:\n  drawbridge-relay start"
}

// Run turns the kill switch off.
func (c startCmd) Run(ctx context.Context, s streams) error {
	state, err := c.state()
	if err != nil {
		return err
	}
	if err := control.Switch(state, false); err != nil {
		return err
	}
	if err := control.NewClient(state).SwitchOn(ctx); err != nil && !errors.Is(err, control.ErrNoRelay) {
		return err
	}
	_, err = fmt.Fprintln(s.out, "the kill switch is off")
	return err
}
