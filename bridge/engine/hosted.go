package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// An agent on a person's machine says more of itself than one in the cloud: why a run ended, until when its account is limited, and
// what it does meanwhile.

// goneOf is the end of a run whose Runtime does not know it any more.
func goneOf(j job, err error) output {
	out := output{gone: true, obs: bridge.Observation{State: bridge.RunError, Detail: "the API does not know this agent any more"}}
	if !bridge.InCloud(j.agent.Runtime) {
		out.obs.Cause, out.obs.Detail = bridge.CauseSessionGone, bridge.SafeMessage(err)
	}
	return out
}

// sameDoing is by how much two readings of the same beginning may differ, because a relay says each as an age.
const sameDoing = 5 * time.Second

// goesOn records what an agent does while its run goes on, when that is news, and looks again later.
func (e *Engine) goesOn(ctx context.Context, j job, obs bridge.Observation) error {
	same := obs.Doing == j.agent.Doing && obs.DoingSince.Sub(j.agent.DoingSince).Abs() < sameDoing && (obs.Doing != bridge.DoingSleep || obs.NotBefore.Equal(j.agent.NotBefore))
	note := ""
	if obs.Doing != bridge.DoingSleep {
		note = words.Noted(obs)
	}
	if told := note == "" || note == j.turn.Trouble; told && (same || obs.Doing == "") {
		return e.putBack(ctx, j.work, e.nextLook(j))
	}
	return e.step(ctx, j, func(c *change, j *job) error {
		waited := j.agent.Doing == bridge.DoingSleep || j.agent.Doing == bridge.DoingNoModel && obs.Doing != bridge.DoingNoModel
		j.agent.Doing, j.agent.DoingSince = obs.Doing, obs.DoingSince
		if note != "" {
			j.turn.Trouble, j.agent.Trouble = note, note
			if err := c.UpdateTurn(j.turn); err != nil {
				return err
			}
		}
		switch {
		case obs.Doing == bridge.DoingSleep:
			return c.sleepsThere(j, obs)
		case waited:
			j.agent.NotBefore, j.agent.Trouble, j.turn.Trouble = time.Time{}, "", ""
			if err := c.UpdateTurn(j.turn); err != nil {
				return err
			}
		}
		if err := c.UpdateAgent(j.agent); err != nil {
			return err
		}
		return c.PutBack(j.work, c.now.Add(c.e.nextLook(*j)))
	})
}

// sleepsThere records that a run waits for the end of a limit. It goes on by itself where it is.
func (c *change) sleepsThere(j *job, obs bridge.Observation) error {
	text := words.Ending(obs).Waits(obs.NotBefore)
	j.agent.NotBefore, j.agent.Trouble, j.turn.Trouble = obs.NotBefore, text, text
	if err := errors.Join(c.UpdateTurn(j.turn), c.UpdateAgent(j.agent)); err != nil {
		return err
	}
	if err := c.tellsOfLimit(j, text, obs.NotBefore); err != nil {
		return err
	}
	return c.PutBack(j.work, c.now.Add(c.e.nextLook(*j)))
}

// limitWait is how long an agent sleeps whose limit has no time, at first and at most.
const limitWait, maxLimitWait = 5 * time.Minute, time.Hour

// longestLimit is how long an agent sleeps at most before it is asked to go on, whatever its machine says.
const longestLimit = 14 * 24 * time.Hour

