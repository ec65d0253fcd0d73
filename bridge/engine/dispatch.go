package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/bridge/words"
)

// Run hands out due work until ctx ends, then waits for the handlers that run;
// see lanes.Dispatcher.Run.
func (e *Engine) Run(ctx context.Context) error {
	e.streams.open(ctx)
	defer e.streams.close()
	return e.lanes.Run(ctx)
}

// Step does one piece of due work and returns; see lanes.Dispatcher.Step. Run
// must not run beside it, and no stream is followed.
func (e *Engine) Step(ctx context.Context) (worked bool, err error) { return e.lanes.Step(ctx) }

// NextDue returns when the next work can be claimed, by the engine's clock, or
// the zero time when there is none. Work that someone holds counts from the end of its lease.
func (e *Engine) NextDue(ctx context.Context) (time.Time, error) { return e.lanes.NextDue(ctx) }

// dispatch sends work to its handler.
func (e *Engine) dispatch(ctx context.Context, w bridge.Work) error {
	switch w.Kind {
	case bridge.WorkTurn:
		return e.turnWork(ctx, w)
	case bridge.WorkAction:
		return e.actionWork(ctx, w)
	case bridge.WorkLookup:
		return e.lookupWork(ctx, w)
	case bridge.WorkRemind:
		return e.remindWork(ctx, w)
	case bridge.WorkJoin:
		return e.joinWork(ctx, w)
	case bridge.WorkUsage:
		call, cancel := lanes.Repeatable(ctx)
		defer cancel()
		return e.usageWork(call, w)
	case bridge.WorkChat:
		if e.o.Chat != nil {
			return e.o.Chat(ctx, w)
		}
	case bridge.WorkMail:
		if e.o.Mail != nil {
			return e.o.Mail(ctx, w)
		}
	}
	return fmt.Errorf("no handler for work of kind %q", w.Kind)
}

// stuck tells a person of work that fails again and again. Nothing is given
// up: the lane is tried at long intervals, and at once when it is woken.
func (e *Engine) stuck(ctx context.Context, w bridge.Work, failures int, cause error) {
	text := fmt.Sprintf("stuck: work in lane %s has failed %s (%s); the bridge tries it again about once an hour", w.Lane, words.Count(failures, "time"), cause)
	err := e.update(ctx, func(c *change) error {
		a := bridge.Agent{}
		if id, ok := strings.CutPrefix(w.Lane, agentLane("")); ok {
			if known, err := c.Agent(bridge.AgentID(id)); err == nil {
				a = known
				a.Trouble = text
				if err := c.UpdateAgent(a); err != nil {
					return err
				}
			}
		}
		return c.event(bridge.EventAlarm, a, bridge.Event{Text: text})
	})
	if err != nil {
		e.o.Log.Error().Err(err).Str("lane", w.Lane).Msg("tell of stuck work")
	}
}

// putBack makes work due again after a wait.
func (e *Engine) putBack(ctx context.Context, w bridge.Work, wait time.Duration) error {
	return e.update(ctx, func(c *change) error { return c.PutBack(w, c.now.Add(wait)) }, bridge.NeedWork{ID: w.ID})
}

func (e *Engine) backoff(attempt int, base, limit time.Duration) time.Duration {
	return lanes.Backoff(e.o.Rand, attempt, base, limit)
}

func (e *Engine) holds(ctx context.Context) bool { return e.lanes.Holds(ctx) }
