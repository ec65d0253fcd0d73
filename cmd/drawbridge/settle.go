package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"drawbridge/api"
)

type resolveCmd struct {
	ID          string `arg:"" optional:"" help:"The uncertain command's or turn's id; see drawbridge commands --state uncertain, drawbridge turns AGENT --state uncertain."`
	Launched    string `help:"A launch happened: the id of the agent that is there." placeholder:"AGENT" xor:"word"`
	NotLaunched bool   `help:"A launch did not happen, or an action did not run; the agent that asked is told so." xor:"word"`
	Ran         bool   `help:"An action ran; the agent that asked is told so." xor:"word"`
	ExitCode    *int   `help:"The action's exit code, 0 to 255, with --ran." placeholder:"N"`
	NotRun      bool   `help:"An action did not run; the agent that asked is told so." xor:"word"`
	Told        bool   `help:"The agent got the turn: an unknown run told it what waits for it, or its machine cannot tell; for a turn, or with --restored." xor:"word"`
	Tell        bool   `help:"The agent did not get the turn: tell it; for a turn, or with --restored." xor:"word"`
	Restored    bool   `help:"Answer --told or --tell for all unknown runs after an older copy of the database was put back, without an id."`
	Unchecked   bool   `help:"Take your word as it is: neither the Cloud Agents API is asked about --launched, nor the relay's journal about an action."`
	target
}

// Help shows an example.
func (resolveCmd) Help() string {
	return "An action: without a word the relay's journal is asked, and settles the command if it knows. With --ran or --not-run it is asked as well, and what it knows counts.\n\nA launch: look into the cloud's own list first: agents of this bridge work on a branch named bridge/ and 24 letters and digits, which the uncertain turn names. The agent must be on the repository that was granted; --unchecked takes your word for it.\n\nA turn that stands for an unknown run (an older copy of the database was put back): look at the run in the cloud's page. --told takes the run over, --tell tells the agent in another turn what waits for it. --restored answers for all of them.\n\nA turn of an agent at a relay that may have reached it: look at the agent's workspace. --told means that the agent got it: nothing is said again, and the turn ends without an answer. --tell says the same in a new turn. --not-launched says nothing again; what the turn carried waits for another one.\n\nExamples:\n  drawbridge resolve cmd_0123\n  drawbridge resolve cmd_0123 --ran --exit-code 0\n  drawbridge resolve cmd_0123 --not-run\n  drawbridge resolve cmd_0123 --launched bc-8f7e…\n  drawbridge resolve cmd_0123 --not-launched\n  drawbridge resolve trn_0123 --not-launched\n  drawbridge resolve --restored --told"
}

// word is what the flags say, or a usage error.
func (c resolveCmd) word() (api.ResolveRequest, error) {
	said := c.Launched != "" || c.NotLaunched || c.Ran || c.NotRun || c.Told || c.Tell
	turn := strings.HasPrefix(c.ID, "trn_")
	switch {
	case c.ID == "" || c.Restored:
		return api.ResolveRequest{}, c.restored()
	case !turn && (c.Told || c.Tell):
		return api.ResolveRequest{}, usageError{errors.New("--told and --tell go with a turn's id or with --restored")}
	case turn && (c.Ran || c.NotRun):
		return api.ResolveRequest{}, usageError{errors.New("--ran and --not-run go with an action's command, not with a turn")}
	case turn && !said:
		return api.ResolveRequest{}, usageError{errors.New("say what happened: --launched AGENT or --not-launched, or --told or --tell for an unknown run and for an agent at a relay")}
	case c.ExitCode != nil && (!c.Ran || *c.ExitCode < 0 || *c.ExitCode > 255):
		return api.ResolveRequest{}, usageError{errors.New("--exit-code goes with --ran, and is 0 to 255")}
	case c.Unchecked && (!said || c.NotLaunched || c.Told || c.Tell):
		return api.ResolveRequest{}, usageError{errors.New("--unchecked goes with --launched AGENT, --ran or --not-run")}
	}
	return api.ResolveRequest{Launched: c.Launched, NotLaunched: c.NotLaunched, Unchecked: c.Unchecked, Ran: c.Ran, ExitCode: c.ExitCode, NotRan: c.NotRun, Journal: !said, Told: c.Told, Tell: c.Tell}, nil
}

// restored is a usage error unless the flags are those of an answer for all runs.
func (c resolveCmd) restored() error {
	switch {
	case !c.Restored:
		return usageError{errors.New("name the uncertain command or turn, or use --restored")}
	case c.ID != "":
		return usageError{errors.New("--restored answers for all unknown runs; leave the id out")}
	case !c.Told && !c.Tell || c.Unchecked || c.ExitCode != nil:
		return usageError{errors.New("--restored goes with --told or --tell alone")}
	}
	return nil
}

// settleRestored answers for all unknown runs.
func (c resolveCmd) settleRestored(ctx context.Context, a app) error {
	done, err := ask(c.target, a, func(client *api.Client) (api.RestoredAnswer, error) {
		return client.ResolveRestored(ctx, api.RestoredRequest{Told: c.Told, Tell: c.Tell})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, done)
	}
	_, err = fmt.Fprintf(a.stdout, "settled turns: %d; the answer holds for unknown runs that began before now, too\n", done.Settled)
	return err
}

// Run resolves.
func (c resolveCmd) Run(ctx context.Context, a app) error {
	word, err := c.word()
	if err != nil {
		return err
	}
	if c.Restored {
		return c.settleRestored(ctx, a)
	}
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
	if err := printDecision(a, c.JSON, "resolved", m); err != nil || c.JSON || m.Outcome == nil || (c.Ran && m.Outcome.ExitCode < 0) {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "it %s, exit code %d\n", m.Outcome.Status, m.Outcome.ExitCode)
	return err
}

type replayCmd struct {
	Turn string `arg:"" help:"The turn's id; see drawbridge turns AGENT."`
	target
}

// Help shows an example.
func (replayCmd) Help() string {
	return "A failed turn is said again as a new one, with all that waits for the agent; an uncertain one is sent again as it is. For an uncertain turn of an agent at a relay a new turn says the same: replay it only if the agent did not get it.\n\nExample:\n  drawbridge replay trn_0123"
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
