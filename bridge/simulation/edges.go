package simulation

import (
	"drawbridge/bridge"
	"drawbridge/bridge/simulation/coverage"
)

// watchedTx sees what a transaction changes. What it saw counts when the transaction commits.
type watchedTx struct {
	bridge.Tx
	edges   []coverage.Edge
	notices []bridge.Notice
	illegal []coverage.Edge
	// sent are turns that began, accepted those whose run's end was taken over,
	// metered the agents of which another usage was.
	sent, accepted []bridge.Turn
	metered        []bridge.AgentID
	troubles       []string
}

func moved[S interface {
	~string
	CanBecome(S) bool
}](t *watchedTx, noun string, from, to S) {
	if from == to {
		return
	}
	e := coverage.Edge{Noun: noun, From: string(from), To: string(to)}
	t.edges = append(t.edges, e)
	if !from.CanBecome(to) {
		t.illegal = append(t.illegal, e)
	}
}

// UpdateAgent implements bridge.AgentTx.
func (t *watchedTx) UpdateAgent(a bridge.Agent) error {
	if was, err := t.Agent(a.ID); err == nil {
		moved(t, "agent", was.State, a.State)
		if was.Tokens != a.Tokens || was.CostMicros != a.CostMicros || was.Unmetered != a.Unmetered {
			t.metered = append(t.metered, a.ID)
		}
		if was.State != a.State && a.State == bridge.AgentGated {
			t.troubles = append(t.troubles, a.Trouble)
		}
	}
	return t.Tx.UpdateAgent(a)
}

// UpdateTurn implements bridge.TurnTx.
func (t *watchedTx) UpdateTurn(r bridge.Turn) error {
	if was, err := t.Turn(r.ID); err == nil {
		moved(t, "turn", was.State, r.State)
		switch {
		case was.State == bridge.TurnQueued && r.State == bridge.TurnDelivering:
			t.sent = append(t.sent, r)
		case was.State == bridge.TurnRunning && r.State.Over() && r.Status != "":
			t.accepted = append(t.accepted, r)
		}
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
