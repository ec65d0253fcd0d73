package sim

import (
	"errors"

	"drawbridge/bridge"
)

// tree returns what the bridge has recorded of a tree.
func (s *stage) tree(root bridge.AgentID) (t bridge.Tree) {
	s.look(func(tx *bridge.Scene) (err error) {
		t, err = tx.Tree(root)
		return err
	})
	return t
}

// roots returns the agents that the user launched.
func (s *stage) roots() (all []bridge.Agent) {
	for _, a := range s.agents() {
		if a.Parent == "" {
			all = append(all, a)
		}
	}
	return all
}

// look reads the store as it is, past every process. An error of fn is a failure of the play.
func (s *stage) look(fn func(*bridge.Scene) error) {
	if err := s.disk.Open().View(s.ctx, fn); err != nil {
		s.fail("look at the store: %v", err)
	}
}

// everything is a limit of a look-up that no play reaches.
const everything = 1 << 20

// agents returns all agents of the bridge, newest first.
func (s *stage) agents() (all []bridge.Agent) {
	s.look(func(tx *bridge.Scene) (err error) {
		all, err = tx.Agents(bridge.AgentFilter{Limit: everything})
		return err
	})
	return all
}

// agent returns an agent, or none at all.
func (s *stage) agent(id bridge.AgentID) (a bridge.Agent) {
	s.look(func(tx *bridge.Scene) (err error) {
		if a, err = tx.Agent(id); errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		return err
	})
	return a
}

// commands returns the commands in a state, or all for "", newest first.
func (s *stage) commands(in bridge.CommandState) (all []bridge.Command) {
	s.look(func(tx *bridge.Scene) (err error) {
		all, err = tx.Commands(bridge.CommandFilter{State: in, Limit: everything})
		return err
	})
	return all
}

// turns returns the turns in a state, or all for "", newest first.
func (s *stage) turns(in bridge.TurnState) (all []bridge.Turn) {
	s.look(func(tx *bridge.Scene) (err error) {
		all, err = tx.Turns(bridge.TurnFilter{State: in, Limit: everything})
		return err
	})
	return all
}
