package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// SetJoin says how the results of the subagents that one turn launches come
// back to an agent. It holds for turns that end from now on. A within of 0 is
// bridge.DefaultJoinWithin.
func (e *Engine) SetJoin(ctx context.Context, id bridge.AgentID, join bridge.Join, within time.Duration) (bridge.Agent, error) {
	within, err := join.Within(within)
	if err != nil {
		return bridge.Agent{}, err
	}
	var a bridge.Agent
	err = e.update(ctx, func(c *change) (err error) {
		if a, err = c.Agent(id); err != nil {
			return err
		}
		a.Join, a.JoinWithin, a.UpdatedAt = join, within, c.now
		return c.UpdateAgent(a)
	})
	return a, notFound(err, "agent", string(id))
}

// joinWork ends the wait for joined results at its deadline.
func (e *Engine) joinWork(ctx context.Context, w bridge.Work) error {
	return e.update(ctx, func(c *change) error {
		if err := c.FinishWork(w); err != nil {
			return err
		}
		t, err := c.Turn(bridge.TurnID(w.Ref))
		if err != nil || t.Joining == 0 {
			return err
		}
		f, err := c.FamilyOf(t.ID)
		if err != nil {
			return err
		}
		return c.releaseResults(t, f, "the deadline has passed")
	}, bridge.NeedWork{ID: w.ID}, bridge.NeedStory{Turn: bridge.TurnID(w.Ref)}, bridge.NeedHeld{Join: bridge.TurnID(w.Ref)})
}

// awaitResults makes a turn that launched several subagents wait for them, if its
// agent's policy says so. A held launch counts: a person may let it pass.
func (c *change) awaitResults(a bridge.Agent, t *bridge.Turn) error {
	need, _ := a.Join.Need()
	if need == 0 {
		return nil
	}
	f, err := c.FamilyOf(t.ID)
	if err != nil || len(f.Launched)+f.Held < 2 {
		return err
	}
	t.Joining = need
	if err := c.UpdateTurn(*t); err != nil {
		return err
	}
	return c.Enqueue(bridge.Work{Lane: "join/" + string(t.ID), Kind: bridge.WorkJoin, Ref: string(t.ID), Due: c.now.Add(a.JoinWithin), Share: bridge.TreeShare(bridge.WorkJoin, a.Root)})
}

// gatherResults tells the agent of joined results once enough subagents have ended.
func (c *change) gatherResults(t bridge.Turn) error {
	f, err := c.FamilyOf(t.ID)
	if err != nil {
		return err
	}
	ended := len(f.Launched) - len(f.Open)
	if len(f.Open) > 0 && (t.Joining < 0 || ended < t.Joining) {
		return nil
	}
	return c.releaseResults(t, f, "")
}

// releaseResults lets go of what is there and says what is missing. What ends later
// comes by itself.
func (c *change) releaseResults(t bridge.Turn, f bridge.Family, why string) error {
	t.Joining = 0
	if err := c.UpdateTurn(t); err != nil {
		return err
	}
	if _, err := c.ReleaseNotices(t.ID); err != nil || len(f.Launched) == 0 {
		return err // held launches alone bring nothing to tell
	}
	a, err := c.Agent(t.Agent)
	if err != nil {
		return err
	}
	text := words.Joined(words.Results{Seq: t.Seq, Launched: len(f.Launched), Open: f.Open, Held: f.Held, Why: why})
	if err := c.event(bridge.EventJoined, a, bridge.Event{Turn: t.ID, Text: strings.SplitN(string(text), "\n", 2)[0]}); err != nil {
		return err
	}
	return c.tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseCompletion, Depth: t.Depth, Text: text, Item: c.item(a, "joined", t.Name())})
}

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

// summarize answers a WEBHOOK_RESULT that an agent wrote: the agent's next turn
// tells what the bridge recorded of that subagent. The line proves nothing and
// starts nothing. A turn that asks for one subagent several times hears of it once.
func (c *change) summarize(by *asker, m bridge.Command) error {
	child, err := c.subagentOf(by.Agent, m.Parsed.AgentID)
	if err != nil || by.summed[child.ID] {
		return err
	}
	if by.summed == nil {
		by.summed = map[bridge.AgentID]bool{}
	}
	by.summed[child.ID] = true
	n := bridge.Notice{Text: words.NoSubagent(m.Parsed.Line)}
	if child.ID != "" {
		if n, err = c.summary(child, m.Parsed.Line); err != nil {
			return err
		}
	}
	return c.report(by, "summary "+string(child.ID), n)
}

// subagentOf finds a subagent of an agent by its id, its API's id or its name. It
// returns the zero agent for every other one, so that the answer tells nothing of
// other trees.
func (c *change) subagentOf(parent bridge.Agent, id string) (bridge.Agent, error) {
	for _, find := range []func() (bridge.Agent, error){
		func() (bridge.Agent, error) { return c.Agent(bridge.AgentID(id)) },
		func() (bridge.Agent, error) { return c.FindAgent(bridge.ByExternal, id) },
		func() (bridge.Agent, error) { return bridge.FindInTree(c.Scene, parent.Root, id) },
	} {
		a, err := find()
		switch {
		case err == nil && a.Parent == parent.ID:
			return a, nil
		case err != nil && !errors.Is(err, bridge.ErrNoRow) && bridge.KindOf(err) != bridge.NotFound && bridge.KindOf(err) != bridge.Conflict:
			return bridge.Agent{}, fmt.Errorf("find subagent %q: %w", id, err)
		}
	}
	return bridge.Agent{}, nil
}
