// Package moving knows what a move of an agent to another Runtime is: when it may be, how the agent's row says that it has no session
// there yet, and the transcript with which that session begins. It records nothing and calls nobody; the engine does. Rule of thumb: a
// move launches nothing, and the next turn does.
package moving

import (
	"strings"

	"drawbridge/bridge"
)

// Event says that the operator moved an agent to another Runtime, from where and to where.
const Event = "moved"

// Prefix begins the id of a move. No Runtime gives a run such an id.
const Prefix = "mov_"

// Is reports whether an agent was moved to its Runtime and has no session there yet. Its next turn begins one. Until then LastRun holds the
// id of the move.
func Is(a bridge.Agent) bool { return a.External == "" && strings.HasPrefix(a.LastRun, Prefix) }

// To takes an agent to a Runtime without a session. move is a new id with Prefix.
func To(a *bridge.Agent, runtime, move string) {
	a.Runtime, a.API, a.External, a.URL, a.LastRun = runtime, "", "", "", move
}

// SessionID is the id under which an agent's next launch makes its external agent. A launch that is repeated gets the same one, and the
// launch after another move gets another one.
func SessionID(a bridge.Agent) string {
	if Is(a) {
		return bridge.ExternalID(a.OpKey + "|" + a.LastRun)
	}
	return bridge.ExternalID(a.OpKey)
}
