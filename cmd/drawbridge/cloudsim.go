package main

import (
	"context"
	"fmt"
	"time"

	"drawbridge/cloudagents/cloudsim"
)

type cloudsimCmd struct {
	Listen string `help:"Address to listen on; loopback only, port 0 for a free one." default:"127.0.0.1:7411"`
	Script string `help:"What agents answer, and which faults happen (YAML). Without one every agent answers Done." placeholder:"FILE" type:"existingfile"`
}

// Help shows an example.
func (cloudsimCmd) Help() string {
	return "Serves v0 and v1 of the API on this machine, with state, streams, signed webhooks and scripted agents. The API key that it accepts is " + cloudsim.DefaultKey + ", or those under keys: in the script.\n\nExample:\n  drawbridge cloudsim --listen 127.0.0.1:7411 --script story.yaml\nand for the bridge beside it, in bridge.yaml:\n  cursor: { url: \"http://127.0.0.1:7411\", key: \"${CURSOR_API_KEY}\" }\nwith CURSOR_API_KEY=" + cloudsim.DefaultKey + " in the environment"
}

// Run serves until the process is told to stop.
func (c cloudsimCmd) Run(ctx context.Context, a app) error {
	var opts cloudsim.Options
	if c.Script != "" {
		script, err := cloudsim.LoadScript(c.Script)
		if err != nil {
			return usageError{err}
		}
		opts.Script = script
	}
	sim, err := cloudsim.New(opts)
	if err != nil {
		return usageError{err}
	}
	server := cloudsim.NewServer(sim, c.Listen)
	if err := server.Start(); err != nil {
		return usageError{fmt.Errorf("start the stand-in: %w", err)}
	}
	fmt.Fprintf(a.stderr, "cloudsim ready %s\n", server.URL())
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Stop(stop)
}
