package mcpserver

import (
	"context"
	"errors"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// becameIdle is the one event that can be subscribed to.
const becameIdle = "busy->idle"

type subscribeArgs struct {
	Agent string `json:"agent"`
	Event string `json:"event"`
}

func (d *Door) subscribe(ctx context.Context, c *caller, in subscribeArgs) (answer, error) {
	on, err := d.do(ctx, c, func(tx bridge.Change) (string, error) {
		on, err := c.find(tx.Scene, in.Agent)
		if err != nil {
			return "", err
		}
		if near := c.relation(on); near == "" || near == "self" {
			return "", bridge.Errorf(bridge.Denied, "%s is not your parent, child or sibling; name one of these", on.Name)
		}
		after, _, err := rest(tx.Scene, on.ID)
		if err != nil {
			return "", err
		}
		return string(on.ID), tx.PutWatch(bridge.Watch{Agent: c.agent.ID, On: on.ID, After: after, CreatedAt: tx.Now()})
	})
	return answer{data: subscribed{"subscribed", on, becameIdle}}, err
}

// rest returns the number of an agent's latest turn that is over, and whether
// none is open behind it.
func rest(tx *bridge.Scene, id bridge.AgentID) (last int64, idle bool, err error) {
	open, err := tx.OpenTurn(id)
	if err == nil {
		return open.Seq - 1, false, nil
	}
	if !errors.Is(err, bridge.ErrNoRow) {
		return 0, false, err
	}
	turns, err := tx.Turns(bridge.TurnFilter{Agent: id, Limit: 1})
	if len(turns) > 0 {
		last = turns[0].Seq
	}
	return last, true, err
}

// How often watches are looked at while much happens, and how many at a time.
const (
	watchPause = 100 * time.Millisecond
	maxWatches = 100_000
)

// tellWatchers tells of every agent that came to rest since somebody asked for it.
func (d *Door) tellWatchers(ctx context.Context) {
	var due []bridge.Watch
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		all, err := tx.Watches(maxWatches)
		for _, w := range all {
			last, idle, restErr := rest(tx, w.On)
			if restErr != nil {
				return restErr
			}
			if idle && last > w.After {
				due = append(due, w)
			}
		}
		return err
	})
	for _, w := range due {
		err = errors.Join(err, d.tellWatcher(ctx, w))
	}
	if err != nil && ctx.Err() == nil {
		d.o.Log.Error().Err(err).Msg("watches could not be told; they are looked at again after the next change")
	}
}

// tellWatcher tells of one, unless another replica did.
func (d *Door) tellWatcher(ctx context.Context, w bridge.Watch) error {
	return d.o.Engine.Change(ctx, func(tx bridge.Change) error {
		last, idle, err := rest(tx.Scene, w.On)
		if err != nil || !idle || last <= w.After {
			return err // it is busy again, and comes to rest again
		}
		if dropped, err := tx.DropWatch(w.Agent, w.On); err != nil || !dropped {
			return err
		}
		on, err := tx.Agent(w.On)
		if err != nil {
			return err
		}
		turns, err := tx.Turns(bridge.TurnFilter{Agent: w.On, Limit: 1})
		if err != nil || len(turns) == 0 {
			return err
		}
		_, err = tx.Notify(bridge.Notice{Agent: w.Agent, Cause: bridge.CauseMessage, Depth: turns[0].Depth,
			Text: words.Say("%s is not busy any more: it is %s, and its turn %d %s. Your subscription has ended; subscribe again for the next time", on.Name, on.State, last, turns[0].State)})
		return err
	})
}
