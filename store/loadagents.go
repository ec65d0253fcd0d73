package store

import (
	"time"

	"drawbridge/bridge"
)

var agentsTable = table[bridge.AgentID, bridge.AgentRow]{
	name: "agents", columns: agentColumns + ", turn_seq",
	scan: func(r scanner) (a bridge.AgentRow, err error) {
		a.Agent, err = scanAgent(and(r, &a.LastTurn))
		return a, err
	},
	key:    func(a *bridge.AgentRow) bridge.AgentID { return a.ID },
	insert: insertSQL("agents", agentColumns+", name, turn_seq"),
	update: updateSQL("agents", agentColumns+", name, turn_seq"),
	args:   asArgs(func(a *bridge.AgentRow) []any { return append(agentArgs(a.Agent), a.LastTurn) }),
}

var turnsTable = table[bridge.TurnID, bridge.Turn]{
	name: "turns", columns: turnColumns, scan: scanTurn,
	key:    func(t *bridge.Turn) bridge.TurnID { return t.ID },
	insert: insertSQL("turns", turnRest+", body, sent"), update: updateSQL("turns", turnRest+", body, sent"),
	rest:  updateSQL("turns", turnRest),
	same:  func(was, now *bridge.Turn) bool { return was.Text == now.Text && was.Sent == now.Sent },
	args:  asArgs(func(t *bridge.Turn) []any { return turnArgs(*t) }),
	texts: func(_ *bridge.Scene, t *bridge.Turn) []any { return []any{t.Text, t.Sent} },
}

var commandsTable = table[bridge.CommandID, bridge.CommandRow]{
	name: "commands", columns: commandColumns + ", launched_at",
	scan: func(r scanner) (c bridge.CommandRow, err error) {
		c.Command, err = scanCommand(and(r, microTime{&c.Launched}))
		return c, err
	},
	key:    func(c *bridge.CommandRow) bridge.CommandID { return c.ID },
	insert: insertSQL("commands", commandColumns+", launched_at"),
	update: updateSQL("commands", commandColumns+", launched_at"),
	args: func(c *bridge.CommandRow) ([]any, error) {
		args, err := commandArgs(c.Command)
		return append(args, micros(c.Launched)), err
	},
}

// and scans more columns behind those that are asked for.
func and(r scanner, more ...any) scanner { return longer{r, more} }

type longer struct {
	scanner
	more []any
}

// Scan implements scanner.
func (l longer) Scan(dest ...any) error { return l.scanner.Scan(append(dest, l.more...)...) }

func writeAgents(out *[]statement, sc *bridge.Scene) error {
	if err := writesOf(out, &sc.Rows.Agents, agentsTable); err != nil {
		return err
	}
	if err := writesOf(out, &sc.Rows.Turns, turnsTable); err != nil {
		return err
	}
	for w := range sc.Rows.Turns.Writes() {
		if w.Now == nil || !replaced(sc, w.Now) {
			continue
		}
		earlier, err := keepEarlier(w.Was)
		if err != nil {
			return err
		}
		*out = append(*out, earlier)
	}
	return writesOf(out, &sc.Rows.Commands, commandsTable)
}

const notOver = "state NOT IN ('replied', 'failed')"

func loadAgents(sc *bridge.Scene, need bridge.Need) []query {
	agents := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Agents, agentsTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedAgent:
		return agents("WHERE id = $1", n.ID)
	case bridge.NeedNamed: // the unique column finds a child's name in its tree; a root has its plain name there
		child := bridge.Agent{Name: n.Name, Parent: "child", Root: n.Root}
		return append(agents("WHERE name = $1", uniqueName(child)), into(sc, need, &sc.Rows.Agents, agentsTable).rows("WHERE id = $1 AND plain = $2", n.Root, n.Name))
	case bridge.NeedRootNamed:
		return agents("WHERE name = $1 AND parent = ''", n.Name)
	case bridge.NeedAnyNamed:
		return agents("WHERE plain = $1 ORDER BY id LIMIT 10", n.Name)
	case bridge.NeedAgentBy: // the partial indexes are used only when the query says that the column is not empty
		return agents("WHERE "+string(n.By)+" = $1 AND "+string(n.By)+" <> ''", n.Value)
	case bridge.NeedAgents:
		tail, args := agentsTail(n.AgentFilter)
		return agents(tail, args...)
	case bridge.NeedOpenSubagents:
		sql, args := "SELECT count(*) FROM agents WHERE parent <> '' AND state IN ('busy', 'waiting')", []any(nil)
		if n.Root != "" {
			sql, args = sql+" AND root = $1", []any{n.Root}
		}
		return []query{counted(sc, need, sql, args...)}
	}
	if q := loadTurns(sc, need); q != nil {
		return q
	}
	return loadCommands(sc, need)
}

func agentsTail(f bridge.AgentFilter) (string, []any) {
	var w where
	add(&w, "plain =", f.Name)
	add(&w, "root =", f.Root)
	add(&w, "parent =", f.Parent)
	add(&w, "state =", f.State)
	add(&w, "id <", f.Before)
	if f.Roots {
		w.conditions = append(w.conditions, "parent = ''")
	}
	if f.Known {
		w.conditions = append(w.conditions, "plain NOT LIKE '%~%'")
	}
	return w.sql("id DESC", f.Limit)
}

