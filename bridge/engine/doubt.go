package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/bridge/words"
)

// uncertainLook is how often the bridge looks for the effect of an uncertain turn.
const uncertainLook = 5 * time.Minute

// doubt records that a call left without an answer. The turn stays as it is;
// the next handler looks for the effect before anything is sent again.
func (e *Engine) doubt(ctx context.Context, j job, wait time.Duration) error {
	return e.step(ctx, j, func(c *change, j *job) error {
		if j.turn.DoubtSince.IsZero() {
			j.turn.DoubtSince = c.now
		}
		if err := c.UpdateTurn(j.turn); err != nil {
			return err
		}
		return c.PutBack(j.work, c.now.Add(wait))
	})
}

// clearDoubt finds out what became of an earlier attempt. What is found is adopted, and what is absent is sent again. Where the
// look-up cannot tell, the turn becomes uncertain.
func (e *Engine) clearDoubt(ctx context.Context, j job) error {
	if j.turn.DoubtSince.IsZero() {
		// The process ended between the commit and the answer.
		return e.doubt(ctx, j, 0)
	}
	if j.launch != nil {
		j.launch.grant = e.grantOf(j).Grant
	}
	call, cancel := lanes.Repeatable(ctx)
	defer cancel()
	look, end := bridge.LookFor(call, j.turn.ID)
	started, found, err := e.find(look, j)
	end(found == bridge.FoundThere || err != nil && !bridge.Passing(err))
	wait := max(bridge.RetryAfter(err), e.doubtWait(j))
	switch {
	case err != nil && call.Err() != nil: // nobody has looked
		return e.putBack(ctx, j.work, 0)
	case err != nil && bridge.KindOf(err) == bridge.NotFound && e.settled(j):
		return e.step(ctx, j, func(c *change, j *job) error {
			j.fault = string(bridge.NotFound)
			return c.failTurn(j, bridge.SafeMessage(err))
		})
	case err != nil && !(bridge.IsUnclear(err) && e.settled(j) && j.turn.State == bridge.TurnDelivering):
		e.lookFailed(j).Err(err).Str("turn", string(j.turn.ID)).Msg("look for the effect")
		return e.putBack(ctx, j.work, wait)
	case found == bridge.FoundThere && knownUnclear(j, started):
		return e.putBack(ctx, j.work, uncertainLook)
	case found == bridge.FoundThere:
		return e.foundSent(ctx, j, started)
	case found == bridge.FoundAbsent && j.stopped() != "" && j.turn.State == bridge.TurnDelivering:
		return e.letGo(ctx, j, func(c *change, j *job) error { return c.failStopped(j) })
	case found == bridge.FoundAbsent && j.launch != nil && j.turn.State == bridge.TurnDelivering:
		return e.relaunch(ctx, j) // the same agentId: a repeat meets its earlier self
	case !e.settled(j):
		return e.putBack(ctx, j.work, wait)
	case found == bridge.FoundAbsent && j.turn.State == bridge.TurnDelivering:
		return e.again(ctx, j) // no new run appeared in the settle time
	case err == nil && e.neverShown(j):
		return e.step(ctx, j, func(c *change, j *job) error {
			return c.failTurn(j, fmt.Sprintf("it was not launched: during %s (the setting cursor.v0_settle) the Cloud Agents API listed no such agent", e.o.V0Settle))
		})
	case j.turn.State == bridge.TurnUncertain:
		return e.putBack(ctx, j.work, uncertainLook)
	}
	return e.step(ctx, j, func(c *change, j *job) error { return c.uncertain(*j) })
}

// doubtWait is how long to wait until the next look for an effect: longer, the
// older the doubt is. It does not count claims, of which a crash makes many.
func (e *Engine) doubtWait(j job) time.Duration {
	return e.agedWait(j.turn.DoubtSince, time.Second, time.Minute)
}

// agedWait doubles from base up to limit with the time that has passed.
func (e *Engine) agedWait(since time.Time, base, limit time.Duration) time.Duration {
	age := e.o.Now().Sub(since).Abs() // a clock that was put back makes nothing young
	attempt := 1
	for d := 2 * base; d < age && attempt < 10; d *= 2 {
		attempt++
	}
	return e.backoff(attempt, base, limit)
}

// settled reports whether a lost request can no longer take effect.
func (e *Engine) settled(j job) bool {
	return e.o.Now().Sub(j.turn.DoubtSince) >= e.o.Settle(j.agent.Runtime)
}

// neverShown reports whether the operator's rule settles a v0 launch that no
// look-up has found.
func (e *Engine) neverShown(j job) bool {
	return e.o.V0Settle > 0 && j.launch != nil && j.agent.API == bridge.APIv0 && e.o.Now().Sub(j.turn.DoubtSince) >= e.o.V0Settle
}

func (e *Engine) find(ctx context.Context, j job) (bridge.Started, bridge.Found, error) {
	look := func() (bridge.Started, bridge.Found, error) { return e.o.Runtime.FindSend(ctx, followUpOf(j)) }
	if j.launch != nil {
		look = func() (bridge.Started, bridge.Found, error) { return e.o.Runtime.FindLaunch(ctx, e.launchOf(j)) }
	}
	started, found, err := look()
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err // a look-up that failed found nothing, whatever else it says
	}
	return started, found, nil
}

