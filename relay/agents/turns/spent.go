package turns

import (
	"cmp"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/wire"
)

// nothing is what a turn took that never reached its agent.
var nothing = wire.Spent{Tokens: &wire.Tokens{}, CostMicros: new(int64)}

// spentBy is what a turn took: what the agent says of the turn, and else by how much its session took more than before. An agent that counts less
// than before began to count anew.
func spentBy(a acp.Answer, before wire.Spent) *wire.Spent {
	var spent wire.Spent
	if a.Spent != nil {
		spent = *a.Spent
	}
	if a.Total == nil {
		return spent.Known()
	}
	if now, was := a.Total.Tokens, before.Tokens; spent.Tokens == nil && now != nil {
		more := *now
		if was != nil && was.Input <= now.Input && was.Output <= now.Output && was.CacheRead <= now.CacheRead && was.CacheWrite <= now.CacheWrite {
			more = wire.Tokens{Input: now.Input - was.Input, Output: now.Output - was.Output, CacheRead: now.CacheRead - was.CacheRead, CacheWrite: now.CacheWrite - was.CacheWrite}
		}
		spent.Tokens = &more
	}
	if now, was := a.Total.CostMicros, before.CostMicros; spent.CostMicros == nil && now != nil {
		more := *now
		if was != nil && *was <= *now {
			more -= *was
		}
		spent.CostMicros = &more
	}
	return spent.Known()
}

// later is what a session took as it was said last.
func later(before wire.Spent, now *wire.Spent) wire.Spent {
	if now == nil {
		return before
	}
	return wire.Spent{Tokens: cmp.Or(now.Tokens, before.Tokens), CostMicros: cmp.Or(now.CostMicros, before.CostMicros)}
}
