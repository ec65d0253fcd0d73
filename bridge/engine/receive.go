package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// output is what came of a turn, as the API says.
type output struct {
	obs bridge.Observation
	// oversize says that the reply was too large to be read; then nothing of it runs.
	oversize string
	// gone says that the API does not know the agent any more.
	gone bool
	// streamed says that a stream told of the end.
	streamed bool
	// evidence is what else the API says of the agent, nil when nobody can ask it.
	evidence *bridge.Evidence
}

// accept records how a run ended, everything that its reply asks for, and the
// work that follows, in one transaction: either all of it is there after a
// crash or none, and then the run is looked at again.
func (e *Engine) accept(ctx context.Context, j job, out output) error {
	var found parser.Findings
	// Only the text of a turn that ended by itself may command (facts: The two doors), and not that of an agent with tools alone.
	if out.obs.State == bridge.RunFinished && out.oversize == "" && !j.agent.Silent() {
		found = parser.Read(out.obs.Reply, e.o.Parser)
	}
	out.streamed = e.streams.ended(j.turn.ID) // it answers once, and the step may run again
	return e.step(ctx, j, func(c *change, j *job) error {
		completion, err := c.complete(j, out)
		if err != nil {
			return err
		}
		if err := takeUsage(c, &j.agent, j.names, out); err != nil {
			return err
		}
		if err := e.usageLater(c, j.agent, j.names, j.turn); err != nil {
			return err
		}
		if out.obs.Cause != "" || j.agent.Doing != "" {
			j.agent.Doing, j.agent.DoingSince = bridge.DoingIdle, c.now
		}
		switch {
		case out.obs.Cause == bridge.CauseAsking:
			return c.asks(j, out)
		case out.obs.State != bridge.RunFinished:
			return c.unfinished(j, out, completion)
		}
		if err := c.replied(j, out); err != nil {
			return err
		}
		if err := c.judge(&asker{Agent: j.agent, Turn: &j.turn, Names: j.names, Tree: j.tree}, found, out.oversize); err != nil {
			return err
		}
		if err := c.endWork(j); err != nil {
			return err
		}
		if err := c.endTask(&j.agent, &j.turn); err != nil {
			return err
		}
		if err := c.unanswered(j.agent.ID); err != nil {
			return err
		}
		return c.pump(&j.agent)
	}, append(j.ending(), bridge.NeedRunEnd{Op: j.agent.ID, Run: runName(j.turn), Status: out.obs.State})...)
}

// complete writes the run's end into the ledger, once, and names who told us first.
func (c *change) complete(j *job, out output) (bridge.Completion, error) {
	source := bridge.SourcePoll
	if hooks, err := c.Deliveries(j.agent.ID, 1); err != nil {
		return bridge.Completion{}, err
	} else if len(hooks) > 0 && !hooks[0].ReceivedAt.Before(j.turn.SentAt) {
		source = bridge.SourceWebhook
	} else if out.streamed {
		source = bridge.SourceStream
	}
	run := runName(j.turn)
	cpl := bridge.Completion{ID: bridge.CompletionID(c.NewID("cpl_")), Op: j.agent.ID, Turn: j.turn.ID, Run: run, Status: out.obs.State, Source: source, Evidence: words.Evidence(endedOf(*j, out)), CreatedAt: c.now}
	if _, err := c.InsertCompletion(cpl); err != nil {
		return bridge.Completion{}, err
	}
	j.turn.Status, j.turn.Spent = out.obs.State, j.turn.Spent.Plus(out.spent())
	after, err := c.causes(j)
	if err != nil {
		return bridge.Completion{}, err
	}
	fields := map[string]string{"status": string(out.obs.State), "source": string(source), "external": j.agent.External, "branch": words.SafeWord(out.obs.Branch), "pr": words.SafeWord(out.obs.PR),
		"duration_ms": fmt.Sprint(c.now.Sub(j.turn.SentAt).Milliseconds()), "attempts": fmt.Sprint(j.turn.Attempts), "after": after}
	maps.Copy(fields, spentFields(out.spent()))
	return cpl, c.event(bridge.EventCompleted, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.agent.Command, Text: fmt.Sprintf("%s ended %s (%s)", j.agent.Name, out.obs.State, source), Fields: fields})
}

// runName is what the ledger calls a turn's run: v0 runs have no id of their own.
func runName(t bridge.Turn) string { return or(t.Run, string(t.ID)) }

// spent is what a run took, nil when it is unknown.
func (o output) spent() *bridge.Spent {
	if o.obs.Spent == nil && o.evidence != nil && o.evidence.Spent != nil {
		return &bridge.Spent{Tokens: o.evidence.Spent}
	}
	return o.obs.Spent
}

