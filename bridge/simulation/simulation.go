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
	"maps"
	"slices"
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
	return Report{Seed: seed, Failures: w.failures, Hash: w.trace.hash, Trace: w.trace.lines, Steps: w.steps, Coverage: w.cover}
}

// Edge is one change of state of one noun.
type Edge struct{ Noun, From, To string }

// String is "turn queued → delivering".
func (e Edge) String() string { return e.Noun + " " + e.From + " → " + e.To }

// Coverage counts what seeds have reached: faults that struck and edges that were committed.
type Coverage struct {
	Faults map[Fault]int
	Edges  map[Edge]int
	// Happenings counts what the user, the agents and the cloud did, by a word of its own.
	Happenings map[string]int
}

func newCoverage() Coverage {
	return Coverage{Faults: map[Fault]int{}, Edges: map[Edge]int{}, Happenings: map[string]int{}}
}

// Add adds what another seed reached. Not for concurrent use.
func (c *Coverage) Add(other Coverage) {
	if c.Faults == nil {
		*c = newCoverage()
	}
	addTo(c.Faults, other.Faults)
	addTo(c.Edges, other.Edges)
	addTo(c.Happenings, other.Happenings)
}

func addTo[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

// Missing returns, in words, what no seed has reached: kinds of faults, and
// edges of the state machines. An edge that nothing takes does not belong in its table.
func (c Coverage) Missing() []string {
	var missing []string
	for _, f := range Faults {
		if c.Faults[f] == 0 {
			missing = append(missing, "no seed had the fault: "+string(f))
		}
	}
	for _, e := range allEdges() {
		if c.Edges[e] == 0 {
			missing = append(missing, "no seed went "+e.String())
		}
	}
	return missing
}

// String is a table of all counts.
func (c Coverage) String() string {
	var b strings.Builder
	for _, f := range Faults {
		fmt.Fprintf(&b, "%8d  %s\n", c.Faults[f], f)
	}
	for _, e := range allEdges() {
		fmt.Fprintf(&b, "%8d  %s\n", c.Edges[e], e)
	}
	for _, h := range slices.Sorted(maps.Keys(c.Happenings)) {
		fmt.Fprintf(&b, "%8d  %s\n", c.Happenings[h], h)
	}
	return b.String()
}
