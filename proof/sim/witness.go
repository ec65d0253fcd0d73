package sim

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
)

// watchedTx is a transaction under observation. What it saw counts once the
// transaction has committed. Its methods are those of bridge.Tx.
type watchedTx struct {
	bridge.Tx
	// edges are the changes of state, illegal those that no state machine knows.
	edges, illegal []Edge
	notices        []bridge.Notice
	// finished are ends of runs that were not on record.
	finished []bridge.Completion
	// begun are turns that went out, ended those whose run's end was taken over.
	begun, ended []bridge.Turn
	// metered are the agents of which another usage was recorded, queued those that got a turn.
	metered, queued []bridge.AgentID
	// claimed is work that was taken, handedBack what was given back or finished.
	claimed, handedBack []bridge.Work
	// troubles are what was said of agents that were gated.
	troubles []string
}

func moved[S interface {
	~string
	CanBecome(S) bool
}](t *watchedTx, noun string, from, to S) {
	if from == to {
		return
	}
	e := Edge{Noun: noun, From: string(from), To: string(to)}
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

// InsertTurn implements bridge.TurnTx.
func (t *watchedTx) InsertTurn(r bridge.Turn) (int64, error) {
	t.queued = append(t.queued, r.Agent)
	return t.Tx.InsertTurn(r)
}

// UpdateTurn implements bridge.TurnTx.
func (t *watchedTx) UpdateTurn(r bridge.Turn) error {
	if was, err := t.Turn(r.ID); err == nil {
		moved(t, "turn", was.State, r.State)
		switch {
		case was.State == bridge.TurnQueued && r.State == bridge.TurnDelivering:
			t.begun = append(t.begun, r)
		case was.State == bridge.TurnRunning && r.State.Over() && r.Status != "":
			t.ended = append(t.ended, r)
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

// FinishWork implements bridge.LaneTx.
func (t *watchedTx) FinishWork(w bridge.Work) error { return t.given(w, t.Tx.FinishWork(w)) }

// PutBack implements bridge.LaneTx.
func (t *watchedTx) PutBack(w bridge.Work, due time.Time) error {
	return t.given(w, t.Tx.PutBack(w, due))
}

// PutOff implements bridge.LaneTx.
func (t *watchedTx) PutOff(w bridge.Work, due time.Time) error {
	return t.given(w, t.Tx.PutOff(w, due))
}

// FailWork implements bridge.LaneTx.
func (t *watchedTx) FailWork(w bridge.Work, due time.Time) error {
	return t.given(w, t.Tx.FailWork(w, due))
}

func (t *watchedTx) given(w bridge.Work, err error) error {
	if err == nil {
		t.handedBack = append(t.handedBack, w)
	}
	return err
}

// InsertNotice implements bridge.NoticeTx.
func (t *watchedTx) InsertNotice(n bridge.Notice) error {
	t.notices = append(t.notices, n)
	return t.Tx.InsertNotice(n)
}

// InsertCompletion implements bridge.LedgerTx.
func (t *watchedTx) InsertCompletion(c bridge.Completion) (bool, error) {
	isNew, err := t.Tx.InsertCompletion(c)
	if isNew {
		t.finished = append(t.finished, c)
	}
	return isNew, err
}

// tokensIn returns the tokens in a text: an r, x or m and a number between angles.
func tokensIn(text string) (all []string) {
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

// joinStatement is what an agent was told of joined results.
type joinStatement struct {
	// before is the text before it.
	before string
	// seq is the number of the turn that launched, -1 when it cannot be read.
	seq             int64
	ended, launched int
	// late says that the deadline had passed.
	late bool
	// missing are the lines of those that had not ended.
	missing []int
}

const joinedWords = "results of your turn "

// joinStatements reads what a turn's text says of joined results.
func joinStatements(text string) (all []joinStatement) {
	for from := 0; ; {
		i := strings.Index(text[from:], joinedWords)
		if i < 0 {
			return all
		}
		i += from
		end := i + strings.Index(text[i:]+"\n\n", "\n\n")
		s := joinStatement{before: text[:i], late: strings.Contains(text[i:end], "the deadline has passed")}
		if _, err := fmt.Sscanf(text[i:end], joinedWords+"%d, joined: %d of its %d subagents", &s.seq, &s.ended, &s.launched); err != nil {
			s.seq = -1
		}
		for line := range strings.Lines(text[i:end]) {
			var n int
			if _, err := fmt.Sscanf(strings.TrimSpace(line), "missing: line %d (", &n); err == nil {
				s.missing = append(s.missing, n)
			}
		}
		all, from = append(all, s), end
	}
}
