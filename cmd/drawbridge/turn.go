package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/api/conversation"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/watch"
)

type turnCmd struct {
	Turn string `arg:"" help:"The turn's id, or the name or id of an agent for the agent's latest turn."`
	target
}

// Help shows an example.
func (turnCmd) Help() string {
	return "The command shows what the agent heard, what it answered, and behind => what came of each command line. Words of others, and outputs, stand behind a bar (|). drawbridge turns AGENT --wide lists the ids of turns.\n\nExamples:\n  drawbridge turn main\n  drawbridge turn trn_0123"
}

// Run shows a turn whole.
func (c turnCmd) Run(ctx context.Context, a app) error {
	var g api.Agent
	t, err := ask(c.target, a, func(client *api.Client) (t api.Turn, err error) {
		id := c.Turn
		if !strings.HasPrefix(id, "trn_") {
			list, err := client.Turns(ctx, id, api.ListOptions{Limit: 1})
			if err != nil {
				return t, err
			}
			if len(list.Turns) == 0 {
				return t, bridge.Errorf(bridge.NotFound, "agent %s has had no turn yet", short(id, 80))
			}
			id = list.Turns[0].ID
		}
		if t, err = client.Turn(ctx, id); err == nil {
			g, err = client.Agent(ctx, t.Agent)
		}
		return t, err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, t)
	}
	return tellTurn(a.stdout, t, g)
}

// maxTold bounds each text of a turn in a terminal, in bytes.
const maxTold = 1 << 20

// tellTurn writes a turn as a person reads it.
func tellTurn(w io.Writer, t api.Turn, g api.Agent) error {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d: %s %s (%s)\n%s, %s ago", t.Seq, g.Name, conversation.Cause(t.Cause), t.ID, turnState(t), age(t.Began(), time.Now()))
	if took := conversation.Took(t); took != "" {
		b.WriteString(", took " + took)
	}
	b.WriteString("\n")
	if t.Trouble != "" {
		fmt.Fprintln(&b, strings.Join(strings.Fields(t.Trouble), " "))
	}
	b.WriteString("\nheard:\n")
	for _, h := range conversation.Heard(t, g.Parent != "", maxTold) {
		b.WriteString(indented(h.Text, map[bool]string{true: "  | ", false: "  "}[h.Others]))
	}
	said := conversation.Said(t, maxTold)
	if len(said) > 0 {
		b.WriteString("\nanswered:\n")
	}
	for _, s := range said {
		if s.Line == nil {
			b.WriteString(indented(s.Text, "  "))
			continue
		}
		// Nothing that others wrote begins in the first column, so that nobody can forge an outcome.
		b.WriteString(indented(s.Line.Text, "  ") + "=> " + s.Line.Chip)
		if s.Line.Child != "" {
			b.WriteString(": agent " + s.Line.Child)
		}
		if s.Line.Waits != "" {
			b.WriteString(": " + s.Line.Waits)
		}
		b.WriteString("\n" + indented(s.Line.Why, "  | "))
	}
	_, err := io.WriteString(w, shown(b.String()))
	return err
}

// indented puts something before each line of a text, and ends it with a line break.
func indented(text, with string) string {
	var b strings.Builder
	for l := range strings.Lines(strings.TrimRight(text, "\n")) {
		b.WriteString(strings.TrimRight(with+strings.TrimRight(l, "\n"), " ") + "\n")
	}
	return b.String()
}

// waits is the target of a command that can wait for the turn that it begins.
type waits struct {
	Wait bool `help:"Wait until the turn is over. What the agent does goes to standard error, and its answer to standard output. The exit code is 1 if the turn failed."`
	target
}

// see begins a turn of an agent, tells what the agent does until the turn is over, and prints the answer.
func (c waits) see(ctx context.Context, a app, agent string, begin func(*api.Client) (api.Turn, error)) error {
	return c.withClient(a, func(client *api.Client) error {
		w := watcher(client, a.stderr, agent)
		if err := w.Start(ctx); err != nil {
			return err
		}
		watching, enough := context.WithCancel(ctx)
		told := make(chan struct{})
		go func() {
			defer close(told)
			_ = w.Run(watching)
		}()
		stop := func() {
			enough()
			<-told
		}
		defer stop()
		var turn api.Turn
		err := w.Own(func() (_ string, err error) {
			turn, err = begin(client)
			return turn.ID, err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "%s agent %s has turn %d (%s)\n", time.Now().Format(time.TimeOnly), agent, turn.Seq, turn.ID)
		turn, err = watch.Await(ctx, client, turn, func() error { return nil })
		stop()
		switch {
		case ctx.Err() != nil:
			fmt.Fprintf(a.stderr, "the turn goes on; to see it, type: drawbridge turn %s\n", turn.ID)
			return errNo
		case err != nil:
			return err
		case c.JSON:
			err = printJSON(a.stdout, turn)
		default:
			_, err = fmt.Fprintln(a.stdout, shown(turn.Reply))
		}
		if turn.State == string(bridge.TurnReplied) || err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "the turn is %s: %s\nTo see all of it, type: drawbridge turn %s\n", turnState(turn), shown(turn.Trouble), turn.ID)
		return errNo
	})
}
