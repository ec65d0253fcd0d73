package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/policy"
)

// usageOf is what a tree has used, as the policy wants it. Launches and turns
// are counted in the transaction that grants them, so that nothing slips
// through between asking and counting.
func (c *change) usageOf(root bridge.AgentID) (policy.TreeUsage, bridge.Tree, error) {
	tree, err := c.Tree(root)
	if err != nil {
		return policy.TreeUsage{}, tree, err
	}
	open, err := c.CountOpenSubagents(root)
	return policy.TreeUsage{Launches: tree.Launches, Open: open, Turns: tree.Turns, Tokens: tree.Tokens, CostMicros: tree.CostMicros, Unmetered: tree.Unmetered}, tree, err
}

// spend counts one turn of the tree, however often it is sent, or says why the
// tree may not have another.
func (c *change) spend(j *job) (refused string, err error) {
	used, tree, err := c.usageOf(j.agent.Root)
	if err != nil {
		return "", err
	}
	if j.turn.Attempts > 0 {
		used.Turns-- // itself, when it was sent first
	}
	if refused = c.e.o.Policy().TurnRefused(j.names, used); refused != "" || j.turn.Attempts > 0 {
		return refused, nil
	}
	tree.Turns++
	return "", c.PutTree(tree)
}

// reserve counts one launch of the tree before it is sent.
func (c *change) reserve(root bridge.AgentID) error {
	tree, err := c.Tree(root)
	if err != nil {
		return err
	}
	tree.Launches++
	return c.PutTree(tree)
}

// broke keeps a turn that the tree's budget does not reach for. It is looked at
// again, because the operator may raise the budget; a launch is given up and
// reported instead, so that its parent can plan anew.
func (c *change) broke(j *job, why string) error {
	if j.launching() && j.command.ID != "" {
		return c.failTurn(j, why)
	}
	if j.turn.Trouble != why {
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

// meter takes over what the API says that the agent has used. Where a budget
// needs a number that nobody tells, the agent counts as unmetered, and the
// tree may do no more (fail closed).
func (c *change) meter(j *job, told *bridge.Usage) error {
	if told != nil && !told.CostKnown && c.e.o.Policy().Budget(j.names).CostUSD > 0 {
		told = nil
	}
	was := j.agent
	j.agent.Unmetered = told == nil
	if told != nil {
		j.agent.Tokens, j.agent.CostMicros = told.Tokens, told.CostMicros
	}
	if was.Tokens == j.agent.Tokens && was.CostMicros == j.agent.CostMicros && was.Unmetered == j.agent.Unmetered {
		return nil
	}
	if err := c.UpdateAgent(j.agent); err != nil {
		return err
	}
	tree, err := c.Tree(j.agent.Root)
	if err != nil {
		return err
	}
	tree.Tokens += j.agent.Tokens - was.Tokens
	tree.CostMicros += j.agent.CostMicros - was.CostMicros
	tree.Unmetered += one(j.agent.Unmetered) - one(was.Unmetered)
	return c.PutTree(tree)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stopped returns a Conflict when the tree under root was stopped.
func (c *change) stopped(root bridge.AgentID) error {
	tree, err := c.Tree(root)
	if err != nil || !tree.Stopped() {
		return err
	}
	return bridge.Errorf(bridge.Conflict, "%s; `drawbridge resume %s` lets it go on", words.Stopped(tree), root)
}

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
		tree.StoppedAt, tree.Why = c.now, words.OneLine(why, 300)
		if err := c.PutTree(tree); err != nil {
			return err
		}
		if err := c.event(bridge.EventStopped, a, bridge.Event{Text: words.Stopped(tree)}); err != nil {
			return err
		}
		return c.eachUnder(root, func(a bridge.Agent) error { return c.stopAgent(a, words.Stopped(tree)) })
	})
	return tree, notFound(err, "agent", string(root))
}

// root loads an agent that has no parent.
func (c *change) root(id bridge.AgentID) (bridge.Agent, error) {
	a, err := c.Agent(id)
	if err == nil && a.Parent != "" {
		err = bridge.Errorf(bridge.Conflict, "agent %s is under another one; name its root, %s", a.Name, a.Root)
	}
	return a, err
}

// eachUnder calls fn for every agent of a tree, newest first.
func (c *change) eachUnder(root bridge.AgentID, fn func(bridge.Agent) error) error {
	const page = 500
	f := bridge.AgentFilter{Root: root, Limit: page}
	for {
		agents, err := c.Agents(f)
		if err != nil {
			return err
		}
		for _, a := range agents {
			if err := fn(a); err != nil {
				return err
			}
			f.Before = a.ID
		}
		if len(agents) < page {
			return nil
		}
	}
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
		j, err := loadJob(c.Tx, bridge.Work{Ref: string(t.ID)})
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
		if err := c.tellLater(a, m, fmt.Sprintf("line %d of your turn (%s): given up: %s", m.Parsed.Line, m.Parsed.Verb, why)); err != nil {
			return err
		}
		if err := c.WakeLane(errandLane(m), c.now); err != nil { // its handler finds it over
			return err
		}
	}
	return nil
}

// tellLater leaves a quiet notice about a command's end.
func (c *change) tellLater(a bridge.Agent, m bridge.Command, text string) error {
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	return c.notify(bridge.Notice{Agent: a.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Quiet: true, Commands: []bridge.CommandID{m.ID}, Text: text})
}

// shut closes an agent that does nothing now until a person lets it go on.
func (c *change) shut(a *bridge.Agent, why string) error {
	if a.State == bridge.AgentGated || !a.State.CanBecome(bridge.AgentGated) {
		return nil
	}
	a.Trouble = why
	return c.setAgent(a, bridge.AgentGated)
}

// Resume lets a stopped tree go on: what waits for its agents is told to them.
// What was given up stays given up, and an agent that failed waits for a
// person's word. Twice is fine.
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
		return c.eachUnder(root, func(a bridge.Agent) error {
			if a.State != bridge.AgentGated {
				return nil
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

// cancelRun ends a run of a stopped tree. Whatever comes of it, the run is
// looked at afterwards: only the API knows how it ended.
func (e *Engine) cancelRun(ctx context.Context, j job) {
	if err := e.o.Runtime.Cancel(ctx, runOf(j)); err != nil {
		e.o.Log.Warn().Err(err).Str("turn", string(j.turn.ID)).Msg("cancel a run of a stopped tree")
	}
}
