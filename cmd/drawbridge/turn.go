package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"drawbridge/api"
	"drawbridge/api/conversation"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/watch"
	"drawbridge/internal/pause"
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
	at := t.CreatedAt
	if !t.SentAt.IsZero() {
		at = t.SentAt
	}
	parts := []string{turnState(t), age(at, time.Now()) + " ago"}
	if !t.EndedAt.IsZero() && !t.SentAt.IsZero() {
		parts = append(parts, "took "+t.EndedAt.Sub(t.SentAt).Round(100*time.Millisecond).String())
	}
	if spent := t.Spent.String(); spent != "" {
		parts = append(parts, spent)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d: %s %s (%s)\n", t.Seq, g.Name, conversation.Cause(t.Cause), t.ID)
	fmt.Fprintln(&b, strings.Join(parts, ", "))
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

// waits is a turn that a command may wait for.
type waits struct {
	Wait bool `help:"Wait until the turn is over. What the agent does goes to standard error, and its answer to standard output. The exit code is 1 if the turn failed."`
}

// see tells what an agent does in a turn until the turn is over, and prints the answer.
func (c waits) see(ctx context.Context, a app, at target, begin func(*api.Client) (api.Turn, error)) error {
	return at.withClient(a, func(client *api.Client) error {
		var last atomic.Int64
		say := func(line string) {
			now := time.Now()
			last.Store(now.UnixNano())
			fmt.Fprintf(a.stderr, "%s %s\n", now.Format(time.TimeOnly), shown(line))
		}
		turn, err := begin(client)
		if err != nil {
			return err
		}
		g, err := client.Agent(ctx, turn.Agent)
		if err != nil {
			return err
		}
		w := watch.New(watch.Options{Client: client, Say: say, Step: say, Last: func() time.Time { return time.Unix(0, last.Load()) }, Only: g.Name})
		if err := w.Own(func() (string, error) { return turn.ID, w.Start(ctx) }); err != nil {
			return err
		}
		say(fmt.Sprintf("agent %s has turn %d (%s)", g.Name, turn.Seq, turn.ID))
		watching, enough := context.WithCancel(ctx)
		told := make(chan struct{})
		go func() {
			defer close(told)
			_ = w.Run(watching)
		}()
		turn, err = await(ctx, client, turn)
		enough()
		<-told
		switch {
		case ctx.Err() != nil:
			fmt.Fprintf(a.stderr, "the turn goes on; to see it, type: drawbridge turn %s\n", turn.ID)
			return errNo
		case err != nil:
			return err
		case at.JSON:
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

// await waits until a turn has ended, or nobody can tell how. A bridge that is away is asked again.
func await(ctx context.Context, client *api.Client, t api.Turn) (api.Turn, error) {
	for {
		now, err := client.Turn(ctx, t.ID)
		switch {
		case err == nil && (bridge.TurnState(now.State).Over() || now.State == string(bridge.TurnUncertain)):
			return now, nil
		case err != nil && !bridge.Passing(err):
			return t, err
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return t, errors.Join(ctx.Err(), err)
		}
	}
}
