package engine

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/bridge/moving"
)

// observe looks at the run. The API's own answer is the only authority: a
// webhook or an event in a stream just makes us look sooner.
func (e *Engine) observe(ctx context.Context, j job) error {
	call, cancel := lanes.Repeatable(ctx)
	defer cancel()
	if j.stopped() != "" {
		e.cancelRun(call, j)
	}
	obs, err := e.watch(call, j)
	switch {
	case err != nil && call.Err() != nil:
		return e.putBack(ctx, j.work, 0)
	case err != nil && bridge.KindOf(err) == bridge.TooLarge:
		// A result is there only when the run is over, so there is nothing to wait for.
		obs.State = bridge.RunFinished
		return e.accept(ctx, j, output{obs: obs, oversize: bridge.SafeMessage(err), evidence: e.inspect(call, j)})
	case err != nil && bridge.KindOf(err) == bridge.NotFound:
		return e.accept(ctx, j, goneOf(j, err))
	case err != nil:
		return e.lookAgain(ctx, j, err)
	case obs.Repo != "" && !sameRepo(obs.Repo, j.agent.Repo):
		return e.wrongRepoLater(ctx, j, obs)
	case !obs.State.Terminal():
		e.follow(j)
		return e.goesOn(ctx, j, obs)
	case obs.Unsaid() && obs.State != bridge.RunCancelled, obs.Cause == bridge.CauseLimited:
		return e.sleeps(ctx, j, obs)
	case obs.Cause == bridge.CauseUnclear:
		return e.unclear(ctx, j, obs)
	}
	out := output{obs: obs, evidence: e.inspect(call, j)}
	if call.Err() != nil {
		return e.putBack(ctx, j.work, 0)
	}
	return e.accept(ctx, j, out)
}

// watch reads the state of a run. Traces hear of it when the run is over, or when the look fails with new trouble.
func (e *Engine) watch(ctx context.Context, j job) (bridge.Observation, error) {
	look, end := bridge.LookFor(ctx, j.turn.ID)
	obs, err := e.o.Runtime.Observe(look, runOf(j))
	end(obs.State.Terminal() || newTrouble(j, err))
	return obs, err
}

// newTrouble reports whether an error says something else than the turn's last one.
func newTrouble(j job, err error) bool {
	return err != nil && bridge.SafeMessage(err) != j.turn.Trouble
}

// inspect asks what else the API knows of an agent whose run is over. What it
// cannot tell now is said to be unchecked: a completion never waits for it.
func (e *Engine) inspect(ctx context.Context, j job) *bridge.Evidence {
	i, ok := e.o.Runtime.(bridge.Inspector)
	if !ok {
		return nil
	}
	found, err := i.Inspect(ctx, runOf(j))
	if err != nil {
		return &bridge.Evidence{Unread: "artifacts and usage: " + bridge.SafeMessage(err)}
	}
	return &found
}

func runOf(j job) bridge.RunRef {
	r := bridge.RunRef{Runtime: j.agent.Runtime, API: j.agent.API, Agent: j.agent.External, Run: j.turn.Run}
	if !j.turn.IsLaunch() && !moving.Began(j.turn) {
		r.Marker = j.turn.Marker()
	}
	return r
}

// hostedLook is how long a run at a relay goes on at most between two looks: a look costs nothing there, and a person watches what the agent does.
const hostedLook = 3 * time.Second

// nextLook grows from PollMin to PollMax with the age of the run.
func (e *Engine) nextLook(j job) time.Duration {
	wait := e.agedWait(j.turn.SentAt, e.o.PollMin, e.o.PollMax)
	if e.hosted(j.agent) {
		wait = min(wait, max(hostedLook, e.o.PollMin))
	}
	return wait
}

// lookFailed begins the log line of a look that failed. While the runtime is away each look fails for the same reason, which the
// bridge said when it started.
func (e *Engine) lookFailed(j job) *zerolog.Event {
	if e.away(j.agent.Runtime) != nil {
		return e.o.Log.Debug()
	}
	return e.o.Log.Warn()
}

// lookAgain records why a look failed, when that is news, and tries later.
func (e *Engine) lookAgain(ctx context.Context, j job, cause error) error {
	e.lookFailed(j).Err(cause).Str("turn", string(j.turn.ID)).Msg("look at run")
	wait := max(bridge.RetryAfter(cause), e.nextLook(j))
	return e.step(ctx, j, func(c *change, j *job) error {
		if text := bridge.SafeMessage(cause); text != j.turn.Trouble {
			j.turn.Trouble = text
			if err := c.UpdateTurn(j.turn); err != nil {
				return err
			}
		}
		return c.PutBack(j.work, c.now.Add(wait))
	})
}

// wrongRepoLater handles a repository that turns out to be another one only
// after the launch was confirmed (a rename or transfer that redirects).
func (e *Engine) wrongRepoLater(ctx context.Context, j job, obs bridge.Observation) error {
	return e.wrongRepo(ctx, j, bridge.Started{Agent: j.agent.External, Run: j.turn.Run, Repo: obs.Repo, URL: j.agent.URL})
}
