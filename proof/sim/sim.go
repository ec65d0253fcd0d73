// Package sim plays the whole story in one goroutine and in virtual time: real
// engines on a store in memory, with a cloud, a relay and a user of its own, and
// every fault that a seed throws at them. The cloud and the relay count what took
// effect, and how often; the bridge does not. The package does not stand in for
// the API (package cloudsim does) and tests no wire, no SQL and no parallelism.
//
// Who plays: world (the turns of a play), process (one replica's engine) with
// calls and chaos (what goes wrong around it), cloud and script (agents and what
// they write), relay, user and operator. In a third of the plays, those of seeds
// that three divides, laptop and hosted are two relays with agents, and questions
// what those agents ask a person; the Runtime of package hosted names their turns.
// What they share: stage (time, dice, faults, store), package timeline, faults,
// rules (the allowlists) and coverage. Who judges: witness sees each commit, truth is what the vendor has, and oracle,
// trees, joins, results and judge hold the bridge against both. The oracle never
// takes the bridge's record as proof of what happened.
//
// Rule of thumb: the same seed plays the same play to the last byte, so a failure
// is a number that anybody can run again. Each part takes chance and time from the
// stage alone.
package sim

import (
	"context"
	"fmt"
	"strings"
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
	Coverage Coverage
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
	return Report{Seed: seed, Failures: w.failures, Hash: w.trace.Hash, Trace: w.trace.Lines, Steps: w.steps, Coverage: w.cover}
}
