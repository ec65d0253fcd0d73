package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

type statusCmd struct{ target }

// Help shows an example.
func (statusCmd) Help() string {
	return "One screen: what waits for you, the most urgent first; which agents are at work; the relays; the bridge. The exit code is 1 if something waits for you, so that a script can tell.\n\nExamples:\n  drawbridge status\n  drawbridge status --json"
}

// The rows that fit on one screen.
const (
	maxStatusNeeds  = 15
	maxStatusAgents = 10
)

// statusAnswer is what drawbridge status --json prints.
type statusAnswer struct {
	api.NeedList
	// Agents are those that have a turn, 10 at most; NeedList.Working counts all.
	Agents []api.Agent `json:"agents"`
	Relays []api.Relay `json:"relays"`
	Bridge api.Status  `json:"bridge"`
}

// Run shows how things stand.
func (c statusCmd) Run(ctx context.Context, a app) error {
	s, err := ask(c.target, a, func(client *api.Client) (s statusAnswer, err error) {
		if s.Bridge, err = client.Status(ctx); err != nil {
			return s, err
		}
		if s.NeedList, err = client.Needs(ctx); err != nil {
			return s, err
		}
		agents, err := client.Agents(ctx, api.ListOptions{State: string(bridge.AgentBusy), Limit: maxStatusAgents})
		if err != nil {
			return s, err
		}
		relays, err := client.Relays(ctx, "", 0)
		s.Agents, s.Relays = agents.Agents, relays.Relays
		return s, err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(a.stdout, s)
	} else {
		err = s.print(a.stdout)
	}
	if err == nil && len(s.Needs) > 0 {
		err = errNo
	}
	return err
}

// print writes one screen.
func (s statusAnswer) print(w io.Writer) error {
	needs := rows{head: []string{"NEEDS YOU", "AGE", "WHAT"}, none: "Nothing needs you."}
	for _, n := range s.Needs[:min(len(s.Needs), maxStatusNeeds)] {
		what := n.Text
		if n.Line != "" {
			what += ": " + n.Line
		}
		if n.Count > 1 {
			what = fmt.Sprintf("%d times: %s", n.Count, what)
		}
		needs.rows = append(needs.rows, row{cells: []string{n.Kind, age(n.Since, time.Now()), short(what, maxNote)}})
	}
	if err := needs.print(w); err != nil {
		return err
	}
	if more := len(s.Needs) - maxStatusNeeds; more > 0 {
		fmt.Fprintf(w, "… and %d more\n", more)
	}
	if len(s.Needs) > 0 {
		fmt.Fprintln(w, "To decide: drawbridge open. In the terminal: drawbridge commands --state held, and drawbridge approve or deny.")
	}
	fmt.Fprintln(w)
	work := rows{head: []string{"AT WORK", "STATE", "AGE", "TASK"}, none: "No agent is at work."}
	for _, g := range s.Agents {
		word, since := g.Now()
		work.rows = append(work.rows, row{cells: []string{g.Name, word, age(since, time.Now()), short(g.Task, maxNote)}})
	}
	if err := work.print(w); err != nil {
		return err
	}
	if more := s.Working - len(s.Agents); more > 0 && len(s.Agents) == maxStatusAgents {
		fmt.Fprintf(w, "… and %d more\n", more)
	}
	you := ""
	if o := s.Bridge.Operator; o.Role != "" && o.Role != string(bridge.RoleAdmin) {
		you = fmt.Sprintf("you: %s (%s)\n", o.Name, o.Role)
	}
	_, err := fmt.Fprintf(w, "\nrelays: %s\nbridge: %s\n%s", s.relays(), s.health(), you)
	return err
}

// relays says in one line how the relays are.
func (s statusAnswer) relays() string {
	var parts []string
	for _, r := range s.Relays {
		parts = append(parts, short(r.Name, 64)+" "+relayState(r))
	}
	return cmp.Or(strings.Join(parts, "; "), "none has joined")
}

// health says in one line how the bridge is.
func (s statusAnswer) health() string {
	b := s.Bridge
	parts := []string{b.Version, "database " + b.Database}
	if late := time.Duration(b.Counts.WorkOverdueMS) * time.Millisecond; late > time.Minute {
		parts = append(parts, "the oldest work is "+late.Truncate(time.Second).String()+" late")
	}
	if b.AlertsLost > 0 {
		parts = append(parts, fmt.Sprintf("%s did not arrive: %s", words.Count(b.AlertsLost, "alert"), b.AlertsProblem))
	}
	if b.AllowlistProblem != "" {
		parts = append(parts, words.SafeLine(b.AllowlistProblem, 200))
	}
	return strings.Join(parts, ", ")
}
