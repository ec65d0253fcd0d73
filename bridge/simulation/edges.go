package simulation

import (
	"slices"

	"drawbridge/bridge"
)

// allEdges returns every edge of the three state machines, in a fixed order.
func allEdges() []Edge {
	var all []Edge
	all = append(all, edgesOf("agent", bridge.AgentEdges)...)
	all = append(all, edgesOf("turn", bridge.TurnEdges)...)
	return append(all, edgesOf("command", bridge.CommandEdges)...)
}

func edgesOf[S ~string](noun string, table map[S][]S) []Edge {
	var all []Edge
	for from, tos := range table {
		for _, to := range tos {
			all = append(all, Edge{noun, string(from), string(to)})
		}
	}
	slices.SortFunc(all, func(a, b Edge) int {
		switch {
		case a.String() < b.String():
			return -1
		case a.String() > b.String():
			return 1
		}
		return 0
	})
	return all
}

// watchedTx sees what a transaction changes. What it saw counts when the transaction commits.
type watchedTx struct {
	bridge.Tx
	edges   []Edge
	notices []bridge.Notice
	illegal []Edge
}

func moved[S interface {
	~string
	CanBecome(S) bool
}](t *watchedTx, noun string, from, to S) {
	if from == to {
		return
	}
	e := Edge{noun, string(from), string(to)}
	t.edges = append(t.edges, e)
	if !from.CanBecome(to) {
		t.illegal = append(t.illegal, e)
	}
}

// UpdateAgent implements bridge.AgentTx.
func (t *watchedTx) UpdateAgent(a bridge.Agent) error {
	if was, err := t.Agent(a.ID); err == nil {
		moved(t, "agent", was.State, a.State)
	}
	return t.Tx.UpdateAgent(a)
}

// UpdateTurn implements bridge.TurnTx.
func (t *watchedTx) UpdateTurn(r bridge.Turn) error {
	if was, err := t.Turn(r.ID); err == nil {
		moved(t, "turn", was.State, r.State)
	}
	return t.Tx.UpdateTurn(r)
}

// UpdateCommand implements bridge.CommandTx.
func (t *watchedTx) UpdateCommand(c bridge.Command) error {
	if was, err := t.Command(c.ID); err == nil {
		moved(t, "command", was.State, c.State)
	}
	return t.Tx.UpdateCommand(c)
}

// InsertNotice implements bridge.NoticeTx.
func (t *watchedTx) InsertNotice(n bridge.Notice) error {
	t.notices = append(t.notices, n)
	return t.Tx.InsertNotice(n)
}
