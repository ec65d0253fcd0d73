package engine

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// Word is a person's word on what became of something that is in doubt.
type Word struct {
	// External is the id of the agent that a launch made after all, "" when nothing happened.
	External string
	// Unchecked takes the word as it is, without asking the API about the id, or the relay's journal about an action.
	Unchecked bool
	// Ran says that an action ran; ExitCode is its exit code, nil when the person does not know it.
	Ran      bool
	ExitCode *int
	// Journal takes what the relay's journal says of an action, and no word of a person.
	Journal bool
	// Told and Tell are for a run that nobody can read: it told what the bridge had
	// to tell, or it did not and that is to be told.
	Told, Tell bool
}

// Resolve settles an uncertain command by a person's word. A launched agent is
// looked at as any other from then on; what did not happen is told to the agent
// that asked as a failure, so that it may ask again. About an action the relay's
// journal is asked first, and what it knows counts. Conflict when the command is
// not uncertain or the id belongs to another agent, Invalid when the API does not
// know the agent or knows it on another repository or the word does not fit the
// command, Unavailable when the API, or the journal that is to be taken, cannot be asked.
func (e *Engine) Resolve(ctx context.Context, id bridge.CommandID, word Word) (bridge.Command, error) {
	m, a, err := e.doubted(ctx, id)
	if err != nil {
		return m, err
	}
	if m.Parsed.Verb != parser.Subagent {
		return e.resolveAction(ctx, m, a, word)
	}
	if word.Ran || word.Journal || word.ExitCode != nil {
		return m, bridge.Errorf(bridge.Invalid, "command %s launches an agent; settle it with --launched AGENT or --not-launched", m.ID)
	}
	err = e.believe(ctx, word, func(*bridge.Scene) (bridge.AgentID, error) { return m.Child, nil })
	if err != nil {
		return m, err
	}
	err = e.update(ctx, func(c *change) error {
		if m, err = uncertain(c.Scene, id); err != nil {
			return err
		}
		if err := c.settleCommand(m, word.External); err != nil {
			return err
		}
		m, err = c.Command(id)
		return err
	}, bridge.NeedStory{Command: id}, bridge.NeedStory{Agent: m.Child})
	return m, err
}

// doubted returns an uncertain command and the agent that asked for it.
func (e *Engine) doubted(ctx context.Context, id bridge.CommandID) (m bridge.Command, a bridge.Agent, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) error {
		if m, err = uncertain(tx, id); err != nil {
			return err
		}
		a, err = tx.Agent(m.Agent)
		return err
	})
	return m, a, notFound(err, "command", string(id))
}

// uncertain returns a command that is uncertain; Conflict when it is not.
func uncertain(tx *bridge.Scene, id bridge.CommandID) (bridge.Command, error) {
	m, err := tx.Command(id)
	if err == nil && m.State != bridge.CommandUncertain {
		err = bridge.Errorf(bridge.Conflict, "command %s is %s, not uncertain; see `drawbridge commands --state uncertain`", m.ID, m.State)
	}
	return m, err
}

// resolveAction settles an action. What the relay's journal knows counts for more than a person's word, unless the person says
// otherwise.
func (e *Engine) resolveAction(ctx context.Context, m bridge.Command, a bridge.Agent, word Word) (bridge.Command, error) {
	if word.External != "" {
		return m, bridge.Errorf(bridge.Invalid, "command %s is not a launch; settle it with --ran or --not-run", m.ID)
	}
	var found bridge.ActionFinding
	if !word.Unchecked {
		var err error
		if found, err = e.lookUpJournal(ctx, m, a); err != nil && word.Journal {
			return m, err
		}
		if err := disagrees(m, found, word); err != nil {
			return m, err
		}
	}
	var settled bridge.Command
	err := e.update(ctx, func(c *change) error {
		fresh, err := uncertain(c.Scene, m.ID)
		if err != nil {
			return err
		}
		if found.Known == bridge.JournalOver || found.Known == bridge.JournalNever {
			err = journalSays(c, fresh, found)
		} else {
			err = c.settleAction(fresh, word)
		}
		if err != nil {
			return err
		}
		settled, err = c.Command(m.ID)
		return err
	}, bridge.NeedStory{Command: m.ID})
	if err != nil {
		return m, err
	}
	return settled, nil
}

