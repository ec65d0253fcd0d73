package store

import (
	"strings"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// ancestors are an agent, which is the first argument, and those above it.
const ancestors = `WITH RECURSIVE up (id, parent) AS (SELECT id, parent FROM agents WHERE id = $1
	UNION ALL SELECT a.id, a.parent FROM agents a JOIN up ON a.id = up.parent) SELECT id FROM up`

// story loads a story. Its queries name the agent by the argument or, when only a turn
// is known, by a look-up of their own, so that they need no answer of one another.
type story struct {
	sc *bridge.Scene
	n  bridge.NeedStory
}

// by writes a query whose $1 is the agent.
func (s story) by(tail string) string {
	switch {
	case s.n.Turn != "":
		return strings.ReplaceAll(tail, "$1", "(SELECT agent FROM turns WHERE id = $1)")
	case s.n.Command != "":
		return strings.ReplaceAll(tail, "$1", "(SELECT agent FROM commands WHERE id = $1)")
	}
	return tail
}

func (s story) key() any {
	switch {
	case s.n.Turn != "":
		return s.n.Turn
	case s.n.Command != "":
		return s.n.Command
	}
	return s.n.Agent
}

// agent is whom the story is about, nil while its row is not there.
func (s story) agent() *bridge.AgentRow {
	id := s.n.Agent
	if t := s.sc.Rows.Turns.Row(s.n.Turn); t != nil {
		id = t.Agent
	}
	if c := s.sc.Rows.Commands.Row(s.n.Command); c != nil {
		id = c.Agent
	}
	return s.sc.Rows.Agents.Row(id)
}

// known notes that what a need names is loaded.
func (s story) known(need func(a *bridge.AgentRow) bridge.Need) func(int) {
	return func(rows int) {
		if a := s.agent(); a != nil {
			s.sc.Knows(need(a), rows)
		}
	}
}

// number is a query for a number about the agent.
func (s story) number(need func(a *bridge.AgentRow) bridge.Need, sql string) query {
	return query{sql: s.by(sql), args: []any{s.key()}, row: func(r scanner) error {
		v, err := scanInt(r)
		if a := s.agent(); a != nil && err == nil {
			s.sc.Counted(need(a), v)
		}
		return err
	}}
}

// rowsOf is where rows about the agent go.
type rowsOf[K ~string | ~int64 | ~int, V any] struct {
	story
	t  *bridge.Table[K, V]
	of table[K, V]
}

func about[K ~string | ~int64 | ~int, V any](s story, t *bridge.Table[K, V], of table[K, V]) rowsOf[K, V] {
	return rowsOf[K, V]{s, t, of}
}

// rows is a query for rows about the agent, which are those of a need.
func (s rowsOf[K, V]) rows(tail string, need func(a *bridge.AgentRow) bridge.Need) query {
	q := into(s.sc, s.n, s.t, s.of).rows(s.by(tail), s.key())
	q.done = s.known(need)
	return q
}

func loadStory(sc *bridge.Scene, need bridge.Need) []query {
	if n, ok := need.(bridge.NeedJob); ok {
		return loadJob(sc, n)
	}
	n, ok := need.(bridge.NeedStory)
	if !ok {
		return nil
	}
	s := story{sc, n}
	var all []query
	if n.Turn != "" {
		turn := into(sc, need, &sc.Rows.Turns, turnsTable).rows("WHERE id = $1", n.Turn)
		turn.done = nil
		all = append(all, turn)
	}
	if n.Command != "" {
		command := into(sc, need, &sc.Rows.Commands, commandsTable).rows("WHERE id = $1", n.Command)
		command.done = nil
		turn := into(sc, need, &sc.Rows.Turns, turnsTable).rows("WHERE id = (SELECT turn FROM commands WHERE id = $1)", n.Command)
		turn.done = nil
		all = append(all, command, turn)
	}
	if all = append(all, s.who()...); n.Brief {
		return append(all, s.current()...)
	}
	all = append(all, s.turns()...)
	return append(all, s.rest()...)
}

// loadJob loads the rows of a need whose ids are all known.
func loadJob(sc *bridge.Scene, n bridge.NeedJob) []query {
	agent, known := bridge.NeedAgent{ID: n.Agent}, "WHERE id = $1"
	if n.Parent != "" {
		known = "WHERE id IN (" + ancestors + ")"
	}
	all := []query{
		into(sc, bridge.NeedTurn{ID: n.Turn}, &sc.Rows.Turns, turnsTable).rows("WHERE id = $1", n.Turn),
		into(sc, agent, &sc.Rows.Agents, agentsTable).rows(known, n.Agent),
		into(sc, bridge.NeedTree{Root: n.Root}, &sc.Rows.Trees, treesTable).rows("WHERE root = $1", n.Root),
	}
	if n.Command != "" {
		all = append(all, into(sc, bridge.NeedCommand{ID: n.Command}, &sc.Rows.Commands, commandsTable).rows("WHERE id = $1", n.Command))
	}
	return all
}

// who is the agent, its ancestors, its command and its tree.
func (s story) who() []query {
	r := s.sc.Rows
	return []query{
		about(s, &r.Agents, agentsTable).rows("WHERE id IN ("+ancestors+")", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedAgent{ID: a.ID} }),
		about(s, &r.Commands, commandsTable).rows("WHERE id = (SELECT command FROM agents WHERE id = $1)", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedCommand{ID: a.Command} }),
		about(s, &r.Trees, treesTable).rows("WHERE root = (SELECT root FROM agents WHERE id = $1)", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedTree{Root: a.Root} }),
	}
}

