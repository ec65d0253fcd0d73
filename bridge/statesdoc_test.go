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
	b.WriteString("## Agent\n\n| state | means |\n|---|---|\n| idle | the agent has nothing to do |\n| busy | a turn of the agent is queued or under way |\n" +
		"| waiting | its turn is over, and something that it asked for is not |\n" +
		"| gated | it had too many turns without a person, or its tree was stopped or has used up its budget |\n" +
		"| done | it is a subagent with nothing left to do |\n| failed | its last turn failed, or it was never launched |\n\n")
	b.WriteString(diagram(bridge.AgentEdges))
	b.WriteString("\n## Turn\n\nThe bridge commits the state delivering before the request leaves. A turn is uncertain if the request may have arrived and the bridge cannot tell.\n" +
		"A turn stays queued while its runtime is away: the cloud without a key, or a runtime that the configuration lost.\n" +
		"If the account of an agent on a person's machine is limited, a running turn is queued again. It has not failed, and goes on when the limit is over.\n" +
		"A running turn is also queued again if the machine turns out never to have given it to the agent. A running turn becomes uncertain if its machine\n" +
		"cannot tell whether the agent got it. Then `drawbridge give-up` or `drawbridge say-again` settles it.\n" +
		"A failed turn of an agent at a relay is queued again when a person says `drawbridge continue`.\n\n")
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
