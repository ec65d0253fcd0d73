package bridge

import (
	"context"
	"sync"
)

// Calls is what the calls of one context have in common: the turn that they are made
// for. Traces read it. Safe for concurrent use; a nil Calls is one of no turn.
type Calls struct {
	Turn TurnID

	look bool
	mu   sync.Mutex // guards the fields below
	held []func()
	over bool
	news bool
}

type callsKey struct{}

// CallsFor returns a context whose calls are made for a turn.
func CallsFor(ctx context.Context, turn TurnID) context.Context {
	return context.WithValue(ctx, callsKey{}, &Calls{Turn: turn})
}

// LookFor is CallsFor for calls that look for something and are repeated until they
// find it. Their traces are held back until end says whether they found something new,
// so that waiting fills no trace. A caller that never calls end has none of them told.
func LookFor(ctx context.Context, turn TurnID) (look context.Context, end func(news bool)) {
	c := &Calls{Turn: turn, look: true}
	return context.WithValue(ctx, callsKey{}, c), c.end
}

// CallsOf returns what the calls of a context have in common, nil when nobody said it.
func CallsOf(ctx context.Context) *Calls {
	c, _ := ctx.Value(callsKey{}).(*Calls)
	return c
}

// maxHeld bounds how many calls of one look are remembered.
const maxHeld = 32

// Tell runs tell, which tells a trace of one call: at once, or at the end of the look if
// that found something new. tell must not block and must not use c.
func (c *Calls) Tell(tell func()) {
	if c == nil || !c.look || c.toldNow(tell) {
		tell()
	}
}

// toldNow reports whether a call of a look is told now; otherwise it is held back or dropped.
func (c *Calls) toldNow(tell func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && len(c.held) < maxHeld {
		c.held = append(c.held, tell)
	}
	return c.over && c.news
}

// end tells what was held back, or drops it. The first call counts.
func (c *Calls) end(news bool) {
	c.mu.Lock()
	held := c.held
	if c.over {
		held = nil
	} else {
		c.over, c.news, c.held = true, news, nil
	}
	news = c.news
	c.mu.Unlock()
	for _, tell := range held {
		if news {
			tell()
		}
	}
}
