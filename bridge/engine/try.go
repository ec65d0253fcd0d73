package engine

import (
	"context"
	"errors"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Try says what would come of a text if an agent wrote it as its next reply, and records nothing. Without an agent, the general
// lists alone count. An agent that nobody knows is NotFound, and one whose text is not read a Conflict.
func (e *Engine) Try(ctx context.Context, agent bridge.AgentID, text string) (f parser.Findings, judged policy.Judgement, err error) {
	f = parser.Read(text, e.o.Parser)
	err = e.View(ctx, func(tx *bridge.Scene) (err error) {
		c := e.look(tx)
		by := &asker{Turn: &bridge.Turn{}}
		if agent != "" {
			if by, err = c.next(agent); err != nil {
				return err
			}
		}
		if over := c.over(by, f, ""); over != "" {
			judged = policy.Judgement{OverCap: over}
			for range f.Commands {
				judged.Verdicts = append(judged.Verdicts, refusedFor(over))
			}
			return nil
		}
		if agent == "" {
			judged = c.policy().Judge(policy.Request{Commands: f.Commands})
			return nil
		}
		r, err := c.request(by, f.Commands)
		if err != nil {
			return err
		}
		judged = c.judgement(by.Agent, r)
		return c.tryReminders(by.Agent, f.Commands, judged.Verdicts)
	})
	return f, judged, notFound(err, "agent", string(agent))
}

// next is an agent in the turn whose reply comes next.
func (c *change) next(id bridge.AgentID) (by *asker, err error) {
	by = &asker{Turn: &bridge.Turn{Seq: 1}}
	if by.Agent, err = c.Agent(id); err != nil {
		return nil, err
	}
	if err := by.Agent.MayAct(); err != nil {
		return nil, err
	}
	if by.Agent.Silent() {
		return nil, bridge.Errorf(bridge.Conflict, "agent %s acts only through tools, so the bridge reads no commands in its replies", by.Agent.Name)
	}
	switch t, err := c.heard(id); {
	case errors.Is(err, bridge.ErrNoRow):
	case err != nil:
		return nil, err
	case t.State.Over():
		by.Turn.Seq = t.Seq + 1
	default:
		by.Turn.Seq = t.Seq
	}
	if by.Names, err = c.Lineage(by.Agent); err != nil {
		return nil, err
	}
	by.Tree, err = c.Scene.Tree(by.Agent.Root)
	return by, err
}

// tryReminders refuses reminders that could not be set.
func (c *change) tryReminders(a bridge.Agent, commands []parser.Command, verdicts []policy.Verdict) error {
	for i, cmd := range commands {
		if cmd.Verb != parser.Remind || verdicts[i].Decision != policy.Granted {
			continue
		}
		m := bridge.Command{Parsed: cmd}
		if err := setDue(c, a, &m); err != nil {
			return err
		}
		if m.Due.IsZero() {
			verdicts[i] = policy.Verdict{Decision: policy.Refused, Code: policy.Code(m.Code), Reason: m.Reason}
		}
	}
	return nil
}
