package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/logs"
)

type approveCmd struct {
	Command []string `arg:"" help:"Approve these held commands. Write each as cmd_…@HASH, as drawbridge commands --state held shows it. On a terminal you may leave out @HASH; the program then asks you."`
	target
}

// Help shows an example.
func (approveCmd) Help() string {
	return "The program shows each command in full before it approves the command. On a terminal, it asks y/N for each id without a hash. Without a terminal, each id needs the hash of what you were shown. If one id lacks its hash, the program approves nothing.\n\n" +
		"The hash covers everything that your approval does. If any of that has changed, the bridge refuses the approval and says so. The bridge checks each command against the allowlist once more, and refuses a command that is not on the allowlist. If an agent asked for the same command several times, the bridge runs it once and closes the other requests.\n\n" +
		"Example:\n  drawbridge approve cmd_0123@5f3a0c… cmd_0456@77e1b2…"
}

// Run approves.
func (c approveCmd) Run(ctx context.Context, a app) error {
	screen, isPerson := a.terminal(!c.JSON)
	defer screen.Close()
	asked := make([]wanted, len(c.Command))
	for i, word := range c.Command {
		asked[i].id, asked[i].hash, _ = strings.Cut(word, "@")
		if asked[i].hash == "" && !isPerson {
			return usageError{fmt.Errorf("%s: nothing was approved; without a terminal each command needs the hash of what you were shown. Run `drawbridge commands --state held`, then approve %s@HASH", short(asked[i].id, 60), short(asked[i].id, 60))}
		}
	}
	return c.withClient(a, func(client *api.Client) error {
		d := decider{client: client, app: a, json: c.JSON, asker: asker{screen, bufio.NewReader(a.stdin)}}
		if len(asked) == 1 {
			return d.decide(ctx, asked[0])
		}
		return d.decideAll(ctx, asked)
	})
}

// wanted is a command that a person names, with the hash of what they were shown or "".
type wanted struct{ id, hash string }

// decider shows commands and takes a person's word on each.
type decider struct {
	client *api.Client
	app    app
	json   bool
	asker
}

// asker asks a person.
type asker struct {
	screen  io.Writer
	answers *bufio.Reader
}

// yes reports whether the person says yes. What is not a yes is a no, and so is the end of ctx.
func (a asker) yes(ctx context.Context, question string) bool {
	if _, err := io.WriteString(a.screen, question); err != nil {
		return false
	}
	line := make(chan string, 1)
	go func() { // a terminal's read cannot be ended; the process ends with it
		text, _ := a.answers.ReadString('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		return false
	case text := <-line:
		answer := strings.ToLower(strings.TrimSpace(text))
		return answer == "y" || answer == "yes"
	}
}

// decideAll goes on after a command that fails, and returns errNo when one did.
func (d decider) decideAll(ctx context.Context, asked []wanted) (failed error) {
	for _, w := range asked {
		if err := d.decide(ctx, w); ctx.Err() != nil {
			return err
		} else if err != nil && !errors.Is(err, errNo) {
			fmt.Fprintf(d.app.stderr, "drawbridge: %s: %s\n", short(w.id, 60), short(bridge.SafeMessage(err), 1000))
			failed = errNo
		}
	}
	return failed
}

// decide returns errNo when the person said no.
func (d decider) decide(ctx context.Context, w wanted) error {
	m, err := d.client.Command(ctx, w.id)
	if err != nil {
		return err
	}
	if m.Held != nil {
		if _, err := io.WriteString(d.screen, shown(m.Held.Shown)); err != nil {
			return err
		}
		if w.hash == "" {
			if w.hash, err = d.ask(ctx, m); err != nil {
				return err
			}
		}
	}
	if m, err = d.client.Approve(ctx, w.id, w.hash); err != nil {
		return err
	}
	return printDecision(d.app, d.json, "approved", m)
}

// ask returns the hash of what was shown when the person says yes to it. What is not a yes is a no.
func (d decider) ask(ctx context.Context, m api.Command) (string, error) {
	switch yes := d.asker.yes(ctx, fmt.Sprintf("Approve %s? [y/N] ", m.ID)); {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case yes:
		return m.Held.Hash, nil
	}
	if _, err := fmt.Fprintf(d.screen, "%s still waits; drawbridge deny %s refuses it\n", m.ID, m.ID); err != nil {
		return "", err
	}
	return "", errNo
}

// terminal returns where a person reads before they answer on standard input,
// and whether there is one. That is standard output, where it is a terminal and
// may be used, or else the controlling terminal. Without a person it is standard
// output or, where that may not be used, standard error.
func (a app) terminal(useOutput bool) (screen io.WriteCloser, isPerson bool) {
	switch reads := logs.IsTerminal(a.stdin); {
	case reads && useOutput && logs.IsTerminal(a.stdout):
		return open{a.stdout}, true
	case reads:
		if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
			return tty, true
		}
	}
	if useOutput {
		return open{a.stdout}, false
	}
	return open{a.stderr}, false
}

// open is a stream that its user leaves open.
type open struct{ io.Writer }

// Close does nothing.
func (open) Close() error { return nil }

// showHeld prints held commands whole: nobody should have to approve what was cut off.
func showHeld(a app, list api.CommandList) error {
	for _, m := range list.Commands {
		if m.Held == nil {
			return fmt.Errorf("the bridge is older than this program and cannot show the effect of approving %s; upgrade the bridge", short(m.ID, 60))
		}
		if _, err := fmt.Fprintln(a.stdout, shown(m.Held.Shown)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(a.stdout, "To approve one: drawbridge approve ID@HASH, with the ID@HASH of its first line. To refuse one: drawbridge deny ID"); err != nil {
		return err
	}
	return more(a, list.Next)
}
