package memory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"drawbridge/bridge"
)

// state is the whole database. An Update changes it in place and takes its
// changes back when it fails; clone makes another of which neither knows.
type state struct {
	viewers int // guarded by the disk's lock

	agents      table[bridge.AgentID, agentRow]
	turns       table[bridge.TurnID, bridge.Turn]
	commands    table[bridge.CommandID, commandRow]
	notices     table[bridge.NoticeID, bridge.Notice]
	completions table[bridge.CompletionID, bridge.Completion]
	deliveries  table[bridge.DeliveryID, bridge.Delivery]
	work        table[int64, bridge.Work]
	heads       []int64 // the first work of each lane that has any
	lanes       map[string]lane
	lastWork    int64 // ids are never given twice
	events      []bridge.Event
	trees       table[bridge.AgentID, bridge.Tree]
	memos       map[memo]time.Time
	blocks      table[string, []bridge.Block] // all versions of each
	passages    table[bridge.PassageID, bridge.Passage]
	tokens      table[bridge.TokenID, bridge.DoorToken]
	watches     table[string, bridge.Watch]  // by both agents
	done        table[string, bridge.Done]   // by agent and key
	yeses       table[string, bridge.Yes]    // by root and target
	echoes      table[string, bridge.Echo]   // by agent and key
	told        table[string, bridge.TurnID] // by agent and item
	restored    table[int, bridge.Restored]
	runs        map[bridge.TurnID][]bridge.RunMessage // a list is replaced and never changed

	relayTables
	mailTables
}

// lane is the last number that was given in it, and its works in order. The
// list is replaced and never changed.
type lane struct {
	seq   int64
	works []int64
}

// memo is an approval (of a root).
type memo struct {
	kind, owner, key string
}

// agentRow is an agent and the number of its last turn.
type agentRow struct {
	bridge.Agent
	turns int64
}

// commandRow is a command and when its launch counted for the first time.
type commandRow struct {
	bridge.Command
	launched time.Time
}

func newState() *state {
	return &state{lanes: map[string]lane{}, memos: map[memo]time.Time{}, runs: map[bridge.TurnID][]bridge.RunMessage{}}
}

// clone copies the tables and shares the rows, which nobody changes.
func (s *state) clone() *state {
	return &state{
		agents: s.agents.clone(), turns: s.turns.clone(), commands: s.commands.clone(), notices: s.notices.clone(),
		completions: s.completions.clone(), deliveries: s.deliveries.clone(), work: s.work.clone(), heads: slices.Clone(s.heads),
		lanes: maps.Clone(s.lanes), lastWork: s.lastWork, events: slices.Clone(s.events), memos: maps.Clone(s.memos), trees: s.trees.clone(),
		blocks: s.blocks.clone(), passages: s.passages.clone(), tokens: s.tokens.clone(), watches: s.watches.clone(), done: s.done.clone(), yeses: s.yeses.clone(), echoes: s.echoes.clone(), told: s.told.clone(), restored: s.restored.clone(), runs: maps.Clone(s.runs),
		relayTables: s.relayTables.clone(), mailTables: s.mailTables.clone(),
	}
}

// table is rows in the order of their keys, side by side. A row is replaced and never changed.
type table[K cmp.Ordered, V any] struct {
	keys []K // sorted
	rows []*V
}

func (t *table[K, V]) clone() table[K, V] {
	return table[K, V]{keys: slices.Clone(t.keys), rows: slices.Clone(t.rows)}
}

// get returns a row or nil.
func (t *table[K, V]) get(key K) *V {
	if i, found := slices.BinarySearch(t.keys, key); found {
		return t.rows[i]
	}
	return nil
}

// put stores a row, or removes it when row is nil, and returns what was there.
func (t *table[K, V]) put(key K, row *V) (was *V) {
	i, found := slices.BinarySearch(t.keys, key)
	if found {
		was = t.rows[i]
	}
	switch {
	case found && row != nil:
		t.rows[i] = row
	case found:
		t.keys, t.rows = slices.Delete(t.keys, i, i+1), slices.Delete(t.rows, i, i+1)
	case row != nil:
		t.keys, t.rows = slices.Insert(t.keys, i, key), slices.Insert(t.rows, i, row)
	}
	return was
}

// oldest calls fn for each row in the order of the keys until it returns false.
func (t *table[K, V]) oldest(fn func(*V) bool) {
	for _, row := range t.rows {
		if !fn(row) {
			return
		}
	}
}

// newest returns up to limit rows that fn takes, the last key first; 0 is 100.
func (t *table[K, V]) newest(limit int, fn func(*V) bool) (out []*V) {
	if limit <= 0 {
		limit = 100
	}
	for _, row := range slices.Backward(t.rows) {
		if len(out) == limit {
			break
		}
		if fn(row) {
			out = append(out, row)
		}
	}
	return out
}

// tx is one transaction. It implements bridge.Tx.
type tx struct {
	state    *state
	readOnly bool
	undo     []func()
}

var _ bridge.Tx = (*tx)(nil)

// rollback takes back what the transaction did, the last change first.
func (t *tx) rollback() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
}

// set stores a row, or removes it when row is nil.
func set[K cmp.Ordered, V any](t *tx, in *table[K, V], key K, row *V) error {
	if t.readOnly {
		return errReadOnly
	}
	was := in.put(key, row)
	t.undo = append(t.undo, func() { in.put(key, was) })
	return nil
}

// setMap stores a value in one of the maps.
func setMap[K comparable, V any](t *tx, in map[K]V, key K, value V) error {
	if t.readOnly {
		return errReadOnly
	}
	was, there := in[key]
	in[key] = value
	t.undo = append(t.undo, func() {
		if there {
			in[key] = was
		} else {
			delete(in, key)
		}
	})
	return nil
}

// stamp keeps of a time what a database keeps: microseconds, in UTC.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}
