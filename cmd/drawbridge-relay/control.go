package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/settings"
)

// place is where a command finds the relay.
type place struct {
	Config, State string
}

func (p *place) flags(f *pflag.FlagSet) {
	configFlag(f, &p.Config)
	f.StringVar(&p.State, "state", "", "the relay's state folder, a `DIR`, for when relay.yaml cannot be read")
}

func (p place) state() (string, error) {
	if p.State != "" {
		return p.State, nil
	}
	state, err := settings.StateOf(p.Config, os.LookupEnv)
	if err != nil {
		return "", fmt.Errorf("%w\nor name the folder of the relay's state, usually the folder of relay.yaml: --state DIR", err)
	}
	return state, nil
}

func (p place) client() (*control.Client, error) {
	state, err := p.state()
	if err != nil {
		return nil, err
	}
	return control.NewClient(state), nil
}

const approvalsDescription = `List the requests that wait for your approval.

Each entry shows what would run, and what the agent wrote. The list escapes all characters except plain ASCII. The relay
refuses a request that nobody approves in time.`

type approvals struct {
	place
	JSON bool
}

func newApprovals(s streams) *cobra.Command {
	var c approvals
	cmd := command(help{"approvals", "List the requests that wait for your approval", approvalsDescription, "  drawbridge-relay approvals\n  drawbridge-relay approve apr_k3jx7qpa"},
		func(ctx context.Context) error { return c.run(ctx, s) })
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	return cmd
}

// run lists the open questions.
func (c approvals) run(ctx context.Context, s streams) error {
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
		_, err := fmt.Fprintln(s.out, "no request waits for an approval")
		return err
	}
	for _, p := range open {
		fmt.Fprint(s.out, p.Text(time.Now()))
	}
	return nil
}

// newDecision is approve, or deny.
func newDecision(s streams, yes bool) *cobra.Command {
	name, short := "deny", "Refuse one pending action"
	if yes {
		name, short = "approve", "Let one pending action run"
	}
	var p place
	cmd := command(help{name + " <id>", short, short + "; the id is one that drawbridge-relay approvals shows.", "  drawbridge-relay " + name + " apr_k3jx7qpa"}, nil)
	cmd.Args = usage(func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("give one id that drawbridge-relay approvals shows")
		}
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.decide(cmd.Context(), s, args[0], yes) }
	p.flags(cmd.Flags())
	return cmd
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

const stopDescription = `Turn the kill switch on. From then on the relay refuses everything, even after a restart. The relay ends what runs, and denies what
waits for an approval. The command works without a running relay. It reads only state: from relay.yaml. If relay.yaml cannot be
read, name the state folder with --state.`

func newStop(s streams) *cobra.Command {
	var p place
	cmd := command(help{"stop", "Turn the kill switch on: refuse everything and end what runs, also over restarts", stopDescription, "  drawbridge-relay stop"},
		func(ctx context.Context) error { return p.stop(ctx, s) })
	p.flags(cmd.Flags())
	return cmd
}

// stop turns the kill switch on. The file comes first: it counts whether or not the relay can be told.
func (p place) stop(ctx context.Context, s streams) error {
	state, err := p.state()
	if err != nil {
		return err
	}
	if err := control.Switch(state, true); err != nil {
		return err
	}
	switch err := control.NewClient(state).SwitchOff(ctx); {
	case errors.Is(err, control.ErrNoRelay):
		_, err = fmt.Fprintln(s.out, "stopped; no relay is running, and a relay that you start refuses everything until you run drawbridge-relay start")
		return err
	case err != nil:
		return fmt.Errorf("the kill switch is on and takes effect within a second, but the relay did not confirm it: %w", err)
	}
	_, err = fmt.Fprintln(s.out, "stopped; the relay runs nothing and refuses everything until you run drawbridge-relay start")
	return err
}

func newStart(s streams) *cobra.Command {
	var p place
	cmd := command(help{"start", "Turn the kill switch off", "Turn off the kill switch that drawbridge-relay stop turned on. The command does not start a relay; use drawbridge-relay run for that.", "  drawbridge-relay start"},
		func(ctx context.Context) error { return p.start(ctx, s) })
	p.flags(cmd.Flags())
	return cmd
}

// start turns the kill switch off.
func (p place) start(ctx context.Context, s streams) error {
	state, err := p.state()
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
