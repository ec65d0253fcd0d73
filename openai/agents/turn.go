package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/openai/upstream"
)

// turn is the answer of an agent under way. The agent's turn does not end with it.
type turn struct {
	o Options
	// id is the turn that said the words first; a failed one is tried again under another id.
	id    bridge.TurnID
	agent bridge.AgentID
	ex    *exchange

	gone chan struct{} // closed by Cancel
	once sync.Once

	// The rest is of Next alone.
	queue []upstream.Event
	told  string
	doubt time.Time
	over  bool
}

func newTurn(o Options, t bridge.Turn, ex *exchange) *turn {
	return &turn{o: o, id: t.ID, agent: t.Agent, ex: ex, gone: make(chan struct{})}
}

// Ref implements [upstream.Turn].
func (t *turn) Ref() string { return string(t.id) }

// Cancel implements [upstream.Turn]: the caller's tools are not there any more, and nobody waits. The agent goes on: others may wait
// for what it does, and its answer stays in the record.
func (t *turn) Cancel(context.Context) error {
	t.once.Do(func() {
		t.ex.close()
		close(t.gone)
	})
	return nil
}

// Deliver implements [upstream.Turn].
func (t *turn) Deliver(ctx context.Context, results []upstream.Result) error {
	return t.ex.deliver(ctx, results)
}

// Next implements [upstream.Turn].
func (t *turn) Next(ctx context.Context) (upstream.Event, error) {
	changes, stop := t.o.Engine.Watch()
	defer stop()
	for {
		if len(t.queue) > 0 {
			e := t.queue[0]
			t.queue = t.queue[1:]
			return e, nil
		}
		select {
		case <-t.gone:
			return upstream.Event{}, io.EOF
		default:
		}
		if t.over {
			return upstream.Event{}, io.EOF
		}
		called := t.ex.changes()
		wait, err := t.step(ctx)
		if err != nil {
			return upstream.Event{}, err
		}
		if len(t.queue) > 0 {
			continue
		}
		if err := t.pause(ctx, wait, changes, called); err != nil {
			return upstream.Event{}, err
		}
	}
}

// pause waits until something changes, at most for a span when it is not 0.
func (t *turn) pause(ctx context.Context, span time.Duration, changes <-chan struct{}, called <-chan struct{}) error {
	var timer <-chan time.Time
	if span > 0 {
		clock := time.NewTimer(span)
		defer clock.Stop()
		timer = clock.C
	}
	select {
	case <-changes:
	case <-called:
	case <-timer:
	case <-t.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// step puts what is new into the queue, or says how long to wait at most.
func (t *turn) step(ctx context.Context) (wait time.Duration, err error) {
	if t.ex.isParked() { // the results come first
		return 0, nil
	}
	calls, parks, wait := t.ex.take(t.o.Now())
	for _, c := range calls {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.CallPiece, Index: c.index, ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)})
	}
	if parks {
		if err := t.ex.park(ctx); err != nil {
			return 0, err
		}
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Parked})
	}
	if len(t.queue) > 0 || wait > 0 {
		return wait, nil
	}
	s, err := t.look(ctx)
	if err != nil {
		return 0, err
	}
	switch s.turn.State {
	case bridge.TurnReplied:
		return 0, t.replied(s)
	case bridge.TurnFailed:
		return 0, t.failed(s.turn)
	}
	return t.progress(s)
}

// sight is a turn as it stands.
type sight struct {
	turn  bridge.Turn
	agent bridge.Agent
	// text is the answer.
	text string
	// behind is set when another turn of the agent is under way.
	behind bool
}

// maxTries bounds how many later turns are searched for another try.
const maxTries = 100

// look reads the turn that says the words now: a turn that failed may have been followed by another try.
func (t *turn) look(ctx context.Context) (s sight, err error) {
	err = t.o.Engine.View(ctx, func(tx *bridge.Scene) (err error) {
		s = sight{}
		if s.turn, err = tx.Turn(t.id); err != nil {
			return err
		}
		if s.turn.State == bridge.TurnFailed {
			later, err := tx.Turns(bridge.TurnFilter{Agent: t.agent, Oldest: true, After: s.turn.Seq, Limit: maxTries})
			if err != nil {
				return err
			}
			for _, again := range later {
				if s.turn.State == bridge.TurnFailed && slices.ContainsFunc(again.Said, func(w bridge.Said) bool { return w.Turn == t.id }) {
					s.turn = again
				}
			}
		}
		if s.agent, err = tx.Agent(t.agent); err != nil {
			return err
		}
		if s.turn.State == bridge.TurnReplied {
			s.text, err = answerOf(tx, s)
			return err
		}
		if s.turn.State == bridge.TurnQueued {
			head, err := tx.CurrentTurn(t.agent)
			if err != nil && !errors.Is(err, bridge.ErrNoRow) {
				return err
			}
			s.behind = err == nil && !head.State.Over()
		}
		return nil
	})
	return s, err
}

