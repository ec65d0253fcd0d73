// Package simulation plays the whole story in one goroutine and in virtual time:
// real engines on a store in memory, with a cloud, a relay and a user of its own,
// and with every fault that a seed throws at them. What was effected, and how
// often, is counted by the cloud and the relay and not by the bridge. It is no
// stand-in for the API (package cloudsim is) and tests no wire, no SQL and no
// parallelism. Rule of thumb: the same seed plays the same play to the last
// byte, so a failure is a number that anybody can run again.
package simulation

import (
	"context"
	"fmt"
	"strings"

	"drawbridge/bridge/simulation/coverage"
)

// Config says how to play a seed.
type Config struct {
	// Trace keeps the lines of what happened; without it only their hash is kept.
	Trace bool
	// Calm plays without any fault.
	Calm bool
}

// Report is what came of one seed.
type Report struct {
	Seed uint64
	// Failures are the promises that were broken, in words; empty is what is hoped for.
	Failures []string
	// Hash is of everything that happened, in order. It is the same for the same seed and build.
	Hash uint64
	// Trace is empty unless it was asked for.
	Trace []string
	// Steps counts the works that engines handled.
	Steps    int
	Coverage coverage.Coverage
}

// String is the failures of a seed and how to play it again.
func (r Report) String() string {
	return fmt.Sprintf("seed %d: %s", r.Seed, strings.Join(r.Failures, "; "))
}

// Run plays one seed to its end. It stops early, with a failure, when ctx ends.
// Safe for concurrent use.
func Run(ctx context.Context, seed uint64, c Config) Report {
	w := newWorld(ctx, seed, c)
	w.play()
	return Report{Seed: seed, Failures: w.Failures, Hash: w.Trace.Hash, Trace: w.Trace.Lines, Steps: w.steps, Coverage: w.Cover}
}
