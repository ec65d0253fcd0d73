package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
	"drawbridge/policy"
)

// Spec is what a person wants launched.
type Spec struct {
	// Name is unique; 1 to 64 characters of a-z, A-Z, 0-9, dot, dash and underscore.
	Name string
	Repo string
	// Ref is where the agent starts from; empty is the default branch.
	Ref    string
	Prompt string
	// Role is what narrows the agent besides its name; see bridge.Agent.
	Role string
	// API overrides the version of the Cloud Agents API; empty leaves it to the rules and the configuration.
	API string
	// Runtime is where the agent and all below it will live. Empty leaves it to the
	// rule, and then to the cloud. API must be empty for every Runtime but the cloud.
	Runtime  string
	ChatUser string
	// Join and JoinWithin say how results of several subagents come back; see SetJoin.
	Join       bridge.Join
	JoinWithin time.Duration
	// Blocks are the agent's first memory blocks, by label, each of at most what package memory takes. They are there before its
	// first turn.
	Blocks map[string]string
	// First says whose words Prompt are, and under which id they are its first turn; its Text is not read. The zero First is the operator's.
	First Words
}

// maxPrompt is how much of a prompt an agent's Prompt shows, in characters.
const maxPrompt = 200

// LaunchAgent launches an agent for a person: the repository must be an
// orchestrator's or on the allowlist. Twice with one name is a Conflict. Unavailable when its runtime is away.
func (e *Engine) LaunchAgent(ctx context.Context, s Spec) (bridge.Agent, bridge.Turn, error) {
	if err := errors.Join(bridge.CheckName(s.Name), bridge.CheckText(s.Prompt)); err != nil {
		return bridge.Agent{}, bridge.Turn{}, err
	}
	if s.API != "" && s.API != bridge.APIv0 && s.API != bridge.APIv1 {
		return bridge.Agent{}, bridge.Turn{}, bridge.Errorf(bridge.Invalid, "API %q: use v0 or v1", s.API)
	}
	if s.API != "" && !bridge.InCloud(s.Runtime) {
		return bridge.Agent{}, bridge.Turn{}, bridge.Errorf(bridge.Invalid, "this agent lives in the runtime %s, which has no API version; leave the version out", s.Runtime)
	}
	within, err := s.Join.Within(s.JoinWithin)
	if err != nil {
		return bridge.Agent{}, bridge.Turn{}, err
	}
	v := e.o.Policy().OperatorGrant(s.Repo, s.Prompt)
	if !v.Grant.Valid() {
		return bridge.Agent{}, bridge.Turn{}, bridge.Errorf(bridge.Denied, "%s", v.Reason)
	}
	id := bridge.AgentID(e.o.NewID("agt_"))
	a := bridge.Agent{ID: id, Name: s.Name, Role: s.Role, Root: id, OpKey: e.o.Keys.OperatorKey(id), Repo: v.Canonical, Ref: s.Ref,
		State: bridge.AgentIdle, Prompt: words.OneLine(s.Prompt, maxPrompt), ChatUser: s.ChatUser, Join: s.Join, JoinWithin: within}
	a.Runtime, a.API = e.homeOf(s, v)
	if err := e.reaches(a.Repo, a.Runtime); err != nil {
		return bridge.Agent{}, bridge.Turn{}, err
	}
	t := bridge.Turn{ID: or(s.First.Turn, bridge.TurnID(e.o.NewID("trn_"))), Agent: id, Cause: bridge.CauseLaunch, Text: s.Prompt}
	t.Said = e.said(a, t.ID, s.First.Author)
	var begun bridge.Turn
	err = e.update(ctx, func(c *change) error {
		a.CreatedAt, a.UpdatedAt, a.State = c.now, c.now, bridge.AgentIdle
		if err := c.freeName(s.Name); err != nil {
			return err
		}
		if err := c.InsertAgent(a); err != nil {
			return err
		}
		if err := c.event(bridge.EventAgent, a, bridge.Event{Text: fmt.Sprintf("agent %s on %s", a.Name, a.Repo), Fields: map[string]string{"repo": a.Repo, "runtime": a.Runtime, "api": bridge.Through(a.Runtime, a.API)}}); err != nil {
			return err
		}
		if err := c.firstBlocks(a, s.Blocks); err != nil {
			return err
		}
		if err := c.addTurn(&a, t); err != nil {
			return err
		}
		var err error
		begun, err = c.Turn(t.ID)
		return err
	}, bridge.NeedNamed{Root: id, Name: s.Name}, bridge.NeedRootNamed{Name: s.Name}, bridge.NeedAnyNamed{Name: s.Name}, bridge.NeedAgentBy{By: bridge.ByChatUser, Value: s.ChatUser})
	return a, begun, err
}

