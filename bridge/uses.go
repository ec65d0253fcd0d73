package bridge

import (
	"cmp"
	"slices"
	"time"

	"drawbridge/parser"
)

// Use is what an agent, or a tree of agents, asked for, and what came of it, counted: a launch on a repository, or an action.
type Use struct {
	// By is the agent, or the root of the tree. It has its ID, Name, Role and Parent, and nothing else.
	By   Agent
	Verb parser.Verb
	// Target is the canonical repository or the action id.
	Target string
	// State is CommandHeld for what waits, CommandRefused for what did not pass, and CommandGranted for everything else.
	State CommandState
	Count int
	Last  time.Time
}

// NeedUses is what agents asked for since a time. The store answers with a []Use, the latest use first, at most Limit of them.
// Commands without a target are left out, such as those over a cap. Trees counts the agents of a tree together.
type NeedUses struct {
	needs
	Since time.Time
	Trees bool
	Limit int
}

// Uses lists what each agent asked for since a time, or what each tree of agents did, the latest first, at most limit of them. Commands of the
// step itself are not among them.
func (s *Scene) Uses(since time.Time, trees bool, limit int) ([]Use, error) {
	n := NeedUses{Since: stamp(since), Trees: trees, Limit: limit}
	if guessed, err := s.guess(n); guessed || err != nil {
		return nil, err
	}
	if s.whole {
		return s.usesOfRows(n), nil
	}
	all, _ := s.known[n].answer.([]Use)
	return all, nil
}

// usesOfRows is Uses by whole commands.
func (s *Scene) usesOfRows(n NeedUses) []Use {
	var all []Use
	for c := range s.Rows.Commands.All() {
		if c.CreatedAt.Before(n.Since) || c.Canonical == "" || c.Parsed.Verb != parser.Subagent && c.Parsed.Verb != parser.LocalAction {
			continue
		}
		by := s.Rows.Agents.Row(c.Agent)
		if n.Trees {
			by = s.Rows.Agents.Row(by.Root)
		}
		use := Use{By: Agent{ID: by.ID, Name: by.Name, Role: by.Role, Parent: by.Parent}, Verb: c.Parsed.Verb, Target: c.Canonical, State: CommandGranted}
		switch cmp.Or(c.Ended, c.State) {
		case CommandHeld, CommandRefused:
			use.State = cmp.Or(c.Ended, c.State)
		}
		at := slices.IndexFunc(all, func(u Use) bool {
			return u.By.ID == use.By.ID && u.Verb == use.Verb && u.Target == use.Target && u.State == use.State
		})
		if at < 0 {
			all, at = append(all, use), len(all)
		}
		all[at].Count++
		if c.CreatedAt.After(all[at].Last) {
			all[at].Last = c.CreatedAt
		}
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.By.ID, b.By.ID), cmp.Compare(a.Target, b.Target), cmp.Compare(a.State, b.State))
	})
	return all[:min(len(all), n.Limit)]
}
