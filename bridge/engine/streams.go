package engine

import (
	"context"

	"drawbridge/bridge"
	"drawbridge/bridge/desk"
	"drawbridge/bridge/streams"
)

// follow waits for the end of a turn's run beside the polling, if the Runtime can.
func (e *Engine) follow(j job) {
	f, ok := e.o.Runtime.(bridge.Follower)
	if !ok || j.agent.API == bridge.APIv0 || j.turn.Run == "" {
		return
	}
	e.streams.Follow(j.turn.ID, e.o.Streams, streams.Follower{
		Wait: func(ctx context.Context) error {
			look, end := bridge.LookFor(ctx, j.turn.ID)
			err := f.Follow(look, runOf(j))
			end(err == nil)
			return err
		},
		Over: func(ctx context.Context) {
			err := e.update(ctx, func(c *change) error { return c.WakeLane(desk.AgentLane(j.agent.ID), c.now) })
			if err != nil && ctx.Err() == nil {
				e.o.Log.Warn().Err(err).Str("turn", string(j.turn.ID)).Msg("wake after the stream's end")
			}
		},
		Lost: func(err error) {
			e.o.Log.Debug().Err(err).Str("turn", string(j.turn.ID)).Msg("stream lost; polling goes on")
		},
	})
}
