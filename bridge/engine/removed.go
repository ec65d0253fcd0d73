package engine

import (
	"errors"

	"drawbridge/bridge"
)

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