// disagrees says why a word cannot be taken, given what the journal said.
func disagrees(m bridge.Command, found bridge.ActionFinding, word Word) error {
	switch {
	case found.Known == bridge.JournalOpen:
		return bridge.Errorf(bridge.Conflict, "relay %s says that the action of command %s still runs; wait for its end", found.Relay, m.ID)
	case !word.Journal || found.Known == bridge.JournalOver || found.Known == bridge.JournalNever:
		return nil
	case found.Known == bridge.JournalInterrupted:
		return bridge.Errorf(bridge.Conflict, "relay %s stopped while it ran this command; check on that machine what the command did, then say so with --ran or --not-run", found.Relay)
	}
	return bridge.Errorf(bridge.Conflict, "relay %s has no record of this command, but the command may have run; check on that machine whether it ran, then say so with --ran or --not-run", found.Relay)
}

// believe asks the API about the agent that a person names for a v0 launch: an id
// that was mistyped could be anybody's, and the bridge would read that agent's
// replies as commands, or cancel it for being on another repository. At v1 only
// one id is possible, and settleLaunch knows it. doubted is whose launch it is, or none.
func (e *Engine) believe(ctx context.Context, word Word, doubted func(*bridge.Scene) (bridge.AgentID, error)) error {
	if err := bridge.CheckExternal(word.External); err != nil {
		return err
	}
	var a bridge.Agent
	err := e.View(ctx, func(tx *bridge.Scene) error {
		id, err := doubted(tx)
		if err == nil && id != "" {
			a, err = tx.Agent(id)
		}
		return err
	})
	if err != nil || a.API != bridge.APIv0 || word.External == "" || word.Unchecked {
		return err
	}
	const instead = "; try again later, or skip this check with --unchecked (unchecked in the API)"
	obs, err := e.o.Runtime.Observe(ctx, bridge.RunRef{Runtime: a.Runtime, API: a.API, Agent: word.External})
	switch {
	case bridge.KindOf(err) == bridge.NotFound:
		return bridge.Errorf(bridge.Invalid, "the Cloud Agents API does not know agent %s; look at the agent's address again", word.External)
	case err != nil:
		return &bridge.Error{Kind: bridge.Unavailable, Cause: err, Message: fmt.Sprintf("the Cloud Agents API does not say what agent %s is (%s)%s", word.External, bridge.SafeMessage(err), instead)}
	case obs.Repo == "":
		return bridge.Errorf(bridge.Unavailable, "the Cloud Agents API does not say on which repository agent %s works%s", word.External, instead)
	case !sameRepo(obs.Repo, a.Repo):
		return bridge.Errorf(bridge.Invalid, "agent %s works on %q, but this launch is for %q; look at the agent's address again", word.External, words.OneLine(obs.Repo, 200), a.Repo)
	}
	return nil
}

// settleAction ends an action as a person says.
func (c *change) settleAction(m bridge.Command, word Word) error {
	a, err := c.Agent(m.Agent)
	if err != nil {
		return err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	next, kind, text := bridge.CommandFailed, bridge.EventFailed, "it did not run after all"
	m.Reason = "a person says that it did not run"
	if word.Ran {
		next, kind = bridge.CommandFinished, bridge.EventExecuted
		m.Outcome = &bridge.CommandOutcome{Status: string(bridge.ActionExecuted), ExitCode: bridge.NoExitCode}
		text = "it ran after all; its exit code and its output are unknown"
		if word.ExitCode != nil {
			m.Outcome.ExitCode = *word.ExitCode
			text = fmt.Sprintf("it ran after all, exit code %d; its output is unknown", *word.ExitCode)
		}
		m.Reason = "a person says that it ran"
	}
	if err := c.setCommand(&m, next); err != nil {
		return err
	}
	if err := c.event(kind, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason}); err != nil {
		return err
	}
	return c.tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseActionOutcome, Depth: turn.Depth, Commands: []bridge.CommandID{m.ID},
		Item: c.item(a, "settled", m.OpKey), Asked: m.Turn,
		Text: words.Say("%s (%s %s): %s; a person says so", words.OfTurn(m.Parsed.Line), m.Parsed.Verb, m.Canonical, words.Own(text))})
}