// firstBlocks writes the blocks with which an agent begins. From then on they are the agent's.
func (c *change) firstBlocks(a bridge.Agent, blocks map[string]string) error {
	for _, label := range slices.Sorted(maps.Keys(blocks)) {
		if err := c.PutBlock(bridge.Block{Agent: a.ID, Label: label, Version: 1, Content: blocks[label], UpdatedAt: c.now}); err != nil {
			return err
		}
		err := c.event(bridge.EventMemory, a, bridge.Event{Text: fmt.Sprintf("the configuration gave block %q", label), Fields: map[string]string{"label": label, "version": "1", "by": "operator"}})
		if err != nil {
			return err
		}
	}
	return nil
}

// homeOf says where an agent that a person launches will live: in the Runtime that its role has, else in the cloud at the version
// that the person names, else where the rule says.
func (e *Engine) homeOf(s Spec, v policy.Verdict) (runtime, api string) {
	switch {
	case !bridge.InCloud(s.Runtime):
		return s.Runtime, ""
	case s.API == "" && !bridge.InCloud(v.Runtime):
		return v.Runtime, ""
	}
	return bridge.CloudRuntime, or(s.API, or(v.API, e.o.API))
}

// freeName takes a name from an agent that was never launched, so that a
// person can try again under the same one.
func (c *change) freeName(name string) error {
	a, err := c.FindAgent(bridge.ByName, name)
	if errors.Is(err, bridge.ErrNoRow) || bridge.KindOf(err) == bridge.Conflict || (err == nil && a.Parent != "") {
		return nil // no root has it
	}
	if err != nil {
		return err
	}
	if a.External != "" || moving.Is(a) || a.State != bridge.AgentFailed {
		return bridge.Errorf(bridge.Conflict, "an agent named %s exists already and is %s; talk to it (`drawbridge say %s`), choose another name, or free this one with `drawbridge forget %s` once it is dead", name, a.State, name, name)
	}
	a.Forget()
	return c.UpdateAgent(a)
}

// Say gives an agent a person's turn. A busy agent gets it when its turn is over.
func (e *Engine) Say(ctx context.Context, id bridge.AgentID, text string) (bridge.Turn, error) {
	return e.SayAs(ctx, id, Words{Text: text})
}

// Words are what is said to an agent in a turn of its own.
type Words struct {
	// Turn is the id of the turn: a repeat under it returns the turn and says nothing. Empty makes one, and the words may join a turn that waits.
	Turn bridge.TurnID
	Text string
	// Author names a program whose user is not the operator. Then each line of Text that others wrote must begin with a bar, what it says
	// counts as outside text, and an agent that waits for a person does not get it. Empty is the operator.
	Author string
}

