package engine

import (
	"context"
	"errors"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// Answer is a text that acts as an agent though the agent did not write it: a model behind a door did, whose token names the agent.
type Answer struct {
	// Turn is the id under which it is recorded as a turn that is over; it begins with SpokenMark. A repeat under it does nothing.
	Turn bridge.TurnID
	// Author names the program in whose conversation the text was written.
	Author string
	// Read is what the model read, which is outside text: a command that stands there is held.
	Read string
	Text string
}

// SpokenMark begins the ids of turns that Act records.
const SpokenMark = "trn_act"

// Act has an answer pass parser and gate as the agent's. What comes of it wakes no agent: this agent hears of it with its next turn. Conflict when
// the agent waits for a person, or may not act.
func (e *Engine) Act(ctx context.Context, id bridge.AgentID, w Answer) error {
	found := parser.Read(w.Text, e.o.Parser)
	return notFound(e.update(ctx, func(c *change) error {
		if _, err := c.Turn(w.Turn); !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
		a, err := c.Agent(id)
		if err != nil {
			return err
		}
		if a.Quarantined || a.State == bridge.AgentGated {
			return bridge.Errorf(bridge.Conflict, "agent %s waits for the operator: %s; nothing of this answer ran", a.Name, a.Trouble)
		}
		if err := errors.Join(a.MayAct(), c.notStopped(a.Root)); err != nil {
			return err
		}
		t := bridge.Turn{ID: w.Turn, Agent: id, Cause: bridge.CauseMessage, Depth: 1, State: bridge.TurnReplied, Status: bridge.RunFinished, Reply: w.Text, CreatedAt: c.now, SentAt: c.now, EndedAt: c.now}
		if t.Seq, err = c.InsertTurn(t); err != nil {
			return err
		}
		if err := c.hear(job{agent: a, turn: t}, echo.Heard{Text: w.Read, Mode: echo.Named, Source: bridge.EchoOutside, Author: w.Author, Place: "the conversation of " + w.Author}); err != nil {
			return err
		}
		if err := c.event(bridge.EventReply, a, bridge.Event{Turn: t.ID, Text: words.OneLine(w.Text, 300), Fields: map[string]string{"cause": string(t.Cause), "author": w.Author, "text": words.Clip(w.Text, words.Shown)}}); err != nil {
			return err
		}
		names, err := c.Lineage(a)
		if err != nil {
			return err
		}
		return c.judge(&asker{Agent: a, Turn: &t, Names: names, silent: true}, found, "")
	}, bridge.NeedStory{Agent: id}), "agent", string(id))
}

// spoken reports whether a turn was recorded by Act.
func spoken(id bridge.TurnID) bool { return strings.HasPrefix(string(id), SpokenMark) }
