package bridge

import (
	"errors"
	"fmt"

	"drawbridge/parser"
	"drawbridge/policy"
)

// Lineage returns the names and roles of an agent's ancestors and its own, root
// first. Roles count besides names, so that whoever launches an orchestrator
// under another name does not get it out of its narrowing.
func (s *Scene) Lineage(a Agent) ([]string, error) {
	names := a.Names()
	for a.Parent != "" {
		var err error
		if a, err = s.Agent(a.Parent); err != nil {
			return nil, fmt.Errorf("load parent: %w", err)
		}
		names = append(a.Names(), names...)
	}
	return names, nil
}

// TreeUsage is what a tree has used, as the policy wants it, and the tree. Launches
// and turns are counted in the transaction that grants them, so that nothing
// slips through between asking and counting.
func (s *Scene) TreeUsage(root AgentID) (policy.TreeUsage, Tree, error) {
	tree, err := s.Tree(root)
	if err != nil {
		return policy.TreeUsage{}, tree, err
	}
	open, err := s.CountOpenSubagents(root)
	return policy.TreeUsage{Launches: tree.Launches, Open: open, Turns: tree.Turns, Tokens: tree.Tokens, CostMicros: tree.CostMicros, Unmetered: tree.Unmetered}, tree, err
}

// EachAgent calls fn for every agent of a tree, newest first, until one call fails.
func (s *Scene) EachAgent(root AgentID, fn func(Agent) error) error {
	const page = 500
	f := AgentFilter{Root: root, Limit: page}
	for {
		agents, err := s.Agents(f)
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

// UnmeteredAgents returns up to limit agents of a tree whose Runtime did
// not tell what they used, newest first. The v0 API never does.
func (s *Scene) UnmeteredAgents(root AgentID, limit int) (found []Agent, err error) {
	err = s.EachAgent(root, func(a Agent) error {
		if a.Unmetered && a.API != APIv0 && len(found) < limit {
			found = append(found, a)
		}
		return nil
	})
	return found, err
}

// Family is what one turn launched: all of it, what has not ended, and how many
// launches wait for a person.
type Family struct {
	Launched, Open []Command
	Held           int
}

// FamilyOf looks up what a turn launched.
func (s *Scene) FamilyOf(turn TurnID) (f Family, err error) {
	all, err := s.Commands(CommandFilter{Turn: turn, Limit: parser.MaxCommands})
	if err != nil {
		return f, err
	}
	for _, m := range all {
		switch {
		case m.Parsed.Verb != parser.Subagent:
		case m.State == CommandHeld:
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
func (s *Scene) SaidAgain(failed Turn) (Turn, error) {
	open, err := s.OpenTurn(failed.Agent)
	switch {
	case errors.Is(err, ErrNoRow):
		return Turn{}, nil
	case err != nil:
		return Turn{}, err
	case open.Says(failed.Text) && open.Seq > failed.Seq:
		return open, nil // it is being said
	}
	queued, err := s.Turns(TurnFilter{Agent: failed.Agent, State: TurnQueued, Limit: 100})
	if err != nil {
		return Turn{}, err
	}
	for _, t := range queued {
		if failed.Text == "" || (t.Says(failed.Text) && t.Seq > failed.Seq) {
			return t, nil
		}
	}
	return Turn{}, nil
}
