package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"drawbridge/api"
	"drawbridge/cmd/drawbridge/internal/watch"
)

type watchCmd struct {
	Agent string `arg:"" optional:"" help:"Tell of this agent only."`
	connection
}

// Help shows examples.
func (watchCmd) Help() string {
	return "The command tells in lines what agents do, until Ctrl-C: who gets a turn and why, answers, commands, what fails and what waits for you. For agents at a relay it also shows each line that an agent says, and each tool that it uses. While an agent is busy, a line comes at least every ten seconds.\n\nExamples:\n  drawbridge watch\n  drawbridge watch my-app-opencode"
}

// Run tells what happens until ctx ends.
func (c watchCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		w := watcher(client, a.stdout, c.Agent)
		if c.Agent != "" {
			if _, err := client.Agent(ctx, c.Agent); err != nil {
				return err
			}
		}
		if err := w.Start(ctx); err != nil {
			return err
		}
		if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// watcher tells of one agent, or of all, in lines that begin with the time.
func watcher(client *api.Client, w io.Writer, only string) *watch.Watcher {
	var last atomic.Int64
	say := func(line string) {
		now := time.Now()
		last.Store(now.UnixNano())
		fmt.Fprintf(w, "%s %s\n", now.Format(time.TimeOnly), shown(line))
	}
	return watch.New(watch.Options{Client: client, Say: say, Step: say, Last: func() time.Time { return time.Unix(0, last.Load()) }, Only: only})
}
