package engine

import (
	"context"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// A machine may lose track of a turn: its agent went away, and its history does not say whether it got the turn. The engine then repeats
// nothing, and a person says what happened.

// unclear takes such a turn to uncertain. What the turn carried stays with it until a person settles the turn.
func (e *Engine) unclear(ctx context.Context, j job, obs bridge.Observation) error {
	e.streams.ended(j.turn.ID)
	return e.step(ctx, j, func(c *change, j *job) error {
		text := whyUnclear(j.turn.ID, obs)
		j.turn.Trouble, j.turn.Run, j.turn.DoubtSince = text, "", c.now
		j.agent.Trouble, j.agent.Doing, j.agent.DoingSince = text, bridge.DoingIdle, c.now
		if err := c.setTurn(&j.turn, bridge.TurnUncertain); err != nil {
			return err
		}
		if err := c.UpdateAgent(j.agent); err != nil {
			return err
		}
		if err := c.waits(&j.agent, "the bridge does not know whether its turn arrived, and a person has to look"); err != nil {
			return err
		}
		if err := c.event(bridge.EventUncertain, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.command.ID, Text: text, Fields: causeOf(j.turn)}); err != nil {
			return err
		}
		return c.PutBack(j.work, c.now.Add(uncertainLook))
	})
}

// knownUnclear reports whether what a look-up found is the run that ended unclear.
func knownUnclear(j job, found bridge.Started) bool {
	return j.turn.State == bridge.TurnUncertain && found.Run != "" && found.Run == j.agent.LastRun
}

// whyUnclear says what is in doubt, and how a person settles it.
func whyUnclear(id bridge.TurnID, obs bridge.Observation) string {
	text := "the agent may have got this turn, and its machine cannot tell"
	if obs.Detail != "" {
		text += ": " + string(words.Name(obs.Detail))
	}
	return text + fmt.Sprintf("; look at the agent's workspace; if the agent got the turn, run `drawbridge give-up %s`, otherwise run `drawbridge say-again %s`", id, id)
}

// giveUpSaid settles an uncertain turn that an agent at a relay got, as a person says. The bridge does not tell again what the turn carried, and the
// turn ends without an answer.
func (c *change) giveUpSaid(j *job) error {
	j.told, j.turn.Run = true, j.agent.LastRun // nothing was sent since
	return c.giveUp(j, gotIt)
}

// saidAgain is why an uncertain turn fails whose words go into a new one.
const saidAgain = "a person had the same said in a new turn"

// sayInNewTurn ends an uncertain turn of an agent at a relay, so that another one says the same. A relay refuses to repeat a turn whose fate it does
// not know, and a new turn has a marker of its own.
func (c *change) sayInNewTurn(t *bridge.Turn, a bridge.Agent) error {
	t.Trouble = saidAgain
	if err := c.setTurn(t, bridge.TurnFailed); err != nil {
		return err
	}
	if err := c.uncarry(t.ID); err != nil {
		return err
	}
	return c.event(bridge.EventTurnFailed, a, bridge.Event{Turn: t.ID, Text: t.Trouble, Fields: causeOf(*t)})
}
