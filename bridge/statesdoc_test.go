package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pages"
)

// TestStatesAreDrawnAsTheyAre keeps docs/reference/states.md and the tables the same.
func TestStatesAreDrawnAsTheyAre(t *testing.T) {
	t.Parallel()
	pages.Same(t, "../docs/reference/states.md", statesPage())
}

func statesPage() string {
	var b strings.Builder
	b.WriteString("# States\n\nMade from the tables in `bridge/states.go`, which refuse every change that is not listed; a test keeps them the same.\n\n")
	b.WriteString("## Agent\n\nidle: nothing to do. busy: a turn is queued or under way. waiting: its turn is over and something it asked for is not. gated: too\n" +
		"many turns without a person, a tree that was stopped or whose budget is used up. done: a subagent with nothing left to do. failed: its\n" +
		"last turn failed, or it was never launched.\n\n")
	b.WriteString(diagram(bridge.AgentEdges))
	b.WriteString("\n## Turn\n\ndelivering is committed before the request leaves. uncertain: it may have arrived, and nobody here can tell.\n" +
		"A turn stays queued while its runtime is away: the cloud without a key, or a runtime that the configuration lost.\n" +
		"A running turn is queued again when the account of an agent on a person's machine is limited: it goes on when the limit is over, and it is not\n" +
		"failed. So is a turn that the machine turns out never to have said. A running turn becomes uncertain when its machine cannot tell whether the\n" +
		"agent got it; then `drawbridge resolve` with --told or --tell settles it.\n\n")
	b.WriteString(diagram(bridge.TurnEdges))
	b.WriteString("\n## Command\n\nsending is committed before the request leaves. confirmed: the agent is there. reported: the agent that asked has had a turn that\n" +
		"told it. uncertain: it may have happened. The bridge asks the relay's journal about an action until it knows; otherwise a\n" +
		"person settles it with `drawbridge resolve`.\n\n")
	b.WriteString(diagram(bridge.CommandEdges))
	return b.String()
}

func diagram[S ~string](edges map[S][]S) string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	var names []S
	for from := range edges {
		names = append(names, from)
	}
	slices.Sort(names)
	for _, from := range names {
		for _, to := range edges[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", from, to)
		}
		if len(edges[from]) == 0 {
			fmt.Fprintf(&b, "    %s --> [*]\n", from)
		}
	}
	b.WriteString("```\n")
	return b.String()
}
