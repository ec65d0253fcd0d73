package store

import (
	"strings"

	"drawbridge/bridge"
)

// Steps that look at the same things wait for each other. What belongs to an agent
// is under the lock of its tree, so that trees go side by side; what belongs to no
// tree has locks of its own. A lock has a name, and the server makes a number of it.
// Steps that wait for several wait in the order of the names.
const (
	lockName      = "SELECT CAST($1 AS TEXT) AS name"
	treeOf        = "SELECT 'tree ' || root AS name FROM agents WHERE "
	treeOfAgent   = treeOf + "id = $1"
	treeOfTurn    = treeOf + "id = (SELECT agent FROM turns WHERE id = $1)"
	treeOfCommand = treeOf + "id = (SELECT agent FROM commands WHERE id = $1)"
	treeOfRoot    = "SELECT 'tree ' || CAST($1 AS TEXT) AS name"
	takeLock      = "pg_advisory_xact_lock(hashtextextended(name, 0))"
	tryLock       = "pg_try_advisory_xact_lock(hashtextextended(name, 0))"
)

// capsLock is held by a step that holds a launch against the bounds of the whole
// bridge, from the count to the commit. By its name it is the last to wait for.
const capsLock = "whole bridge"

func treeLock(root bridge.AgentID) string { return "tree " + string(root) }

func lockNamed(parts ...string) string { return strings.Join(parts, " ") }

// lockOf returns a query for the name of the lock that a need is under, "" for none.
func lockOf(need bridge.Need) (key string, args []any) {
	switch o := bridge.OwnerOf(need); {
	case o.Root != "":
		return treeOfRoot, []any{o.Root}
	case o.Turn != "":
		return treeOfTurn, []any{o.Turn}
	case o.Command != "":
		return treeOfCommand, []any{o.Command}
	case o.Agent != "":
		return treeOfAgent, []any{o.Agent}
	}
	switch n := need.(type) {
	case bridge.NeedNotice:
		return treeOf + "id = (SELECT agent FROM notices WHERE id = $1)", []any{n.ID}
	case bridge.NeedCompletion:
		return treeOf + "id = (SELECT op FROM completions WHERE id = $1)", []any{n.ID}
	}
	return lockOfOther(need)
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
