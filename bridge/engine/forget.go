package engine

import (
	"context"
	"slices"
	"sync"

	"drawbridge/bridge"
)

// Forget gives the names of a dead agent and of everything under it back, so that another can have them, and takes them out of
// lists. Their records stay, under their ids. Their tokens end, they get no more turns, and their processes at relays end. An agent is dead when it
// failed, is done, or its tree was stopped.
// Conflict for one that may go on, has a turn under way or commands that are open. Twice is fine.
func (e *Engine) Forget(ctx context.Context, id bridge.AgentID) (a bridge.Agent, err error) {
	var dead []bridge.Agent
	err = e.update(ctx, func(c *change) error {
		dead = nil
		if a, err = c.Agent(id); err != nil || a.Forgotten() {
			return err
		}
		if dead, err = c.below(a); err != nil {
			return err
		}
		tree, err := c.Tree(a.Root)
		if err != nil {
			return err
		}
		for _, d := range dead {
			if err := c.mustBeDead(d, tree.Stopped()); err != nil {
				return err
			}
		}
		for i := range dead {
			if err := c.forget(&dead[i]); err != nil {
				return err
			}
		}
		a, err = c.Agent(id)
		return err
	})
	if err == nil {
		e.releaseAll(ctx, dead)
	}
	return a, notFound(err, "agent", string(id))
}

// releaseAll ends the processes of agents at relays, all at the same time.
func (e *Engine) releaseAll(ctx context.Context, agents []bridge.Agent) {
	var released sync.WaitGroup
	for _, a := range agents {
		if a.External != "" {
			released.Go(func() { e.release(ctx, refOf(a)) })
		}
	}
	released.Wait()
}

// below are an agent and everything under it.
func (c *change) below(top bridge.Agent) ([]bridge.Agent, error) {
	parent, all := map[bridge.AgentID]bridge.AgentID{}, []bridge.Agent(nil)
	err := c.EachAgent(top.Root, func(a bridge.Agent) error {
		parent[a.ID] = a.Parent
		all = append(all, a)
		return nil
	})
	return slices.DeleteFunc(all, func(a bridge.Agent) bool {
		at := a.ID
		for at != "" && at != top.ID {
			at = parent[at]
		}
		return at == ""
	}), err
}

// openStates are those of a command whose effect may still come.
var openStates = []bridge.CommandState{bridge.CommandHeld, bridge.CommandGranted, bridge.CommandSending, bridge.CommandConfirmed, bridge.CommandUncertain}

func (c *change) mustBeDead(a bridge.Agent, stopped bool) error {
	if !stopped && a.State != bridge.AgentFailed && a.State != bridge.AgentDone {
		return bridge.Errorf(bridge.Conflict, "agent %s is %s and could still do work; stop its tree first with `drawbridge stop %s`, then forget it", a.Name, a.State, a.Root)
	}
	if open, err := c.HasOpenTurn(a.ID); err != nil {
		return err
	} else if open {
		return bridge.Errorf(bridge.Conflict, "agent %s has a turn under way; wait for its end, or settle it if it is uncertain (`drawbridge turns %s`)", a.Name, a.Name)
	}
	for _, state := range openStates {
		open, err := c.Commands(bridge.CommandFilter{Agent: a.ID, State: state, Limit: 1})
		if err != nil {
			return err
		}
		if len(open) > 0 {
			return bridge.Errorf(bridge.Conflict, "command %s of agent %s is %s; settle it first (`drawbridge commands --agent %s`)", open[0].ID, a.Name, state, a.Name)
		}
	}
	return nil
}

// notForgotten returns a Conflict for an agent that was forgotten: it gets no turns.
func notForgotten(a bridge.Agent) error {
	if !a.Forgotten() {
		return nil
	}
	return bridge.Errorf(bridge.Conflict, "agent %s was forgotten and gets no turns; launch another one", a.ID)
}

func (c *change) forget(a *bridge.Agent) error {
	if a.Forgotten() {
		return nil
	}
	name := a.Name
	a.Forget()
	// ChatUser stays: a user's next agent has the next number, so that no user meets a number of turns twice.
	a.Role, a.UpdatedAt = "", c.now
	if err := c.UpdateAgent(*a); err != nil {
		return err
	}
	if _, err := c.RevokeTokens(a.ID, c.now); err != nil {
		return err
	}
	return c.event(bridge.EventForgotten, *a, bridge.Event{Text: "agent " + name + " was forgotten; its name is free"})
}
