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
	Launched    string `help:"Say that a launch happened and made the agent with this id." placeholder:"AGENT" xor:"word"`
	NotLaunched bool   `help:"Say that a launch did not happen, or that an action did not run. The bridge tells the agent that asked." xor:"word"`
	Ran         bool   `help:"Say that an action ran. The bridge tells the agent that asked." xor:"word"`
	ExitCode    *int   `help:"Give the action's exit code, 0 to 255, together with --ran." placeholder:"N"`
	NotRun      bool   `help:"Say that an action did not run. The bridge tells the agent that asked." xor:"word"`
	Told        bool   `help:"Say that an unknown run told the agent what waits for it. This needs a turn's id or --restored." xor:"word"`
	Tell        bool   `help:"Say that an unknown run did not tell the agent what waits for it, so that the bridge tells it. This needs a turn's id or --restored." xor:"word"`
	Restored    bool   `help:"Apply --told or --tell to all unknown runs after an older copy of the database was put back. Leave the id out."`
	Unchecked   bool   `help:"Believe you without a check. Without the flag, the bridge checks --launched at the Cloud Agents API, and an action in the relay's journal."`
	target
}

// Help shows an example.
func (resolveCmd) Help() string {
	return "For an action, first give the id without a flag. The bridge then asks the relay's journal, and settles the command if the journal knows the outcome. With --ran or --not-run the bridge asks the journal, too. If the journal knows the outcome, that outcome counts.\n\nFor a launch, first look into the cloud's own list of agents. Agents of this bridge work on a branch named bridge/ and 24 letters and digits. The uncertain turn names that branch. The bridge checks that the agent is on the repository that was granted. With --unchecked the bridge does not check this.\n\nIf an older copy of the database was put back, it may lack runs that agents had since. Such a run is an uncertain turn. Look at the run on the cloud's page. With --told the bridge takes the run over. With --tell the bridge tells the agent in another turn what waits for it. --restored settles all such turns.\n\nFor a turn that may have reached an agent at a relay, use drawbridge give-up or drawbridge say-again.\n\nExamples:\n  drawbridge resolve cmd_0123\n  drawbridge resolve cmd_0123 --ran --exit-code 0\n  drawbridge resolve cmd_0123 --not-run\n  drawbridge resolve cmd_0123 --launched bc-8f7e…\n  drawbridge resolve cmd_0123 --not-launched\n  drawbridge resolve trn_0123 --not-launched\n  drawbridge resolve --restored --told"
}

// word is what the flags say, or a usage error.
func (c resolveCmd) word() (api.ResolveRequest, error) {
	said := c.Launched != "" || c.NotLaunched || c.Ran || c.NotRun || c.Told || c.Tell
	turn := strings.HasPrefix(c.ID, "trn_")
	switch {
	case c.ID == "" || c.Restored:
		return api.ResolveRequest{}, c.restored()
	case !turn && (c.Told || c.Tell):
		return api.ResolveRequest{}, usageError{errors.New("--told and --tell settle a turn; name a turn's id, or use --restored without an id")}
	case turn && (c.Ran || c.NotRun):
		return api.ResolveRequest{}, usageError{errors.New("--ran and --not-run settle an action's command, not a turn; name the command's id")}
	case turn && !said:
		return api.ResolveRequest{}, usageError{errors.New("say what happened with --launched AGENT or --not-launched. For an unknown run, use --told or --tell. For an agent at a relay, use drawbridge give-up or drawbridge say-again")}
	case c.ExitCode != nil && (!c.Ran || *c.ExitCode < 0 || *c.ExitCode > 255):
		return api.ResolveRequest{}, usageError{errors.New("--exit-code goes with --ran and takes 0 to 255; correct the flags")}
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
		return usageError{errors.New("--restored needs --told or --tell, and takes no other flag")}
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
	_, err = fmt.Fprintf(a.stdout, "settled turns: %d; the answer also settles unknown runs that the bridge finds later, if they began before now\n", done.Settled)
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

type turnArg struct {
	Turn string `arg:"" help:"The turn's id; see drawbridge turns AGENT."`
	target
}

// run says a person's word about a turn.
func (c turnArg) run(a app, word func(*api.Client) (api.Turn, error)) error {
	t, err := ask(c.target, a, word)
	if err != nil {
		return err
	}
	return printTurn(a, c.JSON, t)
}

type continueCmd struct{ turnArg }

// Help shows an example.
func (continueCmd) Help() string {
	return "For an agent at a relay, the relay looks whether the agent has the turn. If the agent has the turn, the relay asks the agent to continue. If not, the agent gets the turn. The bridge says nothing twice. The command refuses a turn of an agent that has another turn since.\n\nFor any other agent, the bridge says the same in a new turn, together with everything that waits for the agent. The bridge sends an uncertain turn of such an agent again unchanged.\n\nExample:\n  drawbridge continue trn_0123"
}

// Run lets an agent go on.
func (c continueCmd) Run(ctx context.Context, a app) error {
	return c.run(a, func(client *api.Client) (api.Turn, error) { return client.Continue(ctx, c.Turn) })
}

type sayAgainCmd struct{ turnArg }

// Help shows an example.
func (sayAgainCmd) Help() string {
	return "The bridge sends the text of this turn in a new turn, together with everything that waits for the agent. The agent may then get the text twice. First look at the agent's workspace.\n\nExample:\n  drawbridge say-again trn_0123"
}

// Run says the words of a turn again.
func (c sayAgainCmd) Run(ctx context.Context, a app) error {
	return c.run(a, func(client *api.Client) (api.Turn, error) { return client.SayAgain(ctx, c.Turn) })
}

type giveUpCmd struct{ turnArg }

// Help shows an example.
func (giveUpCmd) Help() string {
	return "The turn ends as failed, and the agent can get other turns. The bridge does not send the text of this turn again. Other messages that wait come with the agent's next turn. If a relay runs the agent and the turn is uncertain, the bridge also records that the agent got the turn.\n\nExample:\n  drawbridge give-up trn_0123"
}

// Run gives a turn up.
func (c giveUpCmd) Run(ctx context.Context, a app) error {
	return c.run(a, func(client *api.Client) (api.Turn, error) { return client.GiveUp(ctx, c.Turn) })
}

func printTurn(a app, asJSON bool, t api.Turn) error {
	if asJSON {
		return printJSON(a.stdout, t)
	}
	_, err := fmt.Fprintf(a.stdout, "turn %d is %s (%s)\n", t.Seq, turnState(t), t.ID)
	return err
}

// turnState is the state of a turn, and that it is about to end because a person stopped it.
func turnState(t api.Turn) string {
	if t.Stopped && t.EndedAt.IsZero() {
		return t.State + ", stopping"
	}
	return t.State
}
