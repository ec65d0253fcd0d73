package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/relay/runner/control"
)

// machineSays is "machine yes|no": a person at the relay's machine answers the question that is open there, or will be.
func machineSays(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || args[0] != "yes" && args[0] != "no" {
		ts.Fatalf("usage: machine yes|no")
	}
	client := control.NewClient(ts.MkAbs("."))
	deadline, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		open, err := client.Pending(context.Background())
		if err == nil && len(open) > 0 {
			ts.Check(client.Decide(context.Background(), open[0].ID, args[0] == "yes"))
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("nothing is pending: %v", err)
		case <-tick.C:
		}
	}
}