// sleeps takes a turn back to the queue. A limit is a time: the turn is not failed, and goes on when the limit is over. A turn that the
// agent never got is said as if for the first time. One that was to go on still is: the agent reads no more of it than it has.
func (e *Engine) sleeps(ctx context.Context, j job, obs bridge.Observation) error {
	e.streams.ended(j.turn.ID)
	limited := obs.Cause == bridge.CauseLimited
	return e.step(ctx, j, func(c *change, j *job) error {
		until := obs.NotBefore
		switch {
		case !until.After(c.now) && limited:
			until = c.now.Add(c.e.backoff(j.turn.Attempts, limitWait, maxLimitWait))
		case !until.After(c.now):
			until = c.now.Add(c.e.backoff(j.turn.Attempts, time.Second, time.Minute))
		}
		until = until.Add(c.e.stagger(j.tree)).Add(time.Millisecond).Truncate(time.Millisecond) // the same in every store
		if most := c.now.Add(longestLimit); until.After(most) {
			until = most
		}
		if j.stopped() != "" {
			until = c.now
		}
		switch {
		case limited:
			j.turn.Status, j.turn.Got, j.turn.Spent = obs.State, true, j.turn.Spent.Plus(obs.Spent)
			was := j.agent // a number that is missing counts at the end of the turn
			addSpent(&j.agent, obs.Spent)
			if err := c.putUsage(was, &j.agent); err != nil {
				return err
			}
		case j.turn.Status == "":
			j.turn.Run = ""
			c.notBegun(j, obs.Cause)
		}
		text := words.Ending(obs).Waits(until)
		j.turn.Trouble, j.agent.Trouble = text, text
		j.agent.NotBefore, j.agent.Doing, j.agent.DoingSince = until, bridge.DoingSleep, c.now
		if err := c.setTurn(&j.turn, bridge.TurnQueued); err != nil {
			return err
		}
		if err := c.UpdateAgent(j.agent); err != nil {
			return err
		}
		if limited {
			if err := c.tellsOfLimit(j, text, until); err != nil {
				return err
			}
		}
		return c.PutBack(j.work, until)
	})
}

// tellsOfLimit records a limit, and lets the parent hear of it when it has another reason to be spoken to.
func (c *change) tellsOfLimit(j *job, text string, until time.Time) error {
	fields := causeOf(j.turn)
	fields["until"] = until.UTC().Format(time.RFC3339)
	if err := c.event(bridge.EventAsleep, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.agent.Command, Text: text, Fields: fields}); err != nil {
		return err
	}
	return c.tellParent(j.agent, bridge.Notice{Cause: bridge.CauseReport, Quiet: true,
		Text: words.Say("subagent %s (%s): %s", j.agent.Name, j.agent.Repo, words.Own(text))}, "limited", j.turn.Name(), fmt.Sprint(j.turn.Attempts))
}

// stagger spreads the agents of a tree that wake at the same time: they share an account, and its limit.
func (e *Engine) stagger(t bridge.Tree) time.Duration {
	spread := min(time.Duration(1+t.Launches)*5*time.Second, 10*time.Minute)
	return time.Duration(e.o.Rand() * float64(spread))
}

// asks ends a turn whose agent asked a person for so long that its process ended. What the turn told was told, and the answer is the
// agent's next turn. Its task goes on, so that the parent hears only that a person has to answer.
func (c *change) asks(j *job, out output) error {
	text := words.Ending(out.obs).Failed(j.turn.ID)
	j.turn.Reply, j.turn.Trouble, j.agent.Trouble = out.obs.Reply, text, text
	j.agent.Doing = bridge.DoingAsking
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return err
	}
	if err := c.delivered(j); err != nil {
		return err
	}
	if err := c.UpdateAgent(j.agent); err != nil {
		return err
	}
	if err := c.event(bridge.EventAsking, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.agent.Command, Text: text, Fields: causeOf(j.turn)}); err != nil {
		return err
	}
	if err := c.endWork(j); err != nil {
		return err
	}
	if err := c.waits(&j.agent, "it asked for a permission, and a person has to answer"); err != nil {
		return err
	}
	return c.pump(&j.agent)
}

// maxWoken bounds the agents that are looked through for a relay that connects. The turns of the others wait for their own next try.
const maxWoken = 1000

// LanesAt returns the lanes of the agents that a relay hosts and that have a turn, which may wait for the relay. A turn that waits for a
// limit or for a budget goes on waiting when its lane is woken. LanesAt only reads.
func (e *Engine) LanesAt(tx *bridge.Scene, relay string) (lanes []string, err error) {
	busy, err := tx.Agents(bridge.AgentFilter{State: bridge.AgentBusy, Known: true, Limit: maxWoken})
	for _, a := range busy {
		if host, _, hosted := e.hosts(a.Runtime); hosted && host == relay {
			lanes = append(lanes, agentLane(a.ID))
		}
	}
	return lanes, err
}
