package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drawbridge/bridge"
)

// Edge is one change of state of one noun.
type Edge struct{ Noun, From, To string }

// String is "turn queued → delivering".
func (e Edge) String() string { return e.Noun + " " + e.From + " → " + e.To }

// Coverage counts what seeds have reached: faults that struck, edges that were
// committed, and happenings that put a promise to the test. It judges no play.
type Coverage struct {
	Faults map[Fault]int
	Edges  map[Edge]int
	// Happenings counts what the user, the agents and the cloud did, by a word of its own.
	Happenings map[string]int
}

// newCoverage returns a Coverage of nothing.
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

// needed are happenings without which a promise is not put to the test.
var needed = []string{
	"a stop met a call on its way", "a turn was tried again", "user resumes a tree", "user overtakes what is only news", "user raises the budget",
	"joined results, all there", "joined results with some missing", "joined results at the deadline", "budget that cannot be kept",
	"relay: the journal was asked and knew",
	"hosted: ended answered", "hosted: ended refused", "hosted: ended limited", "hosted: ended stopped", "hosted: ended hung", "hosted: ended crashed",
	"hosted: ended asking", "hosted: ended session_gone", "hosted: ended login_missing",
	"hosted: the relay was killed in mid-turn", "hosted: the relay was killed while an agent asked", "hosted: the relay was killed while a turn waited",
	"hosted: a person says that the agent got an uncertain turn: true", "hosted: a turn waited for a slot", "hosted: an agent lost a prompt", "hosted: an agent went on with its turn", "hosted: the replay could not tell",
	"hosted: the answer was read from the replay", "hosted: the replay lacked a turn that was said", "user moves an agent", "hosted: a moved agent began its session",
	"hosted: a question is answered given at the bridge", "hosted: a question is answered refused at the bridge", "hosted: a question is answered yes at the bridge",
	"hosted: a question is answered no at the bridge", "hosted: a question is answered given at the machine", "hosted: a question is answered refused at the machine",
	"hosted: a question is answered yes at the machine", "hosted: a question is answered no at the machine",
	"budget of launches used up", "budget of open used up", "budget of turns used up", "budget of tokens used up", "budget of cost_usd used up",
}

// Missing returns, in words, what no seed has reached: kinds of faults, edges of
// the state machines, and what puts a promise to the test. An edge that nothing takes does not belong in its table.
func (c Coverage) Missing() []string {
	var missing []string
	for _, f := range slices.Concat(allFaults, hostedFaults) {
		if c.Faults[f] == 0 {
			missing = append(missing, "no seed had the fault: "+string(f))
		}
	}
	for _, e := range allEdges() {
		if c.Edges[e] == 0 {
			missing = append(missing, "no seed went "+e.String())
		}
	}
	for _, h := range needed {
		if c.Happenings[h] == 0 {
			missing = append(missing, "no seed had: "+h)
		}
	}
	return missing
}

// String is a table of all counts.
func (c Coverage) String() string {
	var b strings.Builder
	for _, f := range slices.Concat(allFaults, hostedFaults) {
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

// allEdges returns every edge of the three state machines, in a fixed order.
func allEdges() []Edge {
	var all []Edge
	all = append(all, edgesOf("agent", bridge.AgentEdges)...)
	all = append(all, edgesOf("turn", bridge.TurnEdges)...)
	return append(all, edgesOf("command", bridge.CommandEdges)...)
}

func edgesOf[S ~string](noun string, table map[S][]S) []Edge {
	var all []Edge
	for from, tos := range table {
		for _, to := range tos {
			all = append(all, Edge{noun, string(from), string(to)})
		}
	}
	slices.SortFunc(all, func(a, b Edge) int { return cmp.Compare(a.String(), b.String()) })
	return all
}