func loadTurns(sc *bridge.Scene, need bridge.Need) []query {
	turns := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Turns, turnsTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedTurn:
		return turns("WHERE id = $1", n.ID)
	case bridge.NeedTurns:
		var w where
		add(&w, "agent =", n.Agent)
		add(&w, "state =", n.State)
		add(&w, "seq <", n.Before)
		add(&w, "seq >", n.After)
		order := "seq"
		if n.Agent == "" {
			order = "id"
		}
		if !n.Oldest {
			order += " DESC"
		}
		tail, args := w.sql(order, n.Limit)
		return turns(tail, args...)
	case bridge.NeedOpenTurns:
		return turns("WHERE agent = $1 AND "+notOver+" ORDER BY seq LIMIT $2", n.Agent, n.Limit)
	case bridge.NeedOpenTurnCount:
		return []query{counted(sc, need, "SELECT count(*) FROM turns WHERE agent = $1 AND "+notOver, n.Agent)}
	case bridge.NeedTurnHead:
		return turnHeads(sc, n)
	case bridge.NeedInFlight:
		return turns("WHERE agent = $1 AND "+notOver+" AND state <> 'queued'", n.Agent)
	case bridge.NeedLastOver:
		return turns("WHERE agent = $1 AND state IN ('replied', 'failed') ORDER BY seq DESC LIMIT 1", n.Agent)
	}
	return nil
}

// turnHeads is the first turn of an agent that is neither queued nor over, and the newest that is over. The first of both counts.
func turnHeads(sc *bridge.Scene, n bridge.NeedTurnHead) []query {
	var head *bridge.TurnHead
	heads := func(tail string) query {
		return query{sql: "SELECT id, state, depth FROM turns WHERE agent = $1 AND " + tail, args: []any{n.Agent}, row: func(r scanner) error {
			var t bridge.TurnHead
			err := r.Scan(&t.ID, &t.State, &t.Depth)
			if head == nil {
				head = &t
			}
			return err
		}}
	}
	flying, over := heads(notOver+" AND state <> 'queued' ORDER BY seq LIMIT 1"), heads("state IN ('replied', 'failed') ORDER BY seq DESC LIMIT 1")
	over.done = func(int) { sc.Answered(n, head) }
	return []query{flying, over}
}

func loadCommands(sc *bridge.Scene, need bridge.Need) []query {
	commands := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Commands, commandsTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedCommand:
		return commands("WHERE id = $1", n.ID)
	case bridge.NeedCommands:
		var w where
		add(&w, "agent =", n.Agent)
		add(&w, "turn =", n.Turn)
		add(&w, "state =", n.State)
		add(&w, "verb =", n.Verb)
		add(&w, "id <", n.Before)
		order := "id DESC"
		if n.Turn != "" {
			order = "ordinal"
		}
		tail, args := w.sql(order, n.Limit)
		return commands(tail, args...)
	case bridge.NeedUses:
		return []query{uses(sc, n)}
	case bridge.NeedDays:
		return days(sc, n)
	case bridge.NeedLaunches:
		return []query{counted(sc, need, "SELECT count(*) FROM commands WHERE child <> '' AND launched_at >= $1", micros(n.Since))}
	case bridge.NeedOpenCommands:
		sql, args := "SELECT count(*) FROM commands WHERE agent = $1 AND state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain')", []any{n.Agent}
		if n.Verb != "" {
			sql, args = sql+" AND verb = $2", append(args, n.Verb)
		}
		return []query{counted(sc, need, sql, args...)}
	}
	return nil
}

// uses counts what agents asked for, by agent or tree, target and what came of it.
func uses(sc *bridge.Scene, n bridge.NeedUses) query {
	// ended is the state before reported.
	const sums = "(SELECT agent, verb, canonical, CASE WHEN state = 'held' THEN 'held' WHEN 'refused' IN (state, ended) THEN 'refused' ELSE 'granted' END AS result," +
		" count(*) AS uses, max(created_at) AS last FROM commands WHERE created_at >= $1 AND canonical <> '' AND verb IN ('SUBAGENT', 'LOCAL_ACTION')" +
		" GROUP BY agent, verb, canonical, result) c"
	const key = "a.id, a.plain, a.role, a.parent, c.verb, c.canonical, c.result"
	sql := "SELECT " + key + ", c.uses, c.last FROM " + sums + " JOIN agents a ON a.id = c.agent ORDER BY c.last DESC, a.id, c.canonical, c.result LIMIT $2"
	if n.Trees {
		sql = "SELECT " + key + ", CAST(sum(c.uses) AS BIGINT), max(c.last) FROM " + sums + " JOIN agents m ON m.id = c.agent JOIN agents a ON a.id = m.root" +
			" GROUP BY " + key + " ORDER BY max(c.last) DESC, a.id, c.canonical, c.result LIMIT $2"
	}
	var all []bridge.Use
	return query{
		sql:  sql,
		args: []any{micros(n.Since), n.Limit},
		row: func(r scanner) error {
			var u bridge.Use
			err := r.Scan(&u.By.ID, &u.By.Name, &u.By.Role, &u.By.Parent, &u.Verb, &u.Target, &u.State, &u.Count, microTime{&u.Last})
			all = append(all, u)
			return err
		},
		done: func(int) { sc.Answered(n, all) },
	}
}

// days adds up turns and launches by day.
func days(sc *bridge.Scene, n bridge.NeedDays) []query {
	var sums bridge.DaySums
	turns := query{sql: "SELECT created_at, ended_at, spent FROM turns WHERE created_at >= $1", args: []any{micros(n.Since)}, row: func(r scanner) error {
		var at, ended time.Time
		var spent *bridge.Spent
		err := r.Scan(microTime{&at}, microTime{&ended}, jsonText{&spent})
		sums.Turn(at, !ended.IsZero(), spent)
		return err
	}}
	launches := query{sql: "SELECT launched_at FROM commands WHERE child <> '' AND launched_at >= $1", args: []any{micros(n.Since)}, row: func(r scanner) error {
		var at time.Time
		err := r.Scan(microTime{&at})
		sums.Launch(at)
		return err
	}}
	launches.done = func(int) { sc.Answered(n, sums.All()) }
	return []query{turns, launches}
}
