// Package kept is the memory of SQLite's one writer: rows that nearly each step looks up and that need not be read again. It is
// no cache for views and none for PostgreSQL. Rule of thumb: who is not sure whether a row is right forgets it.
package kept

import (
	"regexp"

	"drawbridge/bridge"
)

// most bounds the rows of one kind.
const most = 4096

// Rows holds what SQLite's writer looks up in nearly each step: who an agent is, whether its tree was stopped, which turn it is in,
// how many turns are open, which tokens it has, and whether an earlier run told something. It is what the database has, at
// the moment at which a step begins. Others write these tables, and Rows hears of each of them:
//   - A step of this process: Apply forgets what the step changes before the first statement runs. Nobody looks until the step
//     is over or taken back.
//   - Another statement of this process: the store sees that it may change such a table (Changes), and everything is forgotten (Wrote).
//   - A transaction that does not commit: the next one forgets everything (Since), because nobody said Committed.
//   - Another program, such as a sqlite3 shell: PRAGMA data_version gives another number when the next transaction begins (Since), and
//     everything is forgotten. That transaction holds the lock for writing by then, so that nobody else writes until it ends.
//
// It is for the one goroutine that writes. Nil Rows keep nothing.
type Rows struct {
	agents kind[bridge.AgentID, bridge.AgentRow]
	trees  kind[bridge.AgentID, bridge.Tree]
	told   kind[string, bridge.ToldRow]
	// tokens are all of an agent.
	tokens kind[bridge.AgentID, []bridge.DoorToken]
	// heads and open are what CurrentTurn and HasOpenTurn look up.
	heads kind[bridge.AgentID, bridge.TurnHead]
	open  kind[bridge.AgentID, int64]
	// applying says that a step writes, and that what it changes is forgotten.
	applying bool
	// under says that a transaction began and did not commit; version is what the database said when it began.
	under   bool
	version int64
}

// kind are rows of one kind, nil for one that is not there.
type kind[K comparable, V any] struct{ rows map[K]*V }

// put keeps a row as it was read.
func (r *kind[K, V]) put(key K, v *V) {
	if r.rows == nil || len(r.rows) >= most {
		r.rows = map[K]*V{}
	}
	r.rows[key] = v
}

// change is called before a row is written.
func (r *kind[K, V]) change(key K) { delete(r.rows, key) }

// load puts a row into a scene's table, and reports false when it is not kept.
func load[K ~string, V any](r *kind[K, V], t *bridge.Table[K, V], key K) bool {
	row, found := r.rows[key]
	if row != nil {
		t.Load(key, *row)
	}
	return found
}

// learn keeps a row that was loaded. One that the step wrote is not as the database has it.
func learn[K ~string, V any](r *kind[K, V], t *bridge.Table[K, V], key K) {
	if t.Was(key) == nil && !t.Made(key) {
		r.put(key, t.Row(key))
	}
}

// Give answers a need from memory, and reports false when it cannot.
func (k *Rows) Give(sc *bridge.Scene, need bridge.Need) (given bool) {
	if k == nil {
		return false
	}
	switch n := need.(type) {
	case bridge.NeedAgent:
		given = load(&k.agents, &sc.Rows.Agents, n.ID)
	case bridge.NeedTree:
		given = load(&k.trees, &sc.Rows.Trees, n.Root)
	case bridge.NeedTold:
		given = load(&k.told, &sc.Rows.Told, bridge.ToldKey(n.Agent, n.Item))
	default:
		return k.answer(sc, need)
	}
	if given {
		sc.Knows(need, 1)
	}
	return given
}

// answer is give for needs that are not for rows.
func (k *Rows) answer(sc *bridge.Scene, need bridge.Need) bool {
	switch n := need.(type) {
	case bridge.NeedTokens:
		all := k.tokens.rows[n.Agent]
		if all == nil {
			return false
		}
		for _, t := range *all {
			sc.Rows.Tokens.Load(t.ID, t)
		}
		sc.Knows(n, len(*all))
		return true
	case bridge.NeedTurnHead:
		head, found := k.heads.rows[n.Agent]
		if found {
			sc.Answered(n, head)
		}
		return found
	case bridge.NeedOpenTurnCount:
		open := k.open.rows[n.Agent]
		if open != nil {
			sc.Counted(n, *open)
		}
		return open != nil
	}
	return false
}

