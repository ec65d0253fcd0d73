package engine

import (
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// summary words what the bridge recorded of a subagent, for a parent that asks by
// a line of its reply. A task that still goes on has no result to tell. The notice has no
// addressee yet; what the subagent wrote stands in Untrusted.
func (c *change) summary(a bridge.Agent, line int) (bridge.Notice, error) {
	n := bridge.Notice{Source: bridge.OriginTree, Author: a.Name}
	m, err := c.Command(a.Command)
	if err != nil {
		return n, fmt.Errorf("load the command of %q: %w", a.ID, err)
	}
	if reported, err := c.reportedResult(a, m); err != nil || reported.ID != "" {
		n.Text, n.Untrusted = words.Summary(line, a)+words.Reported(a, ""), reported.Text
		return n, err
	}
	said, err := c.resultTurn(a, m)
	if err != nil {
		return n, err
	}
	if said.ID == "" {
		n.Text = words.NoResult(line, a, m)
		return n, nil
	}
	result, err := c.resultOf(a, said)
	if err != nil {
		return n, err
	}
	n.Text, n.Untrusted = words.Summary(line, a)+result.Text, result.Untrusted
	return n, nil
}

// reportedResult is the message in which a subagent reported its result itself, the
// zero message when it did not.
func (c *change) reportedResult(a bridge.Agent, m bridge.Command) (bridge.Message, error) {
	if a.Task != bridge.TaskDone || m.Outcome == nil || m.Outcome.Message == "" {
		return bridge.Message{}, nil
	}
	said, err := c.Message(m.Outcome.Message)
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Message{}, nil
	}
	return said, err
}

// resultTurn is the turn that holds the result of a subagent's task: the newest one
// with a run that had ended when the task did. The zero turn when the task still
// goes on, or when no run of it ended.
func (c *change) resultTurn(a bridge.Agent, m bridge.Command) (bridge.Turn, error) {
	if a.Task != bridge.TaskDone && a.Task != bridge.TaskFailed {
		return bridge.Turn{}, nil
	}
	until, err := c.taskEnded(a, m)
	if err != nil {
		return bridge.Turn{}, err
	}
	for before := int64(0); ; {
		page, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Before: before})
		if err != nil || len(page) == 0 {
			return bridge.Turn{}, err
		}
		for _, t := range page {
			if t.State.Over() && t.Status != "" && (until.IsZero() || !t.EndedAt.After(until)) {
				return t, nil
			}
		}
		before = page[len(page)-1].Seq
	}
}

// taskEnded is when a task ended well, to the millisecond after; the zero time when
// any later turn may still hold the result.
func (c *change) taskEnded(a bridge.Agent, m bridge.Command) (time.Time, error) {
	if m.Outcome == nil || m.Outcome.Status != string(bridge.RunFinished) {
		return time.Time{}, nil
	}
	first, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Before: 2, Limit: 1})
	if err != nil || len(first) == 0 {
		return time.Time{}, err
	}
	return first[0].SentAt.Add(time.Duration(m.Outcome.DurationMS+1) * time.Millisecond), nil
}
