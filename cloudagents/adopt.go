package cloudagents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
)

const (
	// runPage is the largest page of runs that the API gives, maxRunPages how many
	// of them are read to find an agent's first run.
	runPage     = 100
	maxRunPages = 50
	// maxCursor bounds what goes from an answer into the next request's URL, in bytes.
	maxCursor = 2048
)

// adopt takes over the agent that a 409 speaks of. Its id was derived from this
// very operation, so it is our earlier self; the bridge still compares its
// repository. Until it was read, the launch stays unclear.
func (c *Client) adopt(ctx context.Context, l bridge.Launch, conflict error) (bridge.Started, error) {
	s, found, err := c.findLaunchV1(ctx, l)
	var e *bridge.Error
	switch {
	case errors.As(err, &e):
		unclear := *e
		unclear.Unclear = true
		return bridge.Started{}, &unclear
	case found == bridge.FoundThere:
		return s, nil
	case hasCode(conflict, codeConflict):
		return bridge.Started{}, bridge.Errorf(bridge.Conflict, "launch agent: the agent of this operation existed and has been deleted")
	}
	return bridge.Started{}, conflict
}

func (c *Client) findLaunchV1(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	const what = "find launch"
	agent, err := c.agentV1(ctx, what, l.AgentID)
	if bridge.KindOf(err) == bridge.NotFound {
		return bridge.Started{}, bridge.FoundAbsent, nil
	}
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	run, err := c.firstRunV1(ctx, what, agent)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	return startedV1(agent, run), bridge.FoundThere, nil
}

// firstRunV1 returns the launch's own run: the last of a list that has the newest
// first. Never the agent's latestRunId, although it costs a look more: with a
// database restored from an older copy that is the run of a later follow-up, whose
// reply would be taken for the launch's. What the list cannot settle is an error:
// plain while it may only lag behind, Unclear when waiting does not help.
func (c *Client) firstRunV1(ctx context.Context, what string, agent agentV1) (string, error) {
	walk, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	p, w := page{limit: runPage}, oldestRun{}
	for range maxRunPages {
		runs, next, err := c.runsV1(walk, what, agent.ID, p)
		switch {
		case bridge.KindOf(err) == bridge.NotFound:
			return "", c.noRunYet(what, agent) // the agent was there a moment ago
		case bridge.KindOf(err) == bridge.TooLarge || err != nil && walk.Err() != nil && ctx.Err() == nil:
			return "", unsettled(what, "the agent's list of runs is too large to read", err)
		case err != nil:
			return "", err
		}
		w.take(runs)
		if next != "" {
			p.cursor = next
			continue
		}
		if w.id == "" {
			return "", c.noRunYet(what, agent)
		}
		if !w.inOrder() {
			return "", unsettled(what, "the agent's runs are not listed newest first", nil)
		}
		return w.id, nil
	}
	return "", unsettled(what, fmt.Sprintf("the agent lists more than %d pages of runs", maxRunPages), nil)
}

// oldestRun remembers the last run of a list, and what would speak against its
// being the oldest.
type oldestRun struct {
	id       string
	created  time.Time
	earliest time.Time
}

func (o *oldestRun) take(runs []runV1) {
	for _, run := range runs {
		o.id, o.created = run.ID, parseTime(run.CreatedAt.Is)
		if !o.created.IsZero() && (o.earliest.IsZero() || o.created.Before(o.earliest)) {
			o.earliest = o.created
		}
	}
}

// inOrder holds the documented order against the times, where there are times.
func (o *oldestRun) inOrder() bool { return o.earliest.Equal(o.created) }

// noRunYet is for a list that lags behind its agent. A young agent is waited for.
// One older than a lost request can live will not show its run by waiting: that
// is for a person to see.
func (c *Client) noRunYet(what string, agent agentV1) error {
	age := c.opts.Now().Sub(parseTime(agent.CreatedAt.Is))
	return &bridge.Error{
		Kind:    bridge.Unavailable,
		Message: what + ": the agent exists but shows no run yet",
		Unclear: age > c.opts.SettleTime,
	}
}

func unsettled(what, why string, cause error) error {
	return &bridge.Error{
		Kind:    bridge.Conflict,
		Message: what + ": the agent exists, but the bridge cannot tell which run is its first: " + why,
		Cause:   cause,
		Unclear: true,
	}
}
