package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
)

// Move is what came of a move.
type Move struct {
	Agent bridge.Agent
	// From is the Runtime that the agent left.
	From string
	// Workspace says what becomes of its workspace, for a person.
	Workspace string
}

// Move takes an agent to another Runtime, which a relay must host. The agent keeps its name, its place, its mail, its memory, its tokens and all that
// waits for it. Its next turn begins a session there with the transcript of the earlier one. Conflict when the agent cannot be moved now,
// or lives there already; Invalid for a Runtime that takes no moved agent; Denied where a rule has its repository live elsewhere.
func (e *Engine) Move(ctx context.Context, id bridge.AgentID, runtime string) (Move, error) {
	var m Move
	var old bridge.RunRef
	err := e.update(ctx, func(c *change) error {
		a, err := c.Agent(id)
		if err != nil {
			return err
		}
		if err := c.e.moves().May(c.Scene, a, runtime); err != nil {
			return err
		}
		m.From, old = a.Runtime, refOf(a)
		m.Workspace, err = c.e.moves().LeftBehind(c.Scene, a, runtime)
		if err != nil {
			return err
		}
		m.Agent, err = c.move(a, runtime)
		return err
	}, bridge.NeedStory{Agent: id})
	if err == nil && old.Agent != "" {
		e.release(ctx, old)
	}
	return m, notFound(err, "agent", string(id))
}

// move records a move, and lets a turn that waits go at the new place.
func (c *change) move(a bridge.Agent, runtime string) (bridge.Agent, error) {
	from := a.Runtime
	moving.To(&a, runtime, c.NewID(moving.Prefix))
	a.NotBefore, a.Doing, a.DoingSince, a.UpdatedAt = time.Time{}, "", time.Time{}, c.now
	if a.State != bridge.AgentFailed && a.State != bridge.AgentGated {
		a.Trouble = ""
	}
	if err := c.UpdateAgent(a); err != nil {
		return a, err
	}
	err := c.event(moving.Event, a, bridge.Event{Text: fmt.Sprintf("the operator moved %s from %s to %s", a.Name, from, runtime),
		Fields: map[string]string{"from": from, "to": runtime}})
	if err != nil {
		return a, err
	}
	return a, c.WakeLane(agentLane(a.ID), c.now)
}

// releaseWithin bounds how long a move or a Forget waits for the relay of the agent.
const releaseWithin = 5 * time.Second

// release ends what is left of the process of a session that gets no more turns. A relay that does not hear of it ends the process when it has rested for `idle`.
func (e *Engine) release(ctx context.Context, old bridge.RunRef) {
	if _, _, hosted := e.hosts(old.Runtime); !hosted {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	old.Over = true
	if err := e.o.Runtime.Cancel(ctx, old); err != nil {
		e.o.Log.Info().Err(err).Str("external", old.Agent).Msg("the process of a session that is over ends by itself")
	}
}

func (e *Engine) moves() moving.Rules {
	return moving.Rules{Policy: e.o.Policy(), Hosts: e.hosts, Away: e.away, Shares: e.shares}
}

func (e *Engine) hosts(runtime string) (relay, entry string, is bool) {
	if e.o.Hosts == nil {
		return "", "", false
	}
	return e.o.Hosts(runtime)
}

// beginMoved builds the first turn of a moved agent's session: the transcript, its memory, and all that waits. The transcript goes without its turns
// where all together is too long for a launch. It reports false where even that is too long, and the turn has failed.
func (c *change) beginMoved(j *job) (bool, error) {
	if err := c.carryWaiting(j); err != nil {
		return false, err
	}
	turns, err := c.Turns(bridge.TurnFilter{Agent: j.agent.ID, Before: j.turn.Seq, Limit: moving.MaxTurns})
	if err != nil {
		return false, err
	}
	rest, earlier := j.turn.Sent, int(j.turn.Seq-1)-len(turns)
	turns = slices.DeleteFunc(turns, func(t bridge.Turn) bool { return t.Run == "" }) // no session got it
	for _, shown := range [][]bridge.Turn{turns, nil} {
		head := moving.Transcript(newHome(j), shown, earlier+len(turns)-len(shown))
		j.turn.Sent = head + rest
		v := c.e.grantOf(*j)
		if !v.Grant.Valid() {
			continue
		}
		j.launch.grant = v.Grant
		_, quoted := words.Split(head)
		return true, c.hear(*j, echo.Heard{Text: quoted, Source: bridge.EchoTree, Author: j.agent.Name, Place: "the transcript of its earlier session"})
	}
	j.turn.Sent = rest
	return false, c.failTurn(j, "the messages and results that wait for the agent are too long for the first turn of a session; send the agent a shorter text")
}

// newHome tells a moved agent where it works.
func newHome(j *job) bridge.Words {
	if j.launch.home.Within != nil {
		return words.Say("You work in the workspace of your parent, as in the earlier session.")
	}
	return words.Say("You have a new workspace, a clone of %s. You do not have the earlier workspace or its uncommitted files. Its commits may be on a branch that begins with drawbridge/ in the clone on its machine. Ask the operator if you need them.", j.agent.Repo)
}

// notBegun takes back the session of a moved agent whose first turn never reached it, so that the next turn begins another one with the
// transcript. It writes nothing.
func (c *change) notBegun(j *job, why bridge.EndCause) {
	switch why {
	case bridge.CauseUnsaid, bridge.CauseSessionGone, bridge.CauseLoginMissing:
		if moving.Began(j.turn) {
			moving.To(&j.agent, j.agent.Runtime, c.NewID(moving.Prefix))
		}
	}
}
