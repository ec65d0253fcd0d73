package store

import "drawbridge/bridge"

// maxKept bounds the rows of one kind that are kept in memory.
const maxKept = 4096

// kept holds rows that the writer reads in nearly every transaction: who an
// agent is, which turn it is in, and whether its tree was stopped. It holds them
// as they were committed and never as a transaction has changed them, so that neither a
// savepoint nor a whole transaction that is taken back leaves anything wrong in
// it. It is the leader's alone; a view has an empty one of its own.
type kept struct {
	agents keptRows[bridge.AgentID, bridge.Agent]
	trees  keptRows[bridge.AgentID, bridge.Tree]
	// current and open are what CurrentTurn and HasOpenTurn say of an agent.
	current keptRows[bridge.AgentID, currentTurn]
	open    keptRows[bridge.AgentID, bool]
}

// currentTurn is an agent's current turn, if it has one.
type currentTurn struct {
	bridge.TurnHead
	ok bool
}

// settle is called when a transaction is over, whichever way.
func (k *kept) settle() {
	clear(k.agents.changed)
	clear(k.trees.changed)
	clear(k.current.changed)
	clear(k.open.changed)
}

// forget is called when somebody else may have written.
func (k *kept) forget() {
	clear(k.agents.rows)
	clear(k.trees.rows)
	clear(k.current.rows)
	clear(k.open.rows)
}

type keptRows[K comparable, V any] struct {
	rows map[K]V
	// changed are the rows that the transaction that runs wrote, which are read
	// from the database until it is over.
	changed map[K]struct{}
}

func (r *keptRows[K, V]) get(key K) (V, bool) {
	v, ok := r.rows[key]
	return v, ok
}

// put keeps a row as it was read.
func (r *keptRows[K, V]) put(key K, v V) {
	if _, changed := r.changed[key]; changed {
		return
	}
	if r.rows == nil || len(r.rows) >= maxKept {
		r.rows = make(map[K]V)
	}
	r.rows[key] = v
}

// change is called before a row is written.
func (r *keptRows[K, V]) change(key K) {
	delete(r.rows, key)
	if r.changed == nil {
		r.changed = make(map[K]struct{})
	}
	r.changed[key] = struct{}{}
}

// changeTurn is called before a turn of an agent is written.
func (k *kept) changeTurn(agent bridge.AgentID) {
	k.current.change(agent)
	k.open.change(agent)
}

// readKept returns a row from what is kept, or reads and keeps it.
func readKept[K comparable, V any](rows *keptRows[K, V], key K, read func() (V, error)) (V, error) {
	if v, ok := rows.get(key); ok {
		return v, nil
	}
	v, err := read()
	if err == nil {
		rows.put(key, v)
	}
	return v, err
}
