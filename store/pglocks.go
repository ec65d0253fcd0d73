package store

import (
	"strings"

	"drawbridge/bridge"
)

// Steps that look at the same things wait for each other. What belongs to an agent
// is under the lock of its tree, so that trees go side by side; what belongs to no
// tree has locks of its own. A lock has a name, of which the server makes a number.
// Steps that wait for several wait in the order of the names.
const (
	lockName   = "SELECT CAST($1 AS TEXT) AS name"
	treeOf     = "SELECT 'tree ' || root AS name FROM agents WHERE "
	treeOfRoot = "SELECT 'tree ' || CAST($1 AS TEXT) AS name"
	takeLock   = "pg_advisory_xact_lock(hashtextextended(name, 0))"
	tryLock    = "pg_try_advisory_xact_lock(hashtextextended(name, 0))"
)

// capsLock is held by a step that holds a launch against the bounds of the whole
// bridge, from the count to the commit. By its name it is the last to wait for.
const capsLock = "whole bridge"

func treeLock(root bridge.AgentID) string { return "tree " + string(root) }

func lockNamed(parts ...string) string { return strings.Join(parts, " ") }

// lockOf returns a query for the name of the lock that a need is under, "" for none.
func lockOf(need bridge.Need) (key string, args []any) {
	byAgent := func(id bridge.AgentID) (string, []any) { return treeOf + "id = $1", []any{id} }
	switch n := need.(type) {
	case bridge.NeedStory:
		if n.Turn != "" {
			return treeOf + "id = (SELECT agent FROM turns WHERE id = $1)", []any{n.Turn}
		}
		if n.Command != "" {
			return treeOf + "id = (SELECT agent FROM commands WHERE id = $1)", []any{n.Command}
		}
		return byAgent(n.Agent)
	case bridge.NeedAgent:
		return byAgent(n.ID)
	case bridge.NeedNamed:
		return treeOfRoot, []any{n.Root}
	case bridge.NeedTree:
		return treeOfRoot, []any{n.Root}
	case bridge.NeedApproval:
		return treeOfRoot, []any{n.Root}
	case bridge.NeedYes:
		return treeOfRoot, []any{n.Root}
	case bridge.NeedAgents:
		if n.Root != "" {
			return treeOfRoot, []any{n.Root}
		}
	case bridge.NeedTurn:
		return treeOf + "id = (SELECT agent FROM turns WHERE id = $1)", []any{n.ID}
	case bridge.NeedTurns:
		return byAgent(n.Agent)
	case bridge.NeedOpenTurns:
		return byAgent(n.Agent)
	case bridge.NeedOpenTurnCount:
		return byAgent(n.Agent)
	case bridge.NeedInFlight:
		return byAgent(n.Agent)
	case bridge.NeedLastOver:
		return byAgent(n.Agent)
	case bridge.NeedCommand:
		return treeOf + "id = (SELECT agent FROM commands WHERE id = $1)", []any{n.ID}
	case bridge.NeedCommands:
		if n.Turn != "" {
			return treeOf + "id = (SELECT agent FROM turns WHERE id = $1)", []any{n.Turn}
		}
		return byAgent(n.Agent)
	case bridge.NeedOpenCommands:
		return byAgent(n.Agent)
	}
	if key, args := lockOfNotice(need); key != "" {
		return key, args
	}
	return lockOfOther(need)
}

func lockOfNotice(need bridge.Need) (key string, args []any) {
	byAgent := func(id bridge.AgentID) (string, []any) { return treeOf + "id = $1", []any{id} }
	switch n := need.(type) {
	case bridge.NeedNotice:
		return treeOf + "id = (SELECT agent FROM notices WHERE id = $1)", []any{n.ID}
	case bridge.NeedWaiting:
		return byAgent(n.Agent)
	case bridge.NeedCarried:
		return treeOf + "id = (SELECT agent FROM turns WHERE id = $1)", []any{n.Turn}
	case bridge.NeedRunEnd:
		return byAgent(n.Op)
	case bridge.NeedCompletions:
		return byAgent(n.Op)
	case bridge.NeedCompletion:
		return treeOf + "id = (SELECT op FROM completions WHERE id = $1)", []any{n.ID}
	case bridge.NeedDelivery:
		return byAgent(n.Op)
	case bridge.NeedEchoes:
		return byAgent(n.Agent)
	case bridge.NeedOldEchoes:
		return byAgent(n.Agent)
	case bridge.NeedTold:
		return byAgent(n.Agent)
	case bridge.NeedOnce:
		return byAgent(n.Agent)
	case bridge.NeedWatch:
		return byAgent(n.Agent)
	case bridge.NeedBlock:
		return byAgent(n.Agent)
	case bridge.NeedBlocks:
		return byAgent(n.Agent)
	case bridge.NeedMemoryBytes:
		return byAgent(n.Agent)
	case bridge.NeedLastPassage:
		return byAgent(n.Agent)
	case bridge.NeedTokens:
		return byAgent(n.Agent)
	case bridge.NeedRunCall:
		return treeOf + "id = (SELECT agent FROM turns WHERE id = $1)", []any{n.Turn}
	case bridge.NeedLastRunMessage:
		return treeOf + "id = (SELECT agent FROM turns WHERE id = $1)", []any{n.Turn}
	}
	return "", nil
}

func lockOfOther(need bridge.Need) (key string, args []any) {
	named := func(parts ...string) (string, []any) { return lockName, []any{lockNamed(parts...)} }
	switch n := need.(type) {
	case bridge.NeedRelay, bridge.NeedRelays, bridge.NeedOffers, bridge.NeedJoin, bridge.NeedUnusedJoins, bridge.NeedRelayKeys, bridge.NeedOldRelayRows,
		bridge.NeedAskedBy, bridge.NeedMachineQuestion:
		return named("relays")
	case bridge.NeedTie:
		return named("tie", n.Request)
	case bridge.NeedCall:
		return named("call", n.ID)
	case bridge.NeedToken:
		return named("token", string(n.ID))
	case bridge.NeedTokenHash:
		return named("tokens")
	case bridge.NeedPassage:
		return named("passage", string(n.ID))
	case bridge.NeedRestored:
		return named("restored")
	case bridge.NeedLaunches:
		return named(capsLock)
	case bridge.NeedOpenSubagents:
		if n.Root == "" {
			return named(capsLock)
		}
	}
	return "", nil
}
