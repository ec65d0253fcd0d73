package runner

import (
	"context"
	"errors"
	"sync"
)

// calls are the requests that are under way. The zero value accepts them. Safe for concurrent use.
type calls struct {
	mu   sync.Mutex
	open map[*call]struct{}
	// refused is why no request is accepted, nil when they are.
	refused error
	// idle is closed when the last open call leaves; nil while nobody waits.
	idle chan struct{}
	// turned is closed when refused has changed; nil while nobody waits.
	turned chan struct{}
}

// call is one request: waiting ends with the caller's patience or the relay, running only with the relay, because half an
// action is worse than one whose caller has left.
type call struct {
	waiting, running     context.Context
	stopWaiting, stopAll context.CancelCauseFunc
}

// enter returns the call, to be left, or why there is none.
func (c *calls) enter(ctx context.Context) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return nil, c.refused
	}
	entered := &call{}
	entered.waiting, entered.stopWaiting = context.WithCancelCause(ctx)
	entered.running, entered.stopAll = context.WithCancelCause(context.WithoutCancel(ctx))
	if c.open == nil {
		c.open = map[*call]struct{}{}
	}
	c.open[entered] = struct{}{}
	return entered, nil
}

func (c *calls) leave(left *call) {
	left.stopWaiting(nil)
	left.stopAll(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, left)
	if len(c.open) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// refuse accepts no request any more, ends what waits, and reports whether that is new. A relay that is stopping stays so.
func (c *calls) refuse(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := !errors.Is(c.refused, cause)
	if !errors.Is(c.refused, errStopping) {
		c.refused = cause
	}
	c.turn()
	for each := range c.open {
		each.stopWaiting(cause)
	}
	return fresh
}

// allow takes back a refusal for that cause, and reports whether there was one.
func (c *calls) allow(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := errors.Is(c.refused, cause)
	if was {
		c.refused = nil
		c.turn()
	}
	return was
}

// turn wakes those who wait for a change of refused. The caller holds the mutex.
func (c *calls) turn() {
	if c.turned != nil {
		close(c.turned)
		c.turned = nil
	}
}

// refusing reports whether requests are refused for that cause, and gives a channel that is closed when that may have changed.
func (c *calls) refusing(cause error) (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turned == nil {
		c.turned = make(chan struct{})
	}
	return errors.Is(c.refused, cause), c.turned
}

// end ends what runs.
func (c *calls) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for each := range c.open {
		each.stopAll(cause)
	}
}

// wait returns nil when no call is open any more, or ctx's error.
func (c *calls) wait(ctx context.Context) error {
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
