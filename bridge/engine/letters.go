package engine

import (
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// Bounds of one look at who waits for whom. What lies beyond them waits for the
// deadline of its message.
const (
	maxWaiters = 64
	maxLetters = 100
)

// unanswered tells senders that no answer comes: an agent has read their message
// and ended a turn that left nothing open that goes on without the sender. The
// engine calls it when a turn of the agent has ended. It looks at those who wait
// for the agent, too, because its rest may close a circle in which all wait.
func (c *change) unanswered(id bridge.AgentID) error {
	readers, err := c.waitersFor(id)
	if err != nil {
		return err
	}
	for _, reader := range readers {
		if reader != id {
			if moves, err := c.moves(reader); err != nil {
				return err
			} else if moves {
				continue
			}
		}
		if err := c.unansweredBy(reader); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) unansweredBy(reader bridge.AgentID) error {
	letters, err := c.AwaitedFrom(reader, maxLetters)
	if err != nil {
		return err
	}
	for _, l := range letters {
		if read, err := c.wasRead(l); err != nil {
			return err
		} else if !read {
			continue
		}
		waits, err := c.onlyWaitsFor(reader, l.From, map[bridge.AgentID]bool{})
		if err != nil {
			return err
		}
		if !waits {
			continue
		}
		if err := c.NoAnswer(l, words.ReadOnly); err != nil {
			return err
		}
	}
	return nil
}

// wasRead reports whether a letter stood in a turn that ended well, or was fetched in it.
func (c *change) wasRead(l bridge.Letter) (bool, error) {
	notices, err := c.NoticesOf(l.Message)
	if err != nil {
		return false, err
	}
	for _, n := range notices {
		if n.ID != l.Notice || n.Turn == "" {
			continue
		}
		t, err := c.Turn(n.Turn)
		return err == nil && t.State == bridge.TurnReplied, err
	}
	return false, nil
}

// waitersFor returns an agent and those that wait for it, over any number of steps.
func (c *change) waitersFor(id bridge.AgentID) ([]bridge.AgentID, error) {
	all, seen := []bridge.AgentID{id}, map[bridge.AgentID]bool{id: true, bridge.User: true}
	for i := 0; i < len(all) && len(all) < maxWaiters; i++ {
		a, err := c.Agent(all[i])
		if err != nil {
			return nil, err
		}
		letters, err := c.AwaitedFrom(a.ID, maxLetters)
		if err != nil {
			return nil, err
		}
		waiting := []bridge.AgentID{a.Parent}
		if a.Task == bridge.TaskDone || a.Parent == "" {
			waiting = nil
		}
		for _, l := range letters {
			waiting = append(waiting, l.From)
		}
		for _, w := range waiting {
			if !seen[w] {
				seen[w] = true
				all = append(all, w)
			}
		}
	}
	return all, nil
}

// moves reports whether an agent goes on without anything that it waits for: it
// has a turn, or will get one, or a person has to speak first.
func (c *change) moves(id bridge.AgentID) (bool, error) {
	if id == bridge.User {
		return true, nil
	}
	if open, err := c.HasOpenTurn(id); err != nil || open {
		return true, err
	}
	a, err := c.Agent(id)
	if err != nil || a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return true, err
	}
	waiting, err := c.WaitingNotices(id, 1) // those that are worth a turn come first
	return len(waiting) > 0 && !waiting[0].Quiet, err
}

// onlyWaitsFor reports whether all that an agent has open ends only when another
// one, the asker, moves. An agent with nothing open does so, too.
func (c *change) onlyWaitsFor(id, asker bridge.AgentID, seen map[bridge.AgentID]bool) (bool, error) {
	seen[id] = true
	awaited, others, err := c.waitsFor(id)
	if err != nil || others {
		return false, err
	}
	for _, next := range awaited {
		if next == asker || seen[next] {
			continue
		}
		if moves, err := c.moves(next); err != nil || moves {
			return false, err
		}
		if only, err := c.onlyWaitsFor(next, asker, seen); err != nil || !only {
			return false, err
		}
	}
	return true, nil
}

// waitsFor returns the agents that an agent waits for: its subagents whose task is
// open, and those who owe it a reply. others reports whether it waits for anything
// else, such as an action or a person.
func (c *change) waitsFor(id bridge.AgentID) (awaited []bridge.AgentID, others bool, err error) {
	waiting, err := c.WaitingNotices(id, maxJoined)
	if err != nil {
		return nil, false, err
	}
	for _, n := range waiting {
		others = others || (!n.Quiet && asked(n, false))
	}
	for _, state := range []bridge.CommandState{bridge.CommandHeld, bridge.CommandUncertain, bridge.CommandGranted, bridge.CommandSending, bridge.CommandConfirmed} {
		open, err := c.Commands(bridge.CommandFilter{Agent: id, State: state, Limit: maxLetters})
		if err != nil {
			return nil, false, err
		}
		for _, m := range open {
			switch {
			case m.Parsed.Verb == parser.Remind:
			case m.Child != "" && m.State != bridge.CommandUncertain:
				awaited = append(awaited, m.Child)
			default:
				others = true
			}
		}
	}
	letters, err := c.AwaitedBy(id, maxLetters)
	for _, l := range letters {
		awaited = append(awaited, l.Agent)
	}
	return awaited, others, err
}

// NoAnswer ends the wait for an answer and tells the sender why none comes, once.
// A broadcast whose answers are joined is told as one, by its own work. A later
// answer still reaches the sender, as a message.
func (c *change) NoAnswer(l bridge.Letter, why string) error {
	l.Awaited = false
	if err := c.UpdateLetter(l); err != nil {
		return err
	}
	m, err := c.Message(l.Message)
	if err != nil {
		return fmt.Errorf("load message %q: %w", l.Message, err)
	}
	if err := c.WakeLane(bridge.MailLane(m.ID), c.now); err != nil || !m.JoinBy.IsZero() || m.From == bridge.User {
		return err
	}
	name := string(l.Agent)
	if a, err := c.Agent(l.Agent); err == nil {
		name = a.Name
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	return c.tell(bridge.Notice{Agent: m.From, Cause: bridge.CauseMessage, Depth: m.Depth, Join: bridge.HeldFor(m.ID), Text: words.NoAnswer(name, m, why)})
}

// withdraw deletes an agent's waiting letters from conversations in which it is not
// a member any more: a removed member gets nothing afterwards. Notices that a turn
// carries, and direct messages, stay.
func (c *change) withdraw(waiting []bridge.Notice) error {
	for _, n := range waiting {
		if out, err := c.fromOutside(n); err != nil {
			return err
		} else if !out {
			continue
		}
		if _, err := c.DropLetter(n.Message, n.Agent); err != nil {
			return err
		}
	}
	return nil
}

// fromOutside reports whether a notice brings a message of a conversation that its
// agent is not in.
func (c *change) fromOutside(n bridge.Notice) (bool, error) {
	if n.Message == "" {
		return false, nil
	}
	m, err := c.Message(n.Message)
	if errors.Is(err, bridge.ErrNoRow) || (err == nil && m.Conversation == "") {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	member, err := c.IsMember(m.Conversation, n.Agent)
	return !member, err
}

// WithdrawFrom withdraws what still waits for an agent from conversations in which it is
// not a member any more, also what its queued turn carries.
func (c *change) WithdrawFrom(agent bridge.AgentID) error {
	waiting, err := c.WaitingMail(agent, maxToldLooked)
	if err != nil {
		return err
	}
	if err := c.withdraw(waiting); err != nil {
		return err
	}
	open, err := c.OpenTurn(agent)
	if errors.Is(err, bridge.ErrNoRow) || (err == nil && open.State != bridge.TurnQueued) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.withdrawCarried(open.ID)
}

// withdrawCarried is Withdraw for what a turn carries. The caller sees to it that the
// turn was not sent.
func (c *change) withdrawCarried(turn bridge.TurnID) error {
	carried, err := c.CarriedNotices(turn)
	if err != nil {
		return err
	}
	for _, n := range carried {
		if out, err := c.fromOutside(n); err != nil {
			return err
		} else if !out {
			continue
		}
		if err := c.CarryNotices([]bridge.NoticeID{n.ID}, ""); err != nil {
			return err
		}
		if _, err := c.DropLetter(n.Message, n.Agent); err != nil {
			return err
		}
	}
	return nil
}
