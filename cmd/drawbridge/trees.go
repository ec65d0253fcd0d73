package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"drawbridge/api"
)

type treeCmd struct {
	Agent string `arg:"" help:"Any agent of the tree, by name or id."`
	target
}

// Help shows an example.
func (treeCmd) Help() string {
	return "limits.tree in the allowlist sets the budget. A changed budget applies at once to new work, and within a minute to work that waits.\n\nExample:\n  drawbridge tree main"
}

// Run shows a tree.
func (c treeCmd) Run(ctx context.Context, a app) error {
	t, err := ask(c.target, a, func(client *api.Client) (t treeAnswer, err error) {
		if t.Tree, err = client.Tree(ctx, c.Agent); err != nil {
			return t, err
		}
		list, err := client.Agents(ctx, api.ListOptions{Tree: t.Root, Forgotten: true, Limit: maxDrawn})
		t.Agents, t.Next = list.Agents, list.Next
		return t, err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, t)
	}
	if err := t.draw(a.stdout); err != nil {
		return err
	}
	return c.print(a, t.Tree)
}

// maxDrawn bounds the agents that a tree shows, the newest ones.
const maxDrawn = 1000

// treeAnswer is what drawbridge tree --json prints.
type treeAnswer struct {
	api.Tree
	// Agents are those of the tree, newest first, 1,000 at most. Next is not empty if there are more.
	Agents []api.Agent `json:"agents"`
	Next   string      `json:"next,omitempty"`
}

// draw writes the agents of a tree, each below the one that launched it.
func (t treeAnswer) draw(w io.Writer) error {
	below := api.Below(t.Agents)
	list := rows{head: []string{"AGENT", "STATE", "AGE", "TASK"}}
	var add func(parent, before string)
	add = func(parent, before string) {
		for i, g := range below[parent] {
			mark, further := "├─ ", "│  "
			switch {
			case parent == "":
				mark, further = "", ""
			case i == len(below[parent])-1:
				mark, further = "└─ ", "   "
			}
			state, since := g.Now()
			list.rows = append(list.rows, row{cells: []string{before + mark + g.Name, state, age(since, time.Now()), short(g.Task, maxNote)}})
			add(g.ID, before+further)
		}
	}
	add("", "")
	if err := list.print(w); err != nil {
		return err
	}
	if t.Next != "" {
		fmt.Fprintf(w, "… and older agents; drawbridge agents lists all\n")
	}
	_, err := fmt.Fprintln(w)
	return err
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
	Agent string `arg:"" help:"The root agent's name or id, or the id of one turn."`
	Why   string `help:"Store this reason, which the bridge shows for the stopped tree." placeholder:"TEXT"`
	target
}

// Help shows an example.
func (stopCmd) Help() string {
	return "The bridge cancels the runs of the agent and of all agents under it, and drops the work that waits. The tree stays stopped, even over restarts, until you run drawbridge resume. The bridge keeps the results of work that has ended.\n\nAn action that already runs continues, until its own time limit at most. To end it earlier, run drawbridge-relay stop at its machine.\n\nWith the id of a turn, the command stops only this turn. No command of the turn's reply runs. The agent then waits for your next words. To let the agent go on with the turn, run drawbridge continue TURN.\n\nExamples:\n  drawbridge stop main --why \"wrong branch\"\n  drawbridge stop trn_0123"
}

// Run stops a tree or a turn.
func (c stopCmd) Run(ctx context.Context, a app) error {
	if strings.HasPrefix(c.Agent, "trn_") {
		if c.Why != "" {
			return usageError{errors.New("--why goes with an agent, not with a turn")}
		}
		return turnArg{c.Agent, c.target}.run(a, func(client *api.Client) (api.Turn, error) { return client.StopTurn(ctx, c.Agent) })
	}
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
	return "The bridge tells the agents what waits for them. Commands and turns that the stop cancelled do not start again.\n\nExample:\n  drawbridge resume main"
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
	return "Use this for an agent that failed, is done, or was stopped. The command frees the names of the agent and of all agents under it, and ends their tokens and their processes. Lists leave these agents out. The bridge keeps their turns and commands under their ids. To list forgotten agents, run drawbridge agents --forgotten.\n\nExample:\n  drawbridge forget my-app-1a2b3c"
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
	Policy   string        `arg:"" help:"Use this policy: each, all, any or a number."`
	Deadline time.Duration `help:"Let the agent wait at most this long for the results." default:"1h" placeholder:"SPAN"`
	target
}

// Help shows an example.
func (joinCmd) Help() string {
	return "With each, every subagent's result comes back in a turn of its own. With all, any or a number, one turn brings the results of all subagents that one turn launched. That turn comes when as many subagents have ended as the policy says, or at the deadline. That turn says which results are missing.\n\nExample:\n  drawbridge join main all --deadline 30m"
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
	return "Without a subcommand, the command lists reminders.\n\nExamples:\n  drawbridge reminders --agent main\n  drawbridge reminders cancel cmd_0123"
}

type remindersListCmd struct {
	Agent  string `help:"List only reminders of this agent (name or id)." placeholder:"AGENT"`
	Limit  int    `help:"List at most this many reminders, newest first." default:"50"`
	Before string `help:"Continue a list before this reminder; the previous list prints the value." placeholder:"NEXT"`
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
	Command string `arg:"" name:"reminder" help:"The reminder's id, which drawbridge reminders lists."`
	target
}

// Help shows an example.
func (remindersCancelCmd) Help() string {
	return "The agent learns of the cancellation in its next turn.\n\nExample:\n  drawbridge reminders cancel cmd_0123"
}

// Run cancels.
func (c remindersCancelCmd) Run(ctx context.Context, a app) error {
	m, err := ask(c.target, a, func(client *api.Client) (api.Command, error) { return client.CancelReminder(ctx, c.Command) })
	if err != nil {
		return err
	}
	return printDecision(a, c.JSON, cancelled, m)
}
