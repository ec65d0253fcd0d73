package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
)

// item derives the id of an item that an agent hears; see bridge.Keys.Item.
func (c *change) item(to bridge.Agent, about ...string) bridge.ItemID {
	return c.e.o.Keys.Item(to.OpKey, about...)
}

// name gives a notice its item and says whose words it brings, where its maker did
// not. What exists in the database alone is named by its row.
func (c *change) name(n *bridge.Notice) error {
	if n.Item == "" {
		a, err := c.Agent(n.Agent)
		if err != nil {
			return fmt.Errorf("load agent %q: %w", n.Agent, err)
		}
		n.Item = c.item(a, "notice", string(n.ID))
	}
	if n.Source == "" && n.Untrusted == "" {
		n.Source, n.Author = bridge.OriginOperator, bridge.AuthorBridge
	}
	n.Source = cmp.Or(n.Source, bridge.OriginOutside)
	return nil
}

// anyRun notes that a run of an agent was found, so that of all others nothing is
// looked up.
const anyRun bridge.ItemID = "+"

// noteTold notes that a turn whose run was found tells items.
func (c *change) noteTold(agent bridge.AgentID, items []bridge.ItemID, turn bridge.TurnID) error {
	return errors.Join(c.PutTold(agent, items, turn), c.PutTold(agent, []bridge.ItemID{anyRun}, turn))
}

// found reports whether NoteTold was called for an agent.
func (c *change) found(agent bridge.AgentID) (bool, error) {
	_, err := c.ToldBy(agent, anyRun)
	if errors.Is(err, bridge.ErrNoRow) {
		return false, nil
	}
	return err == nil, err
}

// toldBefore binds a notice to the turn that told it already, as a run shows that
// the bridge found after its database was put back. It returns the zero turn when
// there is none, or when that turn failed.
func (c *change) toldBefore(n *bridge.Notice) (bridge.Turn, error) {
	if n.Turn != "" {
		return bridge.Turn{}, nil
	}
	if found, err := c.found(n.Agent); err != nil || !found {
		return bridge.Turn{}, err
	}
	by, err := c.ToldBy(n.Agent, n.Item)
	if errors.Is(err, bridge.ErrNoRow) {
		by, err = c.toldUnread(*n)
	}
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Turn{}, nil
	}
	if err != nil {
		return bridge.Turn{}, err
	}
	t, err := c.Turn(by)
	if err != nil || t.State == bridge.TurnFailed {
		return bridge.Turn{}, err
	}
	n.Turn, n.Withheld = t.ID, false
	return t, nil
}

// toldUnread returns the turn of which the operator said that it told all that was
// there before it, when the notice is about something that an earlier turn asked for.
func (c *change) toldUnread(n bridge.Notice) (bridge.TurnID, error) {
	by, err := c.ToldBy(n.Agent, bridge.AnyItem)
	if err != nil {
		return "", err
	}
	told, err := c.Turn(by)
	if err != nil {
		return "", err
	}
	asked, err := c.askedBy(n)
	if err != nil {
		return "", err
	}
	earlier := asked.SentAt.Before(told.SentAt) || asked.SentAt.Equal(told.SentAt) && asked.Seq < told.Seq
	if asked.SentAt.IsZero() || !earlier {
		return "", bridge.ErrNoRow
	}
	return by, nil
}

// askedBy is the recipient's turn that asked for what a notice is about, the zero
// turn when nothing did.
func (c *change) askedBy(n bridge.Notice) (bridge.Turn, error) {
	if n.Asked == "" {
		return bridge.Turn{}, nil
	}
	return c.Turn(n.Asked)
}

// markDelivered marks what a turn told: completions as delivered, commands as reported.
func (c *change) markDelivered(by bridge.TurnID, carried []bridge.Notice) error {
	var completions []bridge.CompletionID
	for _, n := range carried {
		if n.Completion != "" {
			completions = append(completions, n.Completion)
		}
		for _, id := range n.Commands {
			m, err := c.Command(id)
			if err != nil {
				return err
			}
			if !m.State.CanBecome(bridge.CommandReported) {
				continue
			}
			if err := c.setCommand(&m, bridge.CommandReported); err != nil {
				return err
			}
		}
	}
	return c.DeliverCompletions(completions, by, c.now)
}

// settleAllTold binds what waits for an agent, and what a turn of it carries that was
// not sent, to the turns that told it already.
func (c *change) settleAllTold(agent bridge.AgentID, by, unsent bridge.TurnID) error {
	waiting, err := c.WaitingNotices(agent, maxToldLooked)
	if err != nil {
		return err
	}
	if unsent != by {
		carried, err := c.CarriedNotices(unsent)
		if err != nil {
			return err
		}
		waiting = append(waiting, carried...)
	}
	for _, n := range waiting {
		if _, err := c.settleTold(n); err != nil {
			return err
		}
	}
	return nil
}

// maxToldLooked is how many notices of one agent are looked through.
const maxToldLooked = 10_000

// settleTold binds one notice to the turn that told it already, and reports whether
// there is one.
func (c *change) settleTold(n bridge.Notice) (bool, error) {
	was := n.Turn
	n.Turn = ""
	t, err := c.toldBefore(&n)
	if err != nil || t.ID == "" || t.ID == was {
		return false, err
	}
	if err := c.CarryNotices([]bridge.NoticeID{n.ID}, t.ID); err != nil {
		return false, err
	}
	if t.State != bridge.TurnReplied {
		return true, nil
	}
	return true, c.markDelivered(t.ID, []bridge.Notice{n})
}

// notTold returns those of the notices that no earlier turn told, and binds the
// others to the turns that did.
func (c *change) notTold(all []bridge.Notice) (rest []bridge.Notice, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	if found, err := c.found(all[0].Agent); err != nil || !found {
		return all, err
	}
	items := make([]bridge.Need, len(all))
	for i, n := range all {
		items[i] = bridge.NeedTold{Agent: n.Agent, Item: n.Item}
	}
	if err := c.Want(items...); err != nil {
		return nil, err
	}
	for _, n := range all {
		told, err := c.settleTold(n)
		if err != nil {
			return nil, err
		}
		if !told {
			rest = append(rest, n)
		}
	}
	return rest, nil
}

// bindUnread binds to a turn what waits for an agent and was there before a run
// that nobody can read: the operator says that the run told it.
func (c *change) bindUnread(agent bridge.AgentID, by bridge.TurnID, begun time.Time) error {
	waiting, err := c.WaitingNotices(agent, maxToldLooked)
	if err != nil {
		return err
	}
	var ids []bridge.NoticeID
	for _, n := range waiting {
		// News of what an earlier turn asked for may be made again, and mail is not.
		if n.Asked != "" || n.CreatedAt.Before(begun) {
			ids = append(ids, n.ID)
		}
	}
	return c.CarryNotices(ids, by)
}
