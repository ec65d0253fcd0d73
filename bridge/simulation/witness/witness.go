// Package witness sees what a transaction of the bridge changes, and reads what
// its turns say, for the oracle of package simulation. It changes nothing and
// judges nothing. Rule of thumb: what did not commit was not seen.
package witness

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/coverage"
)

// Tx is a transaction under observation. What it saw counts once the
// transaction has committed. Its methods are those of bridge.Tx.
type Tx struct {
	bridge.Tx
	// Edges are the changes of state, Illegal those that no state machine knows.
	Edges, Illegal []coverage.Edge
	Notices        []bridge.Notice
	// Finished are ends of runs that were not on record.
	Finished []bridge.Completion
	// Begun are turns that went out, Ended those whose run's end was taken over.
	Begun, Ended []bridge.Turn
	// Metered are the agents of which another usage was recorded, Queued those that got a turn.
	Metered, Queued []bridge.AgentID
	// Claimed is work that was taken, Given what was given back or finished.
	Claimed, Given []bridge.Work
	// Troubles are what was said of agents that were gated.
	Troubles []string
}

func moved[S interface {
	~string
	CanBecome(S) bool
}](t *Tx, noun string, from, to S) {
	if from == to {
		return
	}
	e := coverage.Edge{Noun: noun, From: string(from), To: string(to)}
	t.Edges = append(t.Edges, e)
	if !from.CanBecome(to) {
		t.Illegal = append(t.Illegal, e)
	}
}

// UpdateAgent implements bridge.AgentTx.
func (t *Tx) UpdateAgent(a bridge.Agent) error {
	if was, err := t.Agent(a.ID); err == nil {
		moved(t, "agent", was.State, a.State)
		if was.Tokens != a.Tokens || was.CostMicros != a.CostMicros || was.Unmetered != a.Unmetered {
			t.Metered = append(t.Metered, a.ID)
		}
		if was.State != a.State && a.State == bridge.AgentGated {
			t.Troubles = append(t.Troubles, a.Trouble)
		}
	}
	return t.Tx.UpdateAgent(a)
}

// InsertTurn implements bridge.TurnTx.
func (t *Tx) InsertTurn(r bridge.Turn) (int64, error) {
	t.Queued = append(t.Queued, r.Agent)
	return t.Tx.InsertTurn(r)
}

// UpdateTurn implements bridge.TurnTx.
func (t *Tx) UpdateTurn(r bridge.Turn) error {
	if was, err := t.Turn(r.ID); err == nil {
		moved(t, "turn", was.State, r.State)
		switch {
		case was.State == bridge.TurnQueued && r.State == bridge.TurnDelivering:
			t.Begun = append(t.Begun, r)
		case was.State == bridge.TurnRunning && r.State.Over() && r.Status != "":
			t.Ended = append(t.Ended, r)
		}
	}
	return t.Tx.UpdateTurn(r)
}

// UpdateCommand implements bridge.CommandTx.
func (t *Tx) UpdateCommand(c bridge.Command) error {
	if was, err := t.Command(c.ID); err == nil {
		moved(t, "command", was.State, c.State)
	}
	return t.Tx.UpdateCommand(c)
}

// ClaimWork implements bridge.LaneTx.
func (t *Tx) ClaimWork(c bridge.Claim) ([]bridge.Work, error) {
	works, err := t.Tx.ClaimWork(c)
	t.Claimed = append(t.Claimed, works...)
	return works, err
}

// FinishWork implements bridge.LaneTx.
func (t *Tx) FinishWork(w bridge.Work) error { return t.given(w, t.Tx.FinishWork(w)) }

// PutBack implements bridge.LaneTx.
func (t *Tx) PutBack(w bridge.Work, due time.Time) error { return t.given(w, t.Tx.PutBack(w, due)) }

// PutOff implements bridge.LaneTx.
func (t *Tx) PutOff(w bridge.Work, due time.Time) error { return t.given(w, t.Tx.PutOff(w, due)) }

// FailWork implements bridge.LaneTx.
func (t *Tx) FailWork(w bridge.Work, due time.Time) error { return t.given(w, t.Tx.FailWork(w, due)) }

func (t *Tx) given(w bridge.Work, err error) error {
	if err == nil {
		t.Given = append(t.Given, w)
	}
	return err
}

// InsertNotice implements bridge.NoticeTx.
func (t *Tx) InsertNotice(n bridge.Notice) error {
	t.Notices = append(t.Notices, n)
	return t.Tx.InsertNotice(n)
}

// InsertCompletion implements bridge.LedgerTx.
func (t *Tx) InsertCompletion(c bridge.Completion) (bool, error) {
	isNew, err := t.Tx.InsertCompletion(c)
	if isNew {
		t.Finished = append(t.Finished, c)
	}
	return isNew, err
}

// Tokens returns the tokens in a text: an r, x or m and a number between angles.
func Tokens(text string) (all []string) {
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			return all
		}
		text = text[i:]
		end := strings.IndexByte(text, '>')
		if end > 1 && strings.IndexByte("rxm", text[1]) >= 0 {
			all = append(all, text[:end+1])
		}
		text = text[1:]
	}
}

// Statement is what an agent was told of joined results.
type Statement struct {
	// Before is the text before it.
	Before string
	// Seq is the number of the turn that launched, -1 when it cannot be read.
	Seq             int64
	Ended, Launched int
	// Late says that the deadline had passed.
	Late bool
	// Missing are the lines of those that had not ended.
	Missing []int
}

const joinedWords = "results of your turn "

// Statements reads what a turn's text says of joined results.
func Statements(text string) (all []Statement) {
	for from := 0; ; {
		i := strings.Index(text[from:], joinedWords)
		if i < 0 {
			return all
		}
		i += from
		end := i + strings.Index(text[i:]+"\n\n", "\n\n")
		s := Statement{Before: text[:i], Late: strings.Contains(text[i:end], "the deadline has passed")}
		if _, err := fmt.Sscanf(text[i:end], joinedWords+"%d, joined: %d of its %d subagents", &s.Seq, &s.Ended, &s.Launched); err != nil {
			s.Seq = -1
		}
		for line := range strings.Lines(text[i:end]) {
			var n int
			if _, err := fmt.Sscanf(strings.TrimSpace(line), "missing: line %d (", &n); err == nil {
				s.Missing = append(s.Missing, n)
			}
		}
		all, from = append(all, s), end
	}
}
