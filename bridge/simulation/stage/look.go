package stage

import (
	"errors"

	"drawbridge/bridge"
)

// Tree returns what the bridge has recorded of a tree.
func (s *Stage) Tree(root bridge.AgentID) (t bridge.Tree) {
	s.Look(func(tx bridge.Tx) (err error) {
		t, err = tx.Tree(root)
		return err
	})
	return t
}

// Roots returns the agents that the user launched.
func (s *Stage) Roots() (all []bridge.Agent) {
	for _, a := range s.Agents() {
		if a.Parent == "" {
			all = append(all, a)
		}
	}
	return all
}

// Look reads the store as it is, past every process. An error of fn is a failure of the play.
func (s *Stage) Look(fn func(bridge.Tx) error) {
	if err := s.Disk.Open().View(s.Ctx, fn); err != nil {
		s.Fail("look at the store: %v", err)
	}
}

// Everything is a limit of a look-up that no play reaches.
const Everything = 1 << 20

// Agents returns all agents of the bridge, newest first.
func (s *Stage) Agents() (all []bridge.Agent) {
	s.Look(func(tx bridge.Tx) (err error) {
		all, err = tx.Agents(bridge.AgentFilter{Limit: Everything})
		return err
	})
	return all
}

// Agent returns an agent, or none at all.
func (s *Stage) Agent(id bridge.AgentID) (a bridge.Agent) {
	s.Look(func(tx bridge.Tx) (err error) {
		if a, err = tx.Agent(id); errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		return err
	})
	return a
}

// Commands returns the commands in a state, or all for "", newest first.
func (s *Stage) Commands(in bridge.CommandState) (all []bridge.Command) {
	s.Look(func(tx bridge.Tx) (err error) {
		all, err = tx.Commands(bridge.CommandFilter{State: in, Limit: Everything})
		return err
	})
	return all
}

// Turns returns the turns in a state, or all for "", newest first.
func (s *Stage) Turns(in bridge.TurnState) (all []bridge.Turn) {
	s.Look(func(tx bridge.Tx) (err error) {
		all, err = tx.Turns(bridge.TurnFilter{State: in, Limit: Everything})
		return err
	})
	return all
}