// spentFields names what a run took for the event of its end; nothing when it is unknown.
func spentFields(s *bridge.Spent) map[string]string {
	fields := map[string]string{}
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	if s == nil {
		return fields
	}
	if t := s.Tokens; t != nil {
		fields["input_tokens"], fields["output_tokens"], fields["cache_write_tokens"], fields["cache_read_tokens"] = n(t.Input), n(t.Output), n(t.CacheWrite), n(t.CacheRead)
	}
	if s.CostMicros != nil {
		fields["cost_micros"] = n(*s.CostMicros)
	}
	if s.Model != "" {
		fields["model"] = s.Model
	}
	return fields
}

// maxCauses bounds how many turns an event names as what a turn came of.
const maxCauses = 20

// causes names, with blanks between, the turns that a turn came of: the one that launched
// its agent, for the first turn, and those whose actions, reminders, subagents or mail it tells of.
func (c *change) causes(j *job) (string, error) {
	var turns []string
	add := func(id bridge.TurnID) {
		if id != "" && id != j.turn.ID && len(turns) < maxCauses && !slices.Contains(turns, string(id)) {
			turns = append(turns, string(id))
		}
	}
	if j.turn.IsLaunch() {
		add(j.command.Turn)
	}
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return "", err
	}
	if err := c.Want(aboutNotices(carried)...); err != nil {
		return "", err
	}
	for _, n := range carried {
		sender, err := c.senderOf(n)
		if err != nil {
			return "", err
		}
		add(sender)
		for _, id := range n.Commands {
			turn, err := c.turnBehind(id, n.Completion)
			if err != nil {
				return "", err
			}
			add(turn)
		}
	}
	return strings.Join(turns, " "), nil
}

// aboutNotices is what notices are about: messages, and commands.
func aboutNotices(all []bridge.Notice) (about []bridge.Need) {
	for _, n := range all {
		if n.Message != "" {
			about = append(about, bridge.NeedMessage{ID: n.Message})
		}
		for _, id := range n.Commands {
			about = append(about, bridge.NeedCommand{ID: id})
		}
	}
	return about
}

// senderOf is the turn that wrote the message of a notice, "" for one without a message or of a person.
func (c *change) senderOf(n bridge.Notice) (bridge.TurnID, error) {
	if n.Message == "" {
		return "", nil
	}
	m, err := c.Message(n.Message)
	if errors.Is(err, bridge.ErrNoRow) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("load message %q: %w", n.Message, err)
	}
	return m.Turn, nil
}

// turnBehind is the turn that asked for a command or, for a launch, the subagent's: the one
// that ended with the completion, otherwise its latest.
func (c *change) turnBehind(id bridge.CommandID, ended bridge.CompletionID) (bridge.TurnID, error) {
	m, err := c.Command(id)
	if errors.Is(err, bridge.ErrNoRow) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("load command %q: %w", id, err)
	}
	if m.Child == "" {
		return m.Turn, nil
	}
	ends, err := c.Completions(m.Child)
	if err != nil {
		return "", err
	}
	for _, cpl := range ends {
		if cpl.ID == ended {
			return cpl.Turn, nil
		}
	}
	last, err := c.Turns(bridge.TurnFilter{Agent: m.Child, Limit: 1})
	if err != nil || len(last) == 0 {
		return "", err
	}
	return last[0].ID, nil
}

// replied ends the turn well: what it carried is delivered.
func (c *change) replied(j *job, out output) error {
	j.turn.Reply, j.turn.Trouble = out.obs.Reply, or(out.oversize, string(words.Name(out.obs.Detail)))
	if err := c.setTurn(&j.turn, bridge.TurnReplied); err != nil {
		return err
	}
	j.agent.Trouble = ""
	if err := c.delivered(j); err != nil {
		return err
	}
	fields := causeOf(j.turn)
	fields["text"] = words.Clip(j.turn.Reply, words.Shown)
	return c.event(bridge.EventReply, j.agent, bridge.Event{Turn: j.turn.ID, Text: words.OneLine(j.turn.Reply, 300), Fields: fields})
}

// delivered marks what the turn carried: completions as delivered, commands as reported.
func (c *change) delivered(j *job) error {
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return err
	}
	if len(carried) == 0 {
		return nil
	}
	if err := c.markDelivered(j.turn.ID, carried); err != nil {
		return err
	}
	return c.event(bridge.EventDelivered, j.agent, bridge.Event{Turn: j.turn.ID, Text: words.Count(len(carried), "outcome") + " delivered"})
}
