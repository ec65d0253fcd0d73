package store

import (
	"context"
	"slices"

	"drawbridge/bridge"
)

// guard makes sure that the step holds the locks of the rows that it changes. Rows
// come into a scene by many ways, a list or a name among them, that take no lock;
// whoever writes back a row that another step may have changed since it was loaded
// would undo that. Then the step begins again, with the locks.
func (s *pgStep) guard(ctx context.Context) error {
	w := writeLocks{sc: s.sc, names: map[string]bool{}, owners: map[bridge.AgentID]bool{}}
	w.agents()
	w.talk()
	if err := s.treesOf(ctx, &w); err != nil {
		return err
	}
	for name := range w.names {
		if !s.held[name] {
			s.busy = append(s.busy, name)
		}
	}
	if len(s.busy) > 0 {
		return errBusy
	}
	return nil
}

// treesOf names the trees of owners that the step has not loaded. Who is in no tree has no lock.
func (s *pgStep) treesOf(ctx context.Context, w *writeLocks) error {
	if len(w.owners) == 0 || s.conn == nil {
		return nil
	}
	ids := make([]string, 0, len(w.owners))
	for id := range w.owners {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	rows, err := s.conn.Query(ctx, treeOf+"id = ANY($1)", ids)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		w.names[name] = true
	}
	return rows.Err()
}

// writeLocks collects the locks that the writes of a step need.
type writeLocks struct {
	sc    *bridge.Scene
	names map[string]bool
	// owners are agents whose tree is not known here.
	owners map[bridge.AgentID]bool
}

// of notes that a row of an agent is changed.
func (w *writeLocks) of(id bridge.AgentID) {
	switch a := w.sc.Rows.Agents.Row(id); {
	case id == bridge.User:
		w.names[treeLock(id)] = true
	case a != nil:
		w.names[treeLock(a.Root)] = true
	default:
		w.owners[id] = true
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

func (w *writeLocks) agents() {
	r := w.sc.Rows
	changes(&r.Agents, func(a *bridge.AgentRow) { w.names[treeLock(a.Root)] = true })
	changes(&r.Turns, func(t *bridge.Turn) { w.of(t.Agent) })
	changes(&r.Commands, func(c *bridge.CommandRow) { w.of(c.Agent) })
	changes(&r.Notices, func(n *bridge.Notice) { w.of(n.Agent) })
	changes(&r.Trees, func(t *bridge.Tree) { w.names[treeLock(t.Root)] = true })
	changes(&r.Tokens, func(t *bridge.DoorToken) { w.names[lockNamed("token", string(t.ID))] = true })
	changes(&r.Relays, func(*bridge.Relay) { w.names["relays"] = true })
}

// talk is mail. A letter is under the lock of whoever gets it, and a message of whoever wrote it.
func (w *writeLocks) talk() {
	r := w.sc.Rows
	conversation := func(id bridge.ConversationID) { w.names[lockNamed("conversation", string(id))] = true }
	changes(&r.Messages, func(m *bridge.Message) { w.of(m.From) })
	changes(&r.Letters, func(l *bridge.Letter) { w.of(l.Agent) })
	changes(&r.Conversations, func(c *bridge.Conversation) { conversation(c.ID) })
	made := map[bridge.ConversationID]bool{}
	for c := range r.Conversations.Writes() {
		made[c.Key] = c.Was == nil
	}
	for m := range r.Members.Writes() { // who comes has a place behind the others, of whom there may be no more than so many
		row := m.Now
		if row == nil {
			row = m.Was
		}
		if !made[row.Conversation] {
			conversation(row.Conversation)
		}
	}
}