// relaunch repeats a v1 launch, unless the allowlist says no by now: then
// nothing was launched and nothing will be.
func (e *Engine) relaunch(ctx context.Context, j job) error {
	v := e.grantOf(j)
	if !v.Grant.Valid() {
		return e.letGo(ctx, j, func(c *change, j *job) error { return c.failTurn(j, words.RefusedNow(v)) })
	}
	j.launch.grant = v.Grant // the one that the effect was looked for with may be of a narrower list
	return e.again(ctx, j)
}

// letGo ends a turn that must not be sent again, once an earlier attempt can no
// longer take effect.
func (e *Engine) letGo(ctx context.Context, j job, fail func(*change, *job) error) error {
	if !e.settled(j) {
		return e.putBack(ctx, j.work, e.doubtWait(j))
	}
	return e.step(ctx, j, fail)
}

// foundSent binds a turn to the run that was found. A run says itself what it told:
// a database that was put back may hold an earlier attempt of the turn, with less.
func (e *Engine) foundSent(ctx context.Context, j job, started bridge.Started) error {
	if j.launch != nil {
		return e.started(ctx, j, started)
	}
	s, shown, err := e.sentRun(ctx, j, started.Run)
	if err != nil {
		return e.putBack(ctx, j.work, max(bridge.RetryAfter(err), e.doubtWait(j)))
	}
	p := words.ReadPrompt(s.Text)
	if !shown || p.Turn != j.turn.ID || !p.Whole {
		return e.started(ctx, j, started)
	}
	return e.step(ctx, j, func(c *change, j *job) error { return c.adopt(j, s, p) })
}

// again sends once more what surely did not arrive. The doubt starts again with
// each attempt: it too gets the whole time to show.
func (e *Engine) again(ctx context.Context, j job) error {
	if waits, err := e.catchUp(ctx, j); waits || err != nil {
		return err
	}
	next, ready := j, false
	ran, err := e.stepped(ctx, j, func(c *change, fresh *job) error {
		next, ready = j, false
		if fresh.stopped() != "" { // while the effect was looked for
			return c.PutBack(j.work, c.now)
		}
		if stale, err := c.stale(fresh); stale || err != nil {
			return err
		}
		next.doubted = j.turn.DoubtSince
		fresh.turn.DoubtSince = c.now
		fresh.turn.Attempts++
		next.turn, ready = fresh.turn, true
		return c.UpdateTurn(fresh.turn)
	})
	if err != nil || !ran || !ready {
		return err
	}
	return e.send(ctx, next)
}

// stale takes a follow-up back to the queue that would tell again what a run has
// told that was found meanwhile. It reports whether it did.
func (c *change) stale(j *job) (bool, error) {
	if j.launch != nil || j.turn.GoesOn() {
		return false, nil
	}
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return false, err
	}
	rest, err := c.notTold(carried)
	if err != nil {
		return false, err
	}
	if text := words.Compose(j.turn, rest); text != "" && strings.HasSuffix(j.turn.Sent, text) {
		return false, nil
	}
	j.turn.DoubtSince = time.Time{}
	return true, errors.Join(c.setTurn(&j.turn, bridge.TurnQueued), c.PutBack(j.work, c.now))
}

// doubtAsBefore puts a turn back whose new attempt surely had no effect. An
// answer speaks for its own request alone: the earlier one is as much in doubt as it was.
func (e *Engine) doubtAsBefore(ctx context.Context, j job, cause error) error {
	wait := max(bridge.RetryAfter(cause), e.backoff(j.turn.Attempts, time.Second, time.Minute))
	return e.step(ctx, j, func(c *change, fresh *job) error {
		fresh.turn.DoubtSince = j.doubted
		if err := c.UpdateTurn(fresh.turn); err != nil {
			return err
		}
		return c.PutBack(j.work, c.now.Add(wait))
	})
}

// uncertain says that nobody here can tell whether the effect happened. The
// bridge goes on looking at long intervals; a person may decide at any time.
func (c *change) uncertain(j job) error {
	text := "it may have happened: the bridge lost the answer and cannot find the effect. A person has to look."
	if j.launch != nil && !j.launch.moved {
		text = "it may have happened, on branch bridge/" + operation(j.agent) + ": the bridge lost the answer and cannot find the effect. A person has to look."
	}
	j.turn.Trouble, j.turn.Run = text, "" // the run before it may have been limited
	if err := c.setTurn(&j.turn, bridge.TurnUncertain); err != nil {
		return err
	}
	if j.asked() {
		j.command.Reason = text
		if err := c.setCommand(&j.command, bridge.CommandUncertain); err != nil {
			return err
		}
		j.agent.Task = bridge.TaskWaiting
		if err := c.UpdateAgent(j.agent); err != nil {
			return err
		}
		if err := c.tellParent(j.agent, bridge.Notice{Cause: bridge.CauseReport, Text: words.Say("%s (%s on %s): uncertain: %s Do not ask for it again.",
			words.Where(j.command.Parsed.Line), j.command.Parsed.Verb, j.command.Canonical, words.Own(text))}, "uncertain", j.turn.Name()); err != nil {
			return err
		}
	} else if err := c.waits(&j.agent, "the bridge does not know whether its turn arrived, and a person has to look"); err != nil {
		return err
	}
	if err := c.event(bridge.EventUncertain, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.command.ID, Text: text, Fields: causeOf(j.turn)}); err != nil {
		return err
	}
	return c.PutBack(j.work, c.now.Add(uncertainLook))
}
