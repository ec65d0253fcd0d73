// Package kin looks up who belongs to whom: an agent's ancestors, the tree
// under a root, what one turn launched. It changes nothing. Rule of thumb:
// every look-up is of the transaction that it is given, so that what is decided
// on it holds when that commits.
package kin

import (
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/reading"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Lineage returns the names and roles of an agent's ancestors and its own, root
// first. Roles count besides names, so that whoever launches an orchestrator
// under another name does not get it out of its narrowing.
func Lineage(tx *bridge.Scene, a bridge.Agent) ([]string, error) {
	names := a.Names()
	for a.Parent != "" {
		var err error
		if a, err = tx.Agent(a.Parent); err != nil {
			return nil, fmt.Errorf("load parent: %w", err)
		}
		names = append(a.Names(), names...)
	}
	return names, nil
}

// Usage is what a tree has used, as the policy wants it, and the tree. Launches
// and turns are counted in the transaction that grants them, so that nothing
// slips through between asking and counting.
func Usage(tx *bridge.Scene, root bridge.AgentID) (policy.TreeUsage, bridge.Tree, error) {
	tree, err := tx.Tree(root)
	if err != nil {
		return policy.TreeUsage{}, tree, err
	}
	open, err := tx.CountOpenSubagents(root)
	return policy.TreeUsage{Launches: tree.Launches, Open: open, Turns: tree.Turns, Tokens: tree.Tokens, CostMicros: tree.CostMicros, Unmetered: tree.Unmetered}, tree, err
}

// Each calls fn for every agent of a tree, newest first, until one call fails.
func Each(tx *bridge.Scene, root bridge.AgentID, fn func(bridge.Agent) error) error {
	const page = 500
	f := bridge.AgentFilter{Root: root, Limit: page}
	for {
		agents, err := tx.Agents(f)
		if err != nil {
			return err
		}
		for _, a := range agents {
			if err := fn(a); err != nil {
				return err
			}
			f.Before = a.ID
		}
		if len(agents) < page {
			return nil
		}
	}
}

// Unmetered returns up to limit agents of a tree of which their Runtime did
// not tell what they used, newest first. The v0 API never does.
func Unmetered(tx *bridge.Scene, root bridge.AgentID, limit int) (found []bridge.Agent, err error) {
	err = Each(tx, root, func(a bridge.Agent) error {
		if a.Unmetered && a.API != bridge.APIv0 && len(found) < limit {
			found = append(found, a)
		}
		return nil
	})
	return found, err
}

// Family is what one turn launched: all of it, what has not ended, and how many
// launches wait for a person.
type Family struct {
	Launched, Open []bridge.Command
	Held           int
}

// FamilyOf looks up what a turn launched.
func FamilyOf(tx *bridge.Scene, turn bridge.TurnID) (f Family, err error) {
	all, err := tx.Commands(bridge.CommandFilter{Turn: turn, Limit: reading.MaxCommands})
	if err != nil {
		return f, err
	}
	for _, m := range all {
		switch {
		case m.Parsed.Verb != parser.Subagent:
		case m.State == bridge.CommandHeld:
			f.Held++
		case m.Child != "":
			f.Launched = append(f.Launched, m)
			if m.State.Open() {
				f.Open = append(f.Open, m)
			}
		}
	}
	return f, nil
}

// SaidAgain returns the open turn that says the same as one that failed, or a
// queued one that takes along what that carried; the zero turn when there is none.
func SaidAgain(tx *bridge.Scene, failed bridge.Turn) (bridge.Turn, error) {
	open, err := tx.OpenTurn(failed.Agent)
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return bridge.Turn{}, nil
	case err != nil:
		return bridge.Turn{}, err
	case open.Says(failed.Text) && open.Seq > failed.Seq:
		return open, nil // it is being said
	}
	queued, err := tx.Turns(bridge.TurnFilter{Agent: failed.Agent, State: bridge.TurnQueued, Limit: 100})
	if err != nil {
		return bridge.Turn{}, err
	}
	for _, t := range queued {
		if failed.Text == "" || (t.Says(failed.Text) && t.Seq > failed.Seq) {
			return t, nil
		}
	}
	return bridge.Turn{}, nil
}
