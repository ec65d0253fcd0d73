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
		return "", fmt.Errorf("%w\nor name the folder of the relay's state, which is that of its relay.yaml as a rule: --state DIR", err)
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

const approvalsDescription = `List what waits for your word.

Each entry shows what would run, and what the agent wrote with everything but plain ASCII escaped. What nobody approves in
time is refused.`

type approvals struct {
	place
	JSON bool
}

func newApprovals(s streams) *cobra.Command {
	var c approvals
	cmd := command(help{"approvals", "List what waits for your word", approvalsDescription, "  drawbridge-relay approvals\n  drawbridge-relay approve apr_k3jx7qpa"},
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
		_, err := fmt.Fprintln(s.out, "nothing waits for an approval")
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

const stopDescription = `Turn the kill switch on. From then on the relay refuses everything, also after a restart; what runs is ended and what waits for
an approval is denied. It needs no running relay, and of relay.yaml nothing but state:; if that cannot be read, --state names the
folder.`

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
		_, err = fmt.Fprintln(s.out, "stopped; no relay is running, and one that is started refuses everything until drawbridge-relay start")
		return err
	case err != nil:
		return fmt.Errorf("the kill switch is on and the relay follows within a second, but could not be asked: %w", err)
	}
	_, err = fmt.Fprintln(s.out, "stopped; nothing runs, and everything is refused until drawbridge-relay start")
	return err
}

func newStart(s streams) *cobra.Command {
	var p place
	cmd := command(help{"start", "Turn the kill switch off", "Take drawbridge-relay stop back. It does not start a relay; that is drawbridge-relay run.", "  drawbridge-relay start"},
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