// current is which turn the agent is in.
func (s story) current() []query {
	t := &s.sc.Rows.Turns
	return []query{
		about(s, t, turnsTable).rows("WHERE agent = $1 AND "+notOver+" AND state <> 'queued'", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedInFlight{Agent: a.ID} }),
		about(s, t, turnsTable).rows("WHERE agent = $1 AND state IN ('replied', 'failed') ORDER BY seq DESC LIMIT 1", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedLastOver{Agent: a.ID} }),
	}
}

// turns is what the agent is at, and how much of it.
func (s story) turns() []query {
	return append(s.current(),
		about(s, &s.sc.Rows.Turns, turnsTable).rows("WHERE agent = $1 AND "+notOver+" ORDER BY seq LIMIT 1", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedOpenTurns{Agent: a.ID, Limit: 1} }),
		s.number(func(a *bridge.AgentRow) bridge.Need { return bridge.NeedOpenSubagents{Root: a.Root} },
			"SELECT count(*) FROM agents WHERE parent <> '' AND state IN ('busy', 'waiting') AND root = (SELECT root FROM agents WHERE id = $1)"),
		s.number(func(a *bridge.AgentRow) bridge.Need { return bridge.NeedOpenTurnCount{Agent: a.ID} }, "SELECT count(*) FROM turns WHERE agent = $1 AND "+notOver),
		s.number(func(a *bridge.AgentRow) bridge.Need { return bridge.NeedOpenCommands{Agent: a.ID} },
			"SELECT count(*) FROM commands WHERE agent = $1 AND state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain')"),
	)
}

// rest is what waits for the agent, and what its turn has.
func (s story) rest() []query {
	r, turn := s.sc.Rows, s.n.Turn
	all := []query{
		about(s, &r.Notices, noticesTable).rows("WHERE agent = $1 AND turn = '' AND held = 0 ORDER BY quiet, id LIMIT 110",
			func(a *bridge.AgentRow) bridge.Need {
				return bridge.NeedWaiting{Agent: a.ID, Limit: bridge.StoryNotices}
			}),
		about(s, &r.Letters, lettersTable).rows("WHERE agent = $1 AND awaited = 1 ORDER BY sender, message LIMIT 100", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedAwaitedFrom{Agent: a.ID, Limit: 100} }),
		about(s, &r.Letters, lettersTable).rows("WHERE sender = $1 AND awaited = 1 ORDER BY message, agent LIMIT 1", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedAwaitedBy{Sender: a.ID, Limit: 1} }),
	}
	if turn == "" {
		return all
	}
	ofTurn := bridge.NeedCommands{CommandFilter: bridge.CommandFilter{Turn: turn, Limit: bridge.StoryCommands}}
	return append(all,
		about(s, &r.Blocks, blocksTable).rows("WHERE agent = $1", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedBlocks{Agent: a.ID} }),
		about(s, &r.Deliveries, deliveriesTable).rows("WHERE op = $1 ORDER BY id DESC LIMIT 1", func(a *bridge.AgentRow) bridge.Need { return bridge.NeedDeliveries{Op: a.ID, Limit: 1} }),
		s.number(func(a *bridge.AgentRow) bridge.Need {
			return bridge.NeedOpenCommands{Agent: a.ID, Verb: parser.Subagent}
		},
			"SELECT count(*) FROM commands WHERE agent = $1 AND verb = 'SUBAGENT' AND state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain')"),
		into(s.sc, bridge.NeedCarried{Turn: turn}, &r.Notices, noticesTable).rows("WHERE turn = $1 AND turn <> ''", turn),
		into(s.sc, ofTurn, &r.Commands, commandsTable).rows("WHERE turn = $1 ORDER BY ordinal LIMIT 100", turn),
		into(s.sc, bridge.NeedRestored{}, &r.Restoring, restoringTable).rows("WHERE id = 1"))
}
