package engine

import (
	"context"
	"errors"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// spend counts one turn of the tree, however often it is sent, or says why the
// tree may not have another.
func (c *change) spend(j *job) (refused string, err error) {
	used, tree, err := c.TreeUsage(j.agent.Root)
	if err != nil {
		return "", err
	}
	if j.turn.Attempts > 0 {
		used.Turns-- // itself, when it was sent first
	}
	if refused = c.policy().TurnRefused(j.names, used); refused != "" || j.turn.Attempts > 0 {
		return refused, nil
	}
	tree.Turns++
	return "", c.PutTree(tree)
}

// broke keeps a turn that the tree's budget does not reach for. It is looked at
// again, because the operator may raise the budget; a launch is given up and
// reported instead, so that its parent can plan again.
func (c *change) broke(j *job, why string) error {
	if j.asked() {
		return c.failTurn(j, why)
	}
	if j.turn.Trouble != why || j.agent.State != bridge.AgentGated {
		j.turn.Trouble, j.agent.Trouble = why, why
		if err := c.UpdateTurn(j.turn); err != nil {
			return err
		}
		if err := c.setAgent(&j.agent, bridge.AgentGated); err != nil {
			return err
		}
		if err := c.event(bridge.EventGated, j.agent, bridge.Event{Turn: j.turn.ID, Text: why}); err != nil {
			return err
		}
	}
	return c.PutBack(j.work, c.now.Add(budgetLook))
}

// budgetLook is how often a turn without a budget asks whether there is one by now.
const budgetLook = time.Minute

// Stop ends everything under a root, the root included, and keeps it stopped
// until Resume, over restarts too: queued turns and commands that wait are
// given up, runs are cancelled by the handlers that watch them, and nothing
// that any of the agents says from now on runs. Results that come all the same
// are kept. Twice is fine. Conflict when the agent is no root.
func (e *Engine) Stop(ctx context.Context, root bridge.AgentID, why string) (bridge.Tree, error) {
	var tree bridge.Tree
	err := e.update(ctx, func(c *change) error {
		a, err := c.root(root)
		if err != nil {
			return err
		}
		if tree, err = c.Tree(root); err != nil || tree.Stopped() {
			return err
		}
		tree.StoppedAt, tree.Why = c.now, words.SafeLine(why, 300)
		if err := c.PutTree(tree); err != nil {
			return err
		}
		if err := c.event(bridge.EventStopped, a, bridge.Event{Text: words.Stopped(tree)}); err != nil {
			return err
		}
		return c.EachAgent(root, func(a bridge.Agent) error { return c.stopAgent(a, words.Stopped(tree)) })
	})
	return tree, notFound(err, "agent", string(root))
}

// StopTurn ends one turn: a queued one is not sent, a run is cancelled, and no command of its reply runs. The turn fails soon after. Its agent then
// waits for a person's word: what else waits for it comes with that. What the turn told is told again only if the agent did not get it. Twice is fine.
// Conflict when the turn has ended, or when nobody knows whether the agent got it.
func (e *Engine) StopTurn(ctx context.Context, id bridge.TurnID) (bridge.Turn, error) {
	return e.onTurn(ctx, id, func(c *change) (bridge.Turn, error) {
		t, err := c.Turn(id)
		switch {
		case err != nil:
			return t, err
		case t.State.Over():
			return t, bridge.Errorf(bridge.Conflict, "turn %s has ended (%s); there is nothing to stop", id, t.State)
		case t.State == bridge.TurnUncertain:
			return t, bridge.Errorf(bridge.Conflict, "turn %s is uncertain: the bridge does not know whether the agent got it; `drawbridge turns %s` shows what to do", id, t.Agent)
		case t.Stopped:
			return t, nil
		}
		a, err := c.Agent(t.Agent)
		if err != nil {
			return t, err
		}
		t.Stopped = true
		if err := c.UpdateTurn(t); err != nil {
			return t, err
		}
		if err := c.event(bridge.EventStopped, a, bridge.Event{Turn: id, Text: words.TurnStopped}); err != nil {
			return t, err
		}
		return t, c.WakeLane(agentLane(a.ID), c.now) // its handler does the rest
	})
}

// root loads an agent that has no parent.
func (c *change) root(id bridge.AgentID) (bridge.Agent, error) {
	a, err := c.Agent(id)
	if err != nil || a.Parent == "" {
		return a, err
	}
	root, err := c.Agent(a.Root)
	if err != nil {
		return a, err
	}
	return a, bridge.Errorf(bridge.Conflict, "agent %s has a parent; name the agent at the top of its tree, %s", a.Name, root.Name)
}

func (c *change) stopAgent(a bridge.Agent, why string) error {
	for _, state := range []bridge.CommandState{bridge.CommandHeld, bridge.CommandGranted} {
		if err := c.dropCommands(a, state, why); err != nil {
			return err
		}
	}
	queued, err := c.Turns(bridge.TurnFilter{Agent: a.ID, State: bridge.TurnQueued, Limit: 1000})
	if err != nil {
		return err
	}
	for _, t := range queued {
		j, err := c.e.loadJob(c.Scene, bridge.Work{Ref: string(t.ID)})
		if err != nil {
			return err
		}
		if err := c.giveUp(&j, why); err != nil {
			return err
		}
	}
	if a, err = c.Agent(a.ID); err != nil {
		return err
	}
	if _, err := c.OpenTurn(a.ID); err == nil {
		return c.WakeLane(agentLane(a.ID), c.now) // its handler cancels the run
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	return c.shut(&a, why)
}

// dropCommands ends an agent's commands that wait in one state. Launches end
// with the turn that would have made the child.
func (c *change) dropCommands(a bridge.Agent, state bridge.CommandState, why string) error {
	all, err := c.Commands(bridge.CommandFilter{Agent: a.ID, State: state, Limit: 1000})
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Child != "" {
			continue
		}
		if err := c.failCommand(&m, why); err != nil {
			return err
		}
		if err := c.tellLater(a, m, words.Say("%s (%s): given up: %s", words.OfTurn(m.Parsed.Line), m.Parsed.Verb, words.Own(why))); err != nil {
			return err
		}
		if err := c.WakeLane(errandLane(m), c.now); err != nil { // its handler finds it over
			return err
		}
	}
	return nil
}

// Resume lets a stopped tree go on: what waits for its agents is told to them,
// what their cancelled turns carried too. What was given up stays given up, and
// an agent that failed by itself waits for a person's word. Twice is fine.
func (e *Engine) Resume(ctx context.Context, root bridge.AgentID) (bridge.Tree, error) {
	var tree bridge.Tree
	err := e.update(ctx, func(c *change) error {
		a, err := c.root(root)
		if err != nil {
			return err
		}
		if tree, err = c.Tree(root); err != nil || !tree.Stopped() {
			return err
		}
		tree.StoppedAt, tree.Why = time.Time{}, ""
		if err := c.PutTree(tree); err != nil {
			return err
		}
		if err := c.event(bridge.EventResumed, a, bridge.Event{Text: "the operator let the tree go on"}); err != nil {
			return err
		}
		return c.EachAgent(root, func(a bridge.Agent) error {
			if a.State != bridge.AgentGated {
				return nil
			}
			if _, err := c.OpenTurn(a.ID); !errors.Is(err, bridge.ErrNoRow) {
				return err // it goes on by itself
			}
			a.Trouble = ""
			if err := c.settle(&a); err != nil {
				return err
			}
			return c.pump(&a)
		})
	})
	return tree, notFound(err, "agent", string(root))
}

// cancelRun ends a run that a person stopped. Whatever comes of it, the run is
// looked at afterwards: only the API knows how it ended.
func (e *Engine) cancelRun(ctx context.Context, j job) {
	if err := e.o.Runtime.Cancel(ctx, runOf(j)); err != nil {
		e.lookFailed(j).Err(err).Str("turn", string(j.turn.ID)).Msg("cancel a run that a person stopped")
	}
}
