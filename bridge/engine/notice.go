package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// tell records a notice and gives the agent a turn when it is free.
func (c *change) tell(n bridge.Notice) error {
	n.Quiet = n.Quiet || spoken(n.Asked)
	if err := c.keep(n); err != nil {
		return err
	}
	if open, err := c.HasOpenTurn(n.Agent); err != nil || open {
		return err // the turn that is open is joined, or followed by one that tells it
	}
	a, err := c.Agent(n.Agent)
	if err != nil {
		return err
	}
	if a.Forgotten() {
		return nil
	}
	if a.State == bridge.AgentFailed && !n.Quiet { // nobody else would hear of it
		return c.parked(a, "")
	}
	return c.pump(&a)
}

// keep records a notice. What stands in it is heard when a turn tells it.
func (c *change) keep(n bridge.Notice) error {
	if n.Message == "" { // the operator's own words stay as they are
		n.Text = words.ForAgent(n.Text)
	}
	n.ID, n.CreatedAt = cmp.Or(n.ID, bridge.NoticeID(c.NewID("ntc_"))), c.now
	if err := c.name(&n); err != nil {
		return err
	}
	told, err := c.toldBefore(&n)
	if err != nil {
		return err
	}
	if err := c.InsertNotice(n); err != nil {
		return err
	}
	if told.State != bridge.TurnReplied {
		return nil
	}
	return c.markDelivered(told.ID, []bridge.Notice{n})
}

// pump gives a free agent a turn when something waits for it that is worth
// one, and sets its state to what it is doing now.
func (c *change) pump(a *bridge.Agent) error {
	if open, err := c.HasOpenTurn(a.ID); err != nil || open {
		return err // it is joined when that turn ends
	}
	if a.Forgotten() || a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return nil // a person speaks first; the notices keep
	}
	if tree, err := c.Tree(a.Root); err != nil || tree.Stopped() {
		return errors.Join(err, c.shut(a, words.Stopped(tree)))
	}
	waiting, err := c.WaitingNotices(a.ID, maxJoined)
	if err != nil {
		return err
	}
	cause, depth, streak := bridge.Urgency(waiting)
	switch {
	case cause == "":
		return c.settle(a)
	case depth >= c.policy().Limits().TurnsPerChain:
		return c.stopChain(a, depth)
	}
	return c.addTurn(a, bridge.Turn{Cause: cause, Depth: depth, Streak: streak})
}

// stopChain stops a chain that goes on without a person.
func (c *change) stopChain(a *bridge.Agent, depth int) error {
	a.Trouble = fmt.Sprintf("gated: %s in a row without a person; send the agent a message to go on", words.Count(depth, "turn"))
	if err := c.setAgent(a, bridge.AgentGated); err != nil {
		return err
	}
	return c.event(bridge.EventGated, *a, bridge.Event{Text: a.Trouble})
}

// notStopped returns a Conflict when the tree under root was stopped.
func (c *change) notStopped(root bridge.AgentID) error {
	tree, err := c.Tree(root)
	if err != nil || !tree.Stopped() {
		return err
	}
	return bridge.Errorf(bridge.Conflict, "%s; `drawbridge resume %s` lets it go on", words.Stopped(tree), root)
}

// settle sets the state of an agent without an open turn, and ends its task when
// nothing of it is open.
func (c *change) settle(a *bridge.Agent) error {
	if err := c.endTask(a, nil); err != nil {
		return err
	}
	open, err := c.CountOpenCommands(a.ID, "")
	if err != nil {
		return err
	}
	awaited, err := c.AwaitedBy(a.ID, 1)
	if err != nil {
		return err
	}
	next := bridge.AgentIdle
	switch {
	case open > 0 || len(awaited) > 0:
		next = bridge.AgentWaiting
	case a.Parent != "":
		next = bridge.AgentDone
	}
	if a.State == next || !a.State.CanBecome(next) {
		return nil
	}
	return c.setAgent(a, next)
}