// SayAs is Say for words of a program. Conflict when the agent waits for a person and the words are not the operator's.
func (e *Engine) SayAs(ctx context.Context, id bridge.AgentID, w Words) (bridge.Turn, error) {
	if err := bridge.CheckText(w.Text); err != nil {
		return bridge.Turn{}, err
	}
	var said bridge.Turn
	err := e.update(ctx, func(c *change) error {
		t, due := bridge.Turn{ID: w.Turn, Cause: bridge.CauseUser, Text: w.Text}, c.now.Add(-personFirst)
		if w.Author != "" {
			t.Cause, t.Depth, due = bridge.CauseMessage, 1, c.now
		}
		if w.Turn == "" {
			t.ID = bridge.TurnID(c.NewID("trn_"))
		} else if there, err := c.Turn(w.Turn); !errors.Is(err, bridge.ErrNoRow) {
			said = there
			return err
		}
		a, err := c.Agent(id)
		if err != nil {
			return err
		}
		if w.Author != "" && a.State == bridge.AgentGated {
			return bridge.Errorf(bridge.Conflict, "agent %s waits for the operator: %s; `drawbridge say %s` lets it go on", a.Name, a.Trouble, a.Name)
		}
		if err := notForgotten(a); err != nil {
			return err
		}
		if a.Quarantined {
			return bridge.Errorf(bridge.Conflict, "agent %s gets no turns: %s; launch another one, and `drawbridge forget %s` frees its name", a.Name, a.Trouble, a.Name)
		}
		if a.External == "" && !moving.Is(a) && a.State == bridge.AgentFailed {
			return bridge.Errorf(bridge.Conflict, "agent %s was never launched: %s; launch it again (its name is free), or remove it with `drawbridge forget %s`", a.Name, a.Trouble, a.Name)
		}
		if err := c.notStopped(a.Root); err != nil {
			return err
		}
		t.Said = e.said(a, t.ID, w.Author)
		if w.Turn == "" {
			if said, err = c.overtake(a, t); err != nil || said.ID != "" {
				if err == nil {
					err = c.spoke(a, said)
				}
				return err
			}
		}
		if err := c.addTurnAt(&a, t, due); err != nil {
			return err
		}
		if said, err = c.Turn(t.ID); err != nil {
			return err
		}
		return c.spoke(a, said)
	}, bridge.NeedStory{Agent: id})
	return said, notFound(err, "agent", string(id))
}

// spoke records that a person said something.
func (c *change) spoke(to bridge.Agent, turn bridge.Turn) error {
	if c.person.Name == "" {
		return nil
	}
	return c.event(bridge.EventOperator, to, bridge.Event{Turn: turn.ID, Text: c.person.Name + " said something to " + to.Name})
}

// said names words by the turn that they were given first. They are the operator's without an author.
func (e *Engine) said(to bridge.Agent, turn bridge.TurnID, author string) []bridge.Said {
	source := bridge.OriginOperator
	if author != "" {
		source = bridge.OriginOutside
	}
	return []bridge.Said{{Turn: turn, Item: e.o.Keys.Item(to.OpKey, "said", string(turn)), Source: source, Author: author}}
}

// personFirst is how much earlier than everything else a person's turn is due,
// so that it gets the next free hand when all are taken.
const personFirst = time.Hour

// overtake puts a person's words into the turn that waits for the agent and has
// none of its own, so that a person does not wait behind what is only news, or
// behind its back-off. It returns the zero turn when there is none such.
func (c *change) overtake(a bridge.Agent, said bridge.Turn) (bridge.Turn, error) {
	t, err := c.OpenTurn(a.ID)
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Turn{}, nil
	}
	if err != nil || t.State != bridge.TurnQueued || t.Stopped || t.GoesOn() { // the text of one that goes on after a limit does not change
		return bridge.Turn{}, err
	}
	if t.Attempts == 0 { // what the API put off waits as long as it said
		err = c.WakeLane(agentLane(a.ID), c.now.Add(-personFirst))
	}
	if err != nil || t.Text != "" {
		return bridge.Turn{}, err
	}
	t.Cause, t.Text, t.Said, t.Depth, t.Streak, t.Retry = said.Cause, said.Text, said.Said, 0, 0, 0
	return t, c.UpdateTurn(t)
}
