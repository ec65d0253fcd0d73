package mcpserver

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/rates"
)

// pace bounds how many tools an agent calls, whichever they are (seed: Substrat,
// rate limiting of tool calls): each call grows the record of a run. A call that
// is refused is not on record; it is counted, and the timeline tells how many
// there were. Each replica counts by itself.
type pace struct {
	perMinute int
	limiter   *rates.Limiter

	mu      sync.Mutex // guards refused
	refused map[bridge.AgentID]int
}

// usualPace is how many calls an agent may make in any minute: a hundred a second. One that thinks
// between its calls stays far below.
const usualPace = 6000

func newPace(perMinute int) *pace {
	return &pace{perMinute: perMinute, limiter: rates.New(perMinute, time.Now), refused: map[bridge.AgentID]int{}}
}

// take counts a call, or refuses it.
func (p *pace) take(agent bridge.AgentID) error {
	if p.perMinute < 0 {
		return nil
	}
	wait := p.limiter.Take(string(agent))
	if wait <= 0 {
		return nil
	}
	p.mu.Lock()
	p.refused[agent]++
	p.mu.Unlock()
	return &bridge.Error{Kind: bridge.RateLimited, RetryAfter: wait, Message: fmt.Sprintf(
		"you called tools %s within a minute, which is the limit; call again in %s. If you wait for a result, end your turn instead: the result arrives as your next turn",
		words.Count(p.perMinute, "time"), words.Count(int(wait/time.Second)+1, "second"))}
}

// counted takes what was refused since it was last asked.
func (p *pace) counted() map[bridge.AgentID]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := maps.Clone(p.refused)
	clear(p.refused)
	return all
}

// tellRefused puts on the timeline how many calls were refused, one line for each agent.
func (d *Door) tellRefused(ctx context.Context) {
	for agent, n := range d.pace.counted() {
		err := d.o.Engine.Change(ctx, func(tx bridge.Change) error {
			a, err := tx.Agent(agent)
			if err != nil {
				return err
			}
			t, err := turnOf(tx.Scene, agent)
			if err != nil {
				return err
			}
			return tx.Record(bridge.EventThrottled, a, bridge.Event{Turn: t.ID, Fields: map[string]string{"calls": strconv.Itoa(n)},
				Text: fmt.Sprintf("refused %s of %s: it made more than %d within a minute", words.Count(n, "tool call"), a.Name, d.pace.perMinute)})
		})
		if err != nil {
			d.o.Log.Error().Err(err).Str("agent", string(agent)).Int("calls", n).Msg("tool calls were refused, and the timeline could not tell of them")
		}
	}
}
