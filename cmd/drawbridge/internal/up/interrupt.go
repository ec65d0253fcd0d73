package up

import (
	"context"
	"slices"
	"strings"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/watch"
)

// turns are what a person at the terminal begins and ends.
type turns interface {
	// say gives an agent a turn, and returns its id.
	say(ctx context.Context, agent, text string) (turn string, err error)
	// current is the turn that an agent has, or waits with, "" for none.
	current(ctx context.Context, agent string) (turn string, err error)
	stop(ctx context.Context, turn string) error
	// over reports whether a turn has ended.
	over(ctx context.Context, turn string) (bool, error)
}

// bridgeTurns asks the bridge.
type bridgeTurns struct{ client *api.Client }

func (b bridgeTurns) say(ctx context.Context, agent, text string) (string, error) {
	t, err := b.client.Say(ctx, agent, text)
	return t.ID, err
}

func (b bridgeTurns) current(ctx context.Context, agent string) (string, error) {
	list, err := b.client.Turns(ctx, agent, api.ListOptions{Limit: 100})
	if bridge.KindOf(err) == bridge.NotFound {
		return "", nil
	}
	for _, t := range slices.Backward(list.Turns) { // the oldest one first
		if !watch.Ended(t) {
			return t.ID, err
		}
	}
	return "", err
}

func (b bridgeTurns) stop(ctx context.Context, turn string) error {
	_, err := b.client.StopTurn(ctx, turn)
	return err
}

func (b bridgeTurns) over(ctx context.Context, turn string) (bool, error) {
	t, err := b.client.Turn(ctx, turn)
	return watch.Ended(t), err
}

// halted is a turn that Ctrl-C stopped and that has not ended yet.
type halted struct{ agent, turn string }

// goOn removes the agent whose turn Ctrl-C stopped. The turns of the others continue when up runs again.
func (c *console) goOn(busy []string) []string {
	h := c.halted.Load()
	return slices.DeleteFunc(busy, func(name string) bool { return h != nil && name == h.agent })
}

// interrupted takes Ctrl-C. It leaves Ctrl-C to end up where nobody can type now, and where the last Ctrl-C still stops a turn. It is safe for
// concurrent use.
func (c *console) interrupted() bool {
	if !c.u.screen.listens() || !c.stopping.CompareAndSwap(false, true) {
		return false
	}
	c.interrupts <- struct{}{}
	return true
}

// halt stops the turn of the agent that the prompt is about. Without one, up ends.
func (c *console) halt(ctx context.Context) {
	agent := c.focus
	if len(c.open) > 0 {
		agent, _, _ = strings.Cut(c.open[0].agent, " (")
	}
	turn, err := "", error(nil)
	if agent != "" {
		turn, err = c.turns.current(ctx, agent)
	}
	if err == nil && turn != "" {
		err = c.turns.stop(ctx, turn)
	}
	switch {
	case turn == "", bridge.Passing(err): // an agent goes on when up runs again
		c.u.End()
	case err != nil:
		c.stopping.Store(false)
		c.u.say("the turn of agent %s was not stopped: %v", agent, err)
	default:
		c.halted.Store(&halted{agent, turn})
		c.u.say("stopping the turn of agent %s; Ctrl-C again ends drawbridge up", agent)
	}
}

// rests takes Ctrl-C for the next turn when the one that it stopped is over.
func (c *console) rests(ctx context.Context) {
	h := c.halted.Load()
	if h == nil {
		return
	}
	if over, err := c.turns.over(ctx, h.turn); over || err != nil && !bridge.Passing(err) {
		c.halted.Store(nil)
		c.stopping.Store(false)
	}
}