// Take keeps what was loaded for a need.
func (k *Rows) Take(sc *bridge.Scene, need bridge.Need) {
	if k == nil {
		return
	}
	switch n := need.(type) {
	case bridge.NeedAgent:
		if sc.Rows.Agents.Row(n.ID) != nil { // ids that nobody has are as many as somebody asks for
			learn(&k.agents, &sc.Rows.Agents, n.ID)
		}
	case bridge.NeedTree:
		learn(&k.trees, &sc.Rows.Trees, n.Root)
	case bridge.NeedTold:
		learn(&k.told, &sc.Rows.Told, bridge.ToldKey(n.Agent, n.Item))
	case bridge.NeedTokens:
		k.learnTokens(sc, n.Agent)
	case bridge.NeedTurnHead:
		if _, answer, ok := sc.AnswerTo(n); ok {
			head, _ := answer.(*bridge.TurnHead)
			k.heads.put(n.Agent, head)
		}
	case bridge.NeedOpenTurnCount:
		if count, _, ok := sc.AnswerTo(n); ok {
			k.open.put(n.Agent, &count)
		}
	}
}

func (k *Rows) learnTokens(sc *bridge.Scene, agent bridge.AgentID) {
	var all []bridge.DoorToken
	for t := range sc.Rows.Tokens.All() {
		if t.Agent == agent {
			all = append(all, *t)
		}
	}
	for w := range sc.Rows.Tokens.Writes() { // they are not as the database has them
		if w.Was != nil && w.Was.Agent == agent || w.Now != nil && w.Now.Agent == agent {
			return
		}
	}
	k.tokens.put(agent, &all)
}

// changes is called before a step's rows are written.
func (k *Rows) changes(sc *bridge.Scene) {
	for w := range sc.Rows.Agents.Writes() {
		k.agents.change(w.Key)
	}
	for w := range sc.Rows.Trees.Writes() {
		k.trees.change(w.Key)
	}
	for w := range sc.Rows.Told.Writes() {
		k.told.change(w.Key)
	}
	for w := range sc.Rows.Tokens.Writes() {
		for _, t := range []*bridge.DoorToken{w.Was, w.Now} {
			if t != nil {
				k.tokens.change(t.Agent)
			}
		}
	}
	for w := range sc.Rows.Turns.Writes() {
		for _, t := range []*bridge.Turn{w.Was, w.Now} {
			if t != nil {
				k.heads.change(t.Agent)
				k.open.change(t.Agent)
			}
		}
	}
}

// Apply forgets what a step changes and runs what writes it.
func (k *Rows) Apply(sc *bridge.Scene, write func() error) error {
	if k == nil {
		return write()
	}
	k.changes(sc)
	k.applying = true
	defer func() { k.applying = false }()
	return write()
}

var (
	isSelect  = regexp.MustCompile(`(?i)^\s*SELECT\b`)
	namesKept = regexp.MustCompile(`(?i)\b(agents|trees|told|turns|door_tokens)\b`)
)

// Changes reports whether a statement may change a table of which rows are kept.
func Changes(query string) bool {
	return !isSelect.MatchString(query) && namesKept.MatchString(query)
}

// Wrote is called before a statement that Changes names runs.
func (k *Rows) Wrote() {
	if !k.applying {
		k.forget()
	}
}

// forget drops all rows.
func (k *Rows) forget() {
	clear(k.agents.rows)
	clear(k.trees.rows)
	clear(k.told.rows)
	clear(k.tokens.rows)
	clear(k.heads.rows)
	clear(k.open.rows)
}

// Since is called when a transaction has just begun, with the number that PRAGMA data_version gives.
func (k *Rows) Since(version int64) {
	if k.under || version != k.version {
		k.forget()
	}
	k.under, k.version = true, version
}

// Committed is called when the transaction is in the database.
func (k *Rows) Committed() { k.under = false }
