package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drawbridge/api"
)

type treeCmd struct {
	Agent string `arg:"" help:"Any agent of the tree, by name or id."`
	target
}

// Help shows an example.
func (treeCmd) Help() string {
	return "The budget is limits.tree in the allowlist; a change of it holds for what comes next at once, and for what waits within a minute.\n\nExample:\n  drawbridge tree main"
}

// Run shows a tree.
func (c treeCmd) Run(ctx context.Context, a app) error {
	t, err := ask(c.target, a, func(client *api.Client) (api.Tree, error) { return client.Tree(ctx, c.Agent) })
	if err != nil {
		return err
	}
	return c.print(a, t)
}

func (t target) print(a app, tree api.Tree) error {
	if t.JSON {
		return printJSON(a.stdout, tree)
	}
	of := func(used any, bound int) string {
		if bound == 0 {
			return fmt.Sprint(used, " (no bound)")
		}
		return fmt.Sprint(used, " of ", bound)
	}
	rows := [][]string{
		{"launches", of(tree.Launches, tree.Budget.Launches)},
		{"open subagents", of(tree.Open, tree.Budget.Open)},
		{"turns", of(tree.Turns, tree.Budget.Turns)},
		{"tokens", of(tree.Tokens, tree.Budget.Tokens)},
		{"cost in US dollars", of(fmt.Sprintf("%.2f", tree.CostUSD), tree.Budget.CostUSD)},
	}
	if tree.Unmetered > 0 {
		rows = append(rows, []string{"agents without reported usage", fmt.Sprint(tree.Unmetered)})
	}
	state := "may go on"
	if !tree.StoppedAt.IsZero() {
		state = "stopped at " + tree.StoppedAt.Local().Format(time.DateTime)
		if tree.Why != "" {
			state += ": " + short(tree.Why, 200)
		}
	}
	for _, q := range tree.Asked {
		rows = append(rows, []string{short(q.Action, 40), short(q.Text, 400)})
	}
	return table(a.stdout, "TREE\t"+tree.Name+" ("+tree.Root+")", "", append(rows, []string{"state", state}))
}

type stopCmd struct {
	Agent string `arg:"" help:"The root agent's name or id."`
	Why   string `help:"Shown to whoever asks later." placeholder:"TEXT"`
	target
}

// Help shows an example.
func (stopCmd) Help() string {
	return "Cancels the runs of the agent and of everything under it, gives up what waits, and keeps all of it stopped, over restarts too, until drawbridge resume. Nothing that ended is lost.\n\nAn action that runs already runs on, until its own time limit at most; drawbridge-relay stop at its machine ends it.\n\nExample:\n  drawbridge stop main --why \"wrong branch\""
}

// Run stops a tree.
func (c stopCmd) Run(ctx context.Context, a app) error {
	t, err := ask(c.target, a, func(client *api.Client) (api.Tree, error) { return client.Stop(ctx, c.Agent, c.Why) })
	if err != nil {
		return err
	}
	return c.print(a, t)
}

type resumeCmd struct {
	Agent string `arg:"" help:"The root agent's name or id."`
	target
}

// Help shows an example.
func (resumeCmd) Help() string {
	return "What waits for the agents is told to them; what was given up stays given up.\n\nExample:\n  drawbridge resume main"
}

// Run lets a tree go on.
func (c resumeCmd) Run(ctx context.Context, a app) error {
	t, err := ask(c.target, a, func(client *api.Client) (api.Tree, error) { return client.Resume(ctx, c.Agent) })
	if err != nil {
		return err
	}
	return c.print(a, t)
}

type forgetCmd struct {
	Agent string `arg:"" help:"The agent's name or id."`
	target
}

// Help shows an example.
func (forgetCmd) Help() string {
	return "For an agent that failed, is done, or was stopped: its name and the names of all under it are free again, lists leave them out, and their tokens end. Their turns and commands stay on record under their ids; drawbridge agents --forgotten lists them.\n\nExample:\n  drawbridge forget my-app-1a2b3c"
}

