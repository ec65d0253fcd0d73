package engine

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// errForeign says that a delivery names another agent than its operation is bound to.
var errForeign = bridge.Errorf(bridge.Conflict, "the delivery names another agent than this operation's")

// RecordDelivery stores a webhook whose signature was right and wakes the
// agent's lane, in one transaction; when it returns nil the delivery is
// durable and may be acknowledged. The verdict says whether it was new. The
// content is a hint and decides nothing: the API is asked before anything is
// delivered (facts: Webhook receiver, rules 6, 8 and 9).
func (e *Engine) RecordDelivery(ctx context.Context, d bridge.Delivery) (verdict string, err error) {
	err = e.update(ctx, func(c *change) error {
		a, err := c.Agent(d.Op)
		if err != nil {
			return err
		}
		if err := c.mayTell(a, d.External); err != nil {
			return err
		}
		d.ID, d.ReceivedAt = bridge.DeliveryID(c.NewID("dlv_")), c.now
		known := d.Event == "statusChange" && bridge.RunState(d.Status).Terminal()
		verdict = bridge.VerdictAccepted
		if !known {
			verdict = bridge.VerdictStored // an event that we do not know is kept and not acted on
		}
		d.Verdict = verdict
		isNew, err := c.InsertDelivery(d)
		if err != nil {
			return err
		}
		if !isNew {
			verdict = bridge.VerdictDuplicate
			return c.event(bridge.EventDuplicate, a, bridge.Event{Text: "webhook received again: " + words.SafeWord(d.Status), Fields: map[string]string{"source": "webhook", "status": words.SafeWord(d.Status)}})
		}
		if err := c.event(bridge.EventWebhook, a, bridge.Event{Text: "webhook: " + words.SafeWord(d.Status), Fields: map[string]string{"status": words.SafeWord(d.Status), "verdict": verdict, "delivery": string(d.ID)}}); err != nil {
			return err
		}
		if !known {
			return nil
		}
		return c.wakeOrBind(a, d)
	}, bridge.NeedAgent{ID: d.Op}, bridge.NeedDelivery{Op: d.Op, External: d.External, Event: d.Event, Status: d.Status, SentAt: d.SentAt})
	return verdict, notFound(err, "operation", string(d.Op))
}

// mayTell refuses a delivery that names another agent than its operation's or,
// while nobody knows that one, an agent that another operation made.
func (c *change) mayTell(a bridge.Agent, external string) error {
	if a.External != "" {
		if a.External != external {
			return errForeign
		}
		return nil
	}
	_, err := c.FindAgent(bridge.ByExternal, external)
	switch {
	case err == nil:
		return errForeign
	case errors.Is(err, bridge.ErrNoRow):
		return nil
	}
	return err
}

// wakeOrBind makes the agent's run be looked at now. When the launch's own
// answer was lost, the signed delivery tells which agent it made.
func (c *change) wakeOrBind(a bridge.Agent, d bridge.Delivery) error {
	if a.External != "" {
		return c.WakeLane(agentLane(a.ID), c.now)
	}
	t, err := c.OpenTurn(a.ID)
	if errors.Is(err, bridge.ErrNoRow) {
		return c.alive(a, d)
	}
	if err == nil && t.State == bridge.TurnQueued {
		return nil // not sent: a signed hint about nothing
	}
	if err != nil {
		return err
	}
	j, err := c.e.loadJob(c.Scene, bridge.Work{Ref: string(t.ID)})
	if err != nil {
		return err
	}
	if err := c.bind(&j, bridge.Started{Agent: d.External}); err != nil {
		return err
	}
	return c.WakeLane(agentLane(a.ID), c.now)
}

// alive tells a person of an agent that a launch made after all, although it was given up.
func (c *change) alive(a bridge.Agent, d bridge.Delivery) error {
	turns, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Before: 2, Limit: 1})
	if err != nil || len(turns) == 0 || turns[0].SentAt.IsZero() {
		return err // never sent: a signed hint about nothing
	}
	return c.event(bridge.EventAlarm, a, bridge.Event{Turn: turns[0].ID, Command: a.Command,
		Text: fmt.Sprintf("a webhook says that agent %s was launched, but the bridge had given up its launch: look at the agent, and stop it by hand", words.SafeWord(d.External))})
}
