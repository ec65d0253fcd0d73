package hub

import (
	"context"
	"time"

	"drawbridge/relay/chunks"
	"drawbridge/relay/wire"
)

// takeChunk takes an announcement or a chunk of a large answer, and settles the request when the answer is whole.
func (c *conn) takeChunk(ctx context.Context, f wire.Frame) error {
	if c.connection == "" {
		return errOrder
	}
	r := c.receiver.Load()
	if r == nil {
		r = chunks.NewReceiver(chunks.Both(), c.judge)
		c.receiver.Store(r)
	}
	got, err := r.Take(f, c.hub.o.Now())
	if err != nil {
		return errOrder
	}
	c.noteRefused(got)
	if got.Whole != nil {
		c.allowance += float64(1 + got.Chunks) // we asked for it; chunks that were made smaller than they may be stay counted
		if err := c.take(ctx, *got.Whole); err != nil {
			return err
		}
	}
	if got.Reply == nil {
		return nil
	}
	return c.write(ctx, *got.Reply)
}

// judge lets pass what the relay announced on this very connection, as the answer to a request that waits for it.
func (c *conn) judge(f wire.Chunked) wire.BodyRefusal {
	key, err := wire.ReadKey(c.key)
	if err != nil || !f.Signed(key, c.connection) {
		return wire.BodyForged
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := f.Kind == "mcp_call" && c.hub.o.MCP != nil && !c.ended
	switch k := c.calls[f.For]; f.Kind {
	case "outcome":
		waits = k != nil && !k.turn
	case "ended":
		waits = k != nil && k.turn
	case "found":
		waits = c.looks[f.For] != nil
	case "turn_found":
		waits = c.turnLooks[turnKey{id: f.For}] != nil
	case "turn_stopped":
		waits = c.turnLooks[turnKey{id: f.For, stop: true}] != nil
	case "turn_peeked":
		waits = c.turnLooks[turnKey{id: f.For, peek: true}] != nil
	}
	if !waits {
		return wire.BodyUnwanted
	}
	return ""
}

func (c *conn) noteRefused(got chunks.Taken) {
	if got.Refused == "" {
		return
	}
	c.hub.o.Log.Warn().Str("relay", c.relay).Str("session", c.session).Str("request", got.Announced.For).Str("kind", got.Announced.Kind).
		Int64("bytes", got.Announced.Size).Str("reason", string(got.Refused)).Msg("a large answer was refused")
}

// expireChunks ends large answers that their relay does not finish.
func (c *conn) expireChunks(ctx context.Context, now time.Time) {
	r := c.receiver.Load()
	if r == nil {
		return
	}
	for _, got := range r.Expire(now) {
		c.noteRefused(got)
		if err := c.write(context.WithoutCancel(ctx), *got.Reply); err != nil {
			c.cancel()
			return
		}
	}
}