// Run forgets.
func (c forgetCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (api.Agent, error) { return client.ForgetAgent(ctx, c.Agent) }, func(g api.Agent) error {
		_, err := fmt.Fprintf(a.stdout, "forgot %s; its record stays as %s (%s)\n", short(c.Agent, 80), g.Name, g.ID)
		return err
	})
}

type joinCmd struct {
	Agent    string        `arg:"" help:"The agent's name or id."`
	Policy   string        `arg:"" help:"each, all, any or a number."`
	Deadline time.Duration `help:"How long the agent waits for them at most." default:"1h" placeholder:"SPAN"`
	target
}

// Help shows an example.
func (joinCmd) Help() string {
	return "With each, every subagent's result comes back by itself. With all, any or a number, the results of the subagents that one turn launched come back as one turn, once so many have ended or the deadline has passed; it says what is missing.\n\nExample:\n  drawbridge join main all --deadline 30m"
}

// Run sets the policy.
func (c joinCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (api.Agent, error) {
		return client.Join(ctx, c.Agent, api.JoinRequest{Join: c.Policy, JoinDeadline: c.Deadline.String()})
	}, func(g api.Agent) error {
		_, err := fmt.Fprintf(a.stdout, "%s: results of its subagents come back by %s\n", g.Name, joinText(g))
		return err
	})
}

func joinText(g api.Agent) string {
	if g.JoinDeadline == "" {
		return "each"
	}
	return g.Join + ", after " + g.JoinDeadline + " at the latest"
}

type remindersCmd struct {
	List   remindersListCmd   `cmd:"" default:"withargs" help:"List reminders that wait."`
	Cancel remindersCancelCmd `cmd:"" help:"Cancel a reminder."`
}

// Help shows examples.
func (remindersCmd) Help() string {
	return "Without a further word it lists.\n\nExamples:\n  drawbridge reminders --agent main\n  drawbridge reminders cancel cmd_0123"
}

type remindersListCmd struct {
	Agent  string `help:"Only those of this agent (name or id)." placeholder:"AGENT"`
	Limit  int    `help:"At most so many, newest first." default:"50"`
	Before string `help:"Those before this one, to page on." placeholder:"NEXT"`
	target
}

// Help shows an example.
func (remindersListCmd) Help() string { return "Example:\n  drawbridge reminders --agent main" }

// Run lists reminders.
func (c remindersListCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (api.CommandList, error) {
		return client.Commands(ctx, api.ListOptions{Verb: "REMIND", State: "granted", Agent: c.Agent, Limit: c.Limit, Before: c.Before})
	}, func(list api.CommandList) error {
		rows := make([][]string, len(list.Commands))
		for i, m := range list.Commands {
			rows[i] = []string{m.ID, cmp.Or(m.AgentName, m.Agent), m.Due.Local().Format(time.DateTime), short(m.When, 30), short(m.Message, 80)}
		}
		if err := table(a.stdout, "ID\tAGENT\tDUE\tAS WRITTEN\tMESSAGE", "no reminders", rows); err != nil {
			return err
		}
		return more(a, list.Next)
	})
}

type remindersCancelCmd struct {
	Command string `arg:"" help:"The reminder's id; see drawbridge reminders."`
	target
}

// Help shows an example.
func (remindersCancelCmd) Help() string {
	return "The agent reads of it in its next turn.\n\nExample:\n  drawbridge reminders cancel cmd_0123"
}

// Run cancels.
func (c remindersCancelCmd) Run(ctx context.Context, a app) error {
	m, err := ask(c.target, a, func(client *api.Client) (api.Command, error) { return client.CancelReminder(ctx, c.Command) })
	if err != nil {
		return err
	}
	return printDecision(a, c.JSON, cancelled, m)
}