// addTurn queues a turn and the work that will deliver it.
func (c *change) addTurn(a *bridge.Agent, t bridge.Turn) error {
	return c.addTurnAt(a, t, c.now)
}

// addTurnAt is AddTurn for a turn that is due at a time.
func (c *change) addTurnAt(a *bridge.Agent, t bridge.Turn, due time.Time) error {
	t.ID, t.Agent, t.State, t.CreatedAt = cmp.Or(t.ID, bridge.TurnID(c.NewID("trn_"))), a.ID, bridge.TurnQueued, c.now
	if _, err := c.InsertTurn(t); err != nil {
		return err
	}
	if err := c.enqueueTurn(*a, t.ID, due); err != nil {
		return err
	}
	return c.setAgent(a, bridge.AgentBusy)
}

// enqueueTurn queues the work that delivers a turn.
func (c *change) enqueueTurn(a bridge.Agent, t bridge.TurnID, due time.Time) error {
	return c.Enqueue(bridge.Work{Lane: agentLane(a.ID), Kind: bridge.WorkTurn, Ref: string(t), Due: due, Share: bridge.TreeShare(bridge.WorkTurn, a.Root)})
}

// shut closes an agent that does nothing now until a person lets it go on.
func (c *change) shut(a *bridge.Agent, why string) error {
	if a.State == bridge.AgentGated || !a.State.CanBecome(bridge.AgentGated) {
		return nil
	}
	a.Trouble = why
	return c.setAgent(a, bridge.AgentGated)
}

// failCommand ends a command in words, from whatever open state it is in.
func (c *change) failCommand(m *bridge.Command, reason string) error {
	m.Reason = reason
	next := bridge.CommandFailed
	if !m.State.CanBecome(next) {
		next = bridge.CommandRefused
	}
	return c.setCommand(m, next)
}

// uncarry lets the notices of a turn that did not run wait again.
func (c *change) uncarry(turn bridge.TurnID) error {
	carried, err := c.CarriedNotices(turn)
	if err != nil {
		return err
	}
	ids := make([]bridge.NoticeID, len(carried))
	for i, n := range carried {
		ids[i] = n.ID
	}
	if err := c.CarryNotices(ids, ""); err != nil {
		return err
	}
	return c.withdraw(carried)
}

// parked says what waits for an agent whose turn failed, and how to take it along.
func (c *change) parked(a bridge.Agent, turn bridge.TurnID) error {
	waiting, err := c.WaitingNotices(a.ID, maxJoined)
	if err != nil || len(waiting) == 0 {
		return err
	}
	return c.event(bridge.EventParked, a, bridge.Event{Turn: turn, Text: words.Parked(a, len(waiting), turn)})
}

// tellLater leaves a quiet notice about a command's end.
func (c *change) tellLater(a bridge.Agent, m bridge.Command, text bridge.Words) error {
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	return c.tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Quiet: true, Commands: []bridge.CommandID{m.ID}, Text: text, Item: c.item(a, "dropped", m.OpKey)})
}

// agentLane is where an agent's turns wait for one another.
func agentLane(id bridge.AgentID) string { return bridge.AgentLane(id) }

// maxJoined bounds how many notices one turn carries; the rest wait for the
// next. The results of as many subagents as may be joined fit into one.
const maxJoined = 110

// fitting returns those of the notices that wait, in their order, for which a turn has
// room that carries some already. Their texts are at most bridge.MaxText bytes
// together, but a turn without any takes the first whatever its size.
func fitting(carried, waiting []bridge.Notice) []bridge.Notice {
	room := bridge.MaxText
	for _, n := range carried {
		room -= size(n)
	}
	for i, n := range waiting {
		room -= size(n)
		if before := len(carried) + i; before >= maxJoined || (before > 0 && room < 0) {
			return waiting[:i]
		}
	}
	return waiting
}

func size(n bridge.Notice) int { return len(n.Text) + len(words.Untrusted(n)) }