// NoResult is the answer of a chat model that ended its turn without the tool complete. Its own text reaches nobody.
const NoResult = "The agent ended its turn without a result."

// answerOf is the text of a turn that is over: the reply, or of an agent with tools alone what it gave to the tool complete.
func answerOf(tx *bridge.Scene, s sight) (string, error) {
	if !s.agent.Silent() {
		return s.turn.Reply, nil
	}
	result := ""
	for after := int64(0); ; {
		all, err := tx.RunMessages(s.turn.ID, after, 100)
		if err != nil {
			return "", err
		}
		for _, m := range all {
			after = m.Seq
			if m.Kind != bridge.ToolReturnMessage || m.Name != "complete" && !strings.HasSuffix(m.Name, "_complete") || bridge.RecordedReturn(m).Failed {
				continue
			}
			text, err := completed(tx, m)
			if err != nil {
				return "", err
			}
			result = cmp.Or(text, result)
		}
		if len(all) < 100 {
			return cmp.Or(result, NoResult), nil
		}
	}
}

// completed is the text that a call of complete wrote.
func completed(tx *bridge.Scene, m bridge.RunMessage) (string, error) {
	var sent struct {
		Message bridge.MessageID `json:"message_id"`
	}
	if json.Unmarshal([]byte(m.Payload), &sent) != nil || sent.Message == "" {
		return "", nil
	}
	wrote, err := tx.Message(sent.Message)
	if errors.Is(err, bridge.ErrNoRow) {
		return "", nil
	}
	return strings.TrimPrefix(wrote.Text, "Completed: "), err
}

// replied ends the answer with its text.
func (t *turn) replied(s sight) error {
	t.end()
	if s.text != "" {
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Text, Text: s.text})
	}
	t.queue = append(t.queue, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
	return nil
}

// failed ends the answer with what went wrong.
func (t *turn) failed(f bridge.Turn) error {
	t.end()
	return &upstream.Error{Type: "upstream_error", Code: "agent_turn_failed",
		Message: "the agent's turn failed", Said: plain(cmp.Or(f.Trouble, string(f.Status), "its runtime does not say why"))}
}

func (t *turn) end() {
	t.over = true
	t.ex.close()
}

// progress tells how the turn stands, once for each change.
func (t *turn) progress(s sight) (wait time.Duration, err error) {
	now := t.o.Now()
	if s.turn.State != bridge.TurnUncertain {
		t.doubt = time.Time{}
	} else {
		if t.doubt.IsZero() {
			t.doubt = now
		}
		if wait = t.doubt.Add(t.o.Doubt).Sub(now); wait <= 0 {
			t.end()
			return 0, &upstream.Error{Type: "upstream_error", Code: "agent_turn_uncertain",
				Message: "the bridge does not know whether the agent got this turn; ask the operator to check, and do not send the turn again before that"}
		}
	}
	if line := s.line(now); line != t.told {
		t.told = line
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Reasoning, Text: line + "\n"})
	}
	return wait, nil
}

// line says in one line how a turn stands.
func (s sight) line(now time.Time) string {
	name, trouble := s.agent.Name, ""
	if s.turn.Trouble != "" {
		trouble = ": " + plain(s.turn.Trouble)
	}
	switch {
	case s.turn.State == bridge.TurnUncertain:
		return "The bridge does not know yet whether " + name + " got this turn" + trouble
	case s.agent.NotBefore.After(now):
		return name + " is paused by a limit until " + clock(s.agent.NotBefore)
	case s.turn.State == bridge.TurnQueued && s.behind:
		return name + " is busy with another turn; this one has been queued since " + clock(s.turn.CreatedAt)
	case s.turn.State == bridge.TurnQueued:
		return "The turn has been queued since " + clock(s.turn.CreatedAt) + trouble
	case s.turn.State == bridge.TurnDelivering:
		return name + " gets the turn" + trouble
	}
	switch s.agent.Doing {
	case "", bridge.DoingIdle:
		return name + " has been working since " + clock(s.turn.SentAt)
	case bridge.DoingAsking:
		return name + " has asked a person and has been waiting since " + clock(s.agent.DoingSince)
	case bridge.DoingQueued:
		return name + " has been waiting for a slot on its machine since " + clock(s.agent.DoingSince)
	}
	return fmt.Sprintf("%s has been %s since %s", name, s.agent.Doing, clock(s.agent.DoingSince))
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05") + " UTC" }