// ResolveTurn settles an uncertain turn by a person's word. A launch is settled as Resolve settles its command. A follow-up that did not
// arrive ends as failed, and what it carried waits for another turn. Conflict when the turn is not uncertain.
func (e *Engine) ResolveTurn(ctx context.Context, id bridge.TurnID, word Word) (bridge.Turn, error) {
	var t bridge.Turn
	if word.Ran || word.Journal || word.ExitCode != nil {
		return t, bridge.Errorf(bridge.Invalid, "turn %s is not an action; settle it with --launched AGENT or --not-launched", id)
	}
	err := e.believe(ctx, word, func(tx *bridge.Scene) (doubted bridge.AgentID, err error) {
		if t, err = tx.Turn(id); err == nil && t.State == bridge.TurnUncertain && t.IsLaunch() {
			doubted = t.Agent
		}
		return doubted, err
	})
	if err != nil {
		return t, notFound(err, "turn", string(id))
	}
	external := word.External
	err = e.update(ctx, func(c *change) error {
		j, err := c.e.loadJob(c.Scene, bridge.Work{Ref: string(id)})
		if err != nil {
			return err
		}
		switch {
		case j.turn.State != bridge.TurnUncertain:
			err = bridge.Errorf(bridge.Conflict, "turn %s is %s, not uncertain", id, j.turn.State)
		case j.launch != nil:
			err = c.settleLaunch(j, external)
		case j.turn.Run != "" && external == "":
			_, err = c.settleOne(j.turn, word.Told)
		case (word.Told || word.Tell) && external == "" && e.hosted(j.agent):
			err = bridge.Errorf(bridge.Invalid, "turn %s belongs to an agent at a relay; if the agent got the turn, run `drawbridge give-up %s`, otherwise run `drawbridge say-again %s`", id, id, id)
		case word.Told || word.Tell:
			err = bridge.Errorf(bridge.Invalid, "turn %s has no known run, so --told and --tell do not apply; settle the turn with --not-launched, or send it again with `drawbridge say-again %s`", id, id)
		case external != "":
			err = bridge.Errorf(bridge.Invalid, "turn %s is not a launch, so --launched does not apply; settle the turn with --not-launched, or send it again with `drawbridge say-again %s`", id, id)
		default:
			err = c.giveUp(&j, "a person says that it did not arrive")
		}
		if err != nil {
			return err
		}
		t, err = c.Turn(id)
		return err
	}, bridge.NeedStory{Turn: id})
	return t, notFound(err, "turn", string(id))
}

// settleCommand settles the launch that a command asked for.
func (c *change) settleCommand(m bridge.Command, external string) error {
	t, err := c.OpenTurn(m.Child)
	if err != nil {
		return err
	}
	j, err := c.e.loadJob(c.Scene, bridge.Work{Ref: string(t.ID)})
	if err != nil {
		return err
	}
	return c.settleLaunch(j, external)
}

// settleLaunch binds the launch's turn to the agent that a person names, or ends it.
func (c *change) settleLaunch(j job, external string) error {
	if external == "" {
		// The lane's own work goes: nothing is left to look for.
		return c.giveUp(&j, "a person says that it was not launched")
	}
	if own := moving.SessionID(j.agent); bridge.Repeatable(j.agent.API) && external != own {
		return bridge.Errorf(bridge.Invalid, "this launch can only have made agent %s; look for that one", own)
	}
	if other, err := c.FindAgent(bridge.ByExternal, external); err == nil {
		return bridge.Errorf(bridge.Conflict, "agent %s is already known as %s; look for the agent of this launch", external, other.Name)
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	if err := c.bind(&j, bridge.Started{Agent: external}); err != nil {
		return err
	}
	return c.WakeLane(agentLane(j.agent.ID), c.now)
}

// giveUp ends a turn from outside of its handler. Its work stays in the lane
// for the handler, which removes what is over.
func (c *change) giveUp(j *job, reason string) error {
	launch := j.turn.IsLaunch()
	if err := c.fail(j, reason); err != nil {
		return err
	}
	if err := c.WakeLane(agentLane(j.agent.ID), c.now); err != nil {
		return err
	}
	return c.failTask(&j.agent, j.turn, bridge.Notice{Text: words.Failure(j.agent, j.command, launch, reason)})
}
