package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
)

// guard makes sure that the step holds the locks of the rows that it changes. Rows
// come into a scene by many ways, a list or a name among them, that take no lock; to
// write back a row that another step may have changed since it was loaded would undo
// that. Then the step begins again, with the locks.
func (s *pgStep) guard(ctx context.Context) error {
	var owners []string // whose tree is not known here
	of := func(id bridge.AgentID) {
		if a := s.sc.Rows.Agents.Row(id); a != nil {
			s.wants(treeLock(a.Root))
		} else if id == bridge.User {
			s.wants(treeLock(id))
		} else if !slices.Contains(owners, string(id)) {
			owners = append(owners, string(id))
		}
	}
	s.guardAgents(of)
	s.guardTalk(of)
	if len(owners) > 0 { // an agent without a row has no lock
		rows, _ := s.conn.Query(ctx, treeOf+"id = ANY($1)", owners) // an error is that of the rows
		trees, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for trees: %w", err)
		}
		s.wants(trees...)
	}
	if len(s.busy) > 0 {
		return errBusy
	}
	return nil
}

// wants notes locks that the step does not hold.
func (s *pgStep) wants(names ...string) {
	for _, name := range names {
		if !s.held[name] {
			s.busy = append(s.busy, name)
		}
	}
}

// changes calls each with the rows of a table that were there and are changed or removed.
func changes[K ~string | ~int64 | ~int, V any](t *bridge.Table[K, V], each func(*V)) {
	for w := range t.Writes() {
		if w.Was != nil {
			each(w.Was)
		}
	}
}

func (s *pgStep) guardAgents(of func(bridge.AgentID)) {
	r := s.sc.Rows
	changes(&r.Agents, func(a *bridge.AgentRow) { s.wants(treeLock(a.Root)) })
	changes(&r.Turns, func(t *bridge.Turn) { of(t.Agent) })
	changes(&r.Commands, func(c *bridge.CommandRow) { of(c.Agent) })
	changes(&r.Notices, func(n *bridge.Notice) { of(n.Agent) })
	changes(&r.Trees, func(t *bridge.Tree) { s.wants(treeLock(t.Root)) })
	changes(&r.Tokens, func(t *bridge.DoorToken) { s.wants(lockNamed("token", string(t.ID))) })
	changes(&r.Relays, func(*bridge.Relay) { s.wants("relays") })
}

// guardTalk is guard for mail. A letter is under the lock of the agent that gets it, a message under its author's.
func (s *pgStep) guardTalk(of func(bridge.AgentID)) {
	r := s.sc.Rows
	conversation := func(id bridge.ConversationID) { s.wants(lockNamed("conversation", string(id))) }
	changes(&r.Messages, func(m *bridge.Message) { of(m.From) })
	changes(&r.Letters, func(l *bridge.Letter) { of(l.Agent) })
	changes(&r.Conversations, func(c *bridge.Conversation) { conversation(c.ID) })
	for w := range r.Members.Writes() { // who comes has a place behind the others, of whom there may be no more than so many
		if m := cmp.Or(w.Now, w.Was); !r.Conversations.Made(m.Conversation) {
			conversation(m.Conversation)
		}
	}
}
