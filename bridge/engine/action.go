package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/kin"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// errand is an action or reminder command with what its handler needs.
type errand struct {
	work    bridge.Work
	command bridge.Command
	agent   bridge.Agent
	names   []string
	grant   policy.Grant
	// doubt says that an earlier request may have reached the relay.
	doubt bool
}

func loadErrand(tx bridge.Tx, w bridge.Work) (r errand, err error) {
	r.work = w
	if r.command, err = tx.Command(bridge.CommandID(w.Ref)); err != nil {
		return r, fmt.Errorf("load command %q: %w", w.Ref, err)
	}
	if r.agent, err = tx.Agent(r.command.Agent); err != nil {
		return r, fmt.Errorf("load agent %q: %w", r.command.Agent, err)
	}
	r.names, err = kin.Lineage(tx, r.agent)
	return r, err
}

// actionWork asks the relay to run an action. The request id is the operation
// key: asking again after a crash, a lost answer or from a restored database
// meets the relay's record of the first time.
func (e *Engine) actionWork(ctx context.Context, w bridge.Work) error {
	var r errand
	ready := false
	err := e.update(ctx, func(c *change) (err error) {
		if r, err = loadErrand(c.Tx, w); err != nil {
			return err
		}
		ready, err = c.beginAction(&r)
		return err
	})
	if err != nil || !ready {
		return err
	}
	if !e.holds(ctx) {
		return bridge.ErrLeaseLost
	}
	out, err := e.o.Actions.RunAction(ctx, bridge.ActionRequest{Grant: r.grant, Request: r.command.OpKey, Agent: r.agent.Name,
		Line: string(r.command.Parsed.Verb) + ": " + r.command.Parsed.Action, Approved: r.command.RelayApproval()})
	switch {
	case err == nil:
		return e.update(ctx, func(c *change) error { return c.acted(r, out) })
	case ctx.Err() != nil:
		return e.putBack(ctx, w, 0)
	}
	return e.actionTrouble(ctx, r, err)
}

// beginAction commits that the request is about to leave. It reports whether it is to be sent.
func (c *change) beginAction(r *errand) (bool, error) {
	r.doubt = r.command.State == bridge.CommandSending
	switch r.command.State {
	case bridge.CommandSending:
		// Asked before; the gate was passed then, and the relay knows the id.
	case bridge.CommandGranted:
		if err := c.SetCommand(&r.command, bridge.CommandSending); err != nil {
			return false, err
		}
	default:
		return false, c.FinishWork(r.work)
	}
	switch tree, err := c.Tree(r.agent.Root); {
	case err != nil:
		return false, err
	case tree.Stopped(): // the call was on its way when the operator stopped it
		return false, c.actionFailed(*r, bridge.Errorf(bridge.Conflict, "%s", words.Stopped(tree)))
	}
	v := c.e.o.Policy().Grant(r.names, r.command.Parsed, r.command.Approved)
	if r.doubt && (!v.Grant.Valid() || v.Relay != r.command.Relay) {
		return false, c.actionFailed(*r, &bridge.Error{Kind: bridge.Conflict, Unclear: true,
			Message: "the allowlist changed while the answer was awaited, so the relay was not asked again"})
	}
	if !v.Grant.Valid() {
		v.Reason = words.RefusedNow(v)
		r.command.Code, r.command.Reason = string(v.Code), v.Reason
		return false, c.endErrand(*r, bridge.CommandRefused, bridge.Notice{Cause: bridge.CauseActionOutcome, Text: words.Errand(r.command) + "refused: " + strings.TrimPrefix(v.Reason, "refused: ")})
	}
	r.grant = v.Grant
	return true, nil
}

// actionTrouble decides by the kind of the error whether to ask again.
func (e *Engine) actionTrouble(ctx context.Context, r errand, cause error) error {
	tries := r.work.Tries + 1 // and not the claims: a crash is no relay's refusal
	wait := e.backoff(tries, actionWait, maxActionWait)
	e.o.Log.Warn().Err(cause).Str("command", string(r.command.ID)).Int("try", tries).Msg("action waits")
	kind := bridge.KindOf(cause)
	if kind == bridge.RateLimited || kind == bridge.Busy || (kind == bridge.Unavailable && waited(patient(tries, r.work)) < e.o.ActionPatience) {
		return e.update(ctx, func(c *change) error { return c.askLater(r, cause, max(wait, bridge.RetryAfter(cause))) })
	}
	return e.update(ctx, func(c *change) error { return c.actionFailed(r, cause) })
}

// The waits between two requests to a relay.
const (
	actionWait    = 500 * time.Millisecond
	maxActionWait = 10 * time.Second
)

// patient is how many of the tries use up patience: not those that a relay brought about by connecting, so that one that flaps
// leaves an action as much time as one that is away. One try in ten counts all the same, so that it ends some day.
func patient(tries int, w bridge.Work) int { return max(tries-int(w.Woken), tries/10) }

// waited is how long so many tries have waited in all, about.
func waited(tries int) (all time.Duration) {
	for i := range min(tries, 100) {
		all += min(actionWait<<min(i, 10), maxActionWait)
	}
	return all
}

// askLater puts an action back. One that surely did not reach the relay is as
// it was before; one that may have stays in sending, and the relay's journal
// tells when it is asked again.
func (c *change) askLater(r errand, cause error, wait time.Duration) error {
	if !r.doubt && !bridge.IsUnclear(cause) {
		if err := c.SetCommand(&r.command, bridge.CommandGranted); err != nil {
			return err
		}
	}
	return c.PutOff(r.work, c.now.Add(wait))
}

// actionFailed ends an action that could not be run, or of which nobody knows whether it ran.
func (c *change) actionFailed(r errand, cause error) error {
	r.command.Reason = bridge.SafeMessage(cause)
	if bridge.KindOf(cause) == bridge.NotFound {
		r.command.Code = codeNoRelay
	}
	next, kind, word := bridge.CommandFailed, bridge.EventFailed, "failed: "
	if r.doubt || bridge.IsUnclear(cause) { // an earlier request may have run it, whatever the last one met
		next, kind, word = bridge.CommandUncertain, bridge.EventUncertain, "uncertain, it may have run: "
	}
	if err := c.Event(kind, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: word + r.command.Reason, Fields: words.Fields(r.command)}); err != nil {
		return err
	}
	return c.endErrand(r, next, bridge.Notice{Cause: bridge.CauseActionOutcome, Text: words.Errand(r.command) + word + r.command.Reason})
}

// acted records the relay's answer.
func (c *change) acted(r errand, out bridge.ActionOutcome) error {
	if held, err := c.holdForRelay(r, out); held || err != nil {
		return err
	}
	r.command.Outcome = &bridge.CommandOutcome{Status: string(out.Status), ExitCode: out.ExitCode, Stdout: out.Stdout, Stderr: out.Stderr,
		Omitted: out.Omitted, DurationMS: out.Duration.Milliseconds(), HTTPStatus: out.HTTPStatus, Error: out.Error}
	n := bridge.Notice{Cause: bridge.CauseActionOutcome, Text: words.Errand(r.command) + words.Action(out), Untrusted: words.Outputs(out)}
	if out.Status == bridge.ActionRefused {
		r.command.Reason = "the relay refused it: " + out.Error
		if err := c.Event(bridge.EventRefused, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: r.command.Reason, Fields: words.Fields(r.command)}); err != nil {
			return err
		}
		return c.endErrand(r, bridge.CommandRefused, n)
	}
	fields := words.Fields(r.command)
	fields["status"], fields["exit_code"] = string(out.Status), strconv.Itoa(out.ExitCode)
	fields["duration_ms"], fields["output"] = strconv.FormatInt(out.Duration.Milliseconds(), 10), words.Clip(out.Stdout, 1000)
	if err := c.Event(bridge.EventExecuted, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: r.command.Canonical + " " + words.Action(out), Fields: fields}); err != nil {
		return err
	}
	return c.endErrand(r, bridge.CommandFinished, n)
}

// codeNoRelay is the seed's word for an action that no relay is configured for.
const codeNoRelay = "missing_local_action_runner"

// endErrand ends a command, removes its work and tells the agent.
func (c *change) endErrand(r errand, next bridge.CommandState, n bridge.Notice) error {
	fresh, err := c.Command(r.command.ID)
	if err != nil {
		return err
	}
	r.command.State = fresh.State
	if err := c.SetCommand(&r.command, next); err != nil {
		return err
	}
	if err := c.FinishWork(r.work); err != nil {
		return err
	}
	turn, err := c.Turn(r.command.Turn)
	if err != nil {
		return err
	}
	n.Agent, n.Depth, n.Commands = r.agent.ID, turn.Depth, []bridge.CommandID{r.command.ID}
	return c.Tell(n)
}

// remindWork brings a reminder back to the agent that asked for it.
func (e *Engine) remindWork(ctx context.Context, w bridge.Work) error {
	return e.update(ctx, func(c *change) error {
		r, err := loadErrand(c.Tx, w)
		if err != nil {
			return err
		}
		if r.command.State != bridge.CommandGranted {
			return c.FinishWork(w)
		}
		if err := c.SetCommand(&r.command, bridge.CommandSending); err != nil {
			return err
		}
		if err := c.Event(bridge.EventReminder, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: words.OneLine(r.command.Parsed.Message, 300)}); err != nil {
			return err
		}
		return c.endErrand(r, bridge.CommandFinished, bridge.Notice{Cause: bridge.CauseReminder, Untrusted: r.command.Parsed.Message,
			Text: fmt.Sprintf("reminder that you set for %s:", r.command.Parsed.When)})
	})
}

// errandLane is where an action or a reminder waits for its turn.
func errandLane(m bridge.Command) string {
	if m.Parsed.Verb == parser.Remind {
		return "remind/" + string(m.ID)
	}
	return bridge.ActionLane(m.Relay, m.Canonical)
}

// codeReminders says that too many reminders of the agent wait already.
const codeReminders = "too_many_reminders"

// remindable sets when a reminder is due, or why it cannot be set.
func (c *change) remindable(a bridge.Agent, m *bridge.Command) error {
	due, err := words.RemindAt(m.Parsed.When, c.now)
	if err != nil {
		m.Code, m.Reason = string(policy.CodeMalformed), err.Error()
		return nil
	}
	open, err := c.CountOpenCommands(a.ID, parser.Remind)
	if err != nil {
		return err
	}
	if m.State == bridge.CommandHeld {
		open-- // itself
	}
	if limit := c.e.o.Policy().Limits().Reminders; open >= limit {
		m.Code = codeReminders
		m.Reason = fmt.Sprintf("%d reminders of this agent wait and the limit is %d (limits.reminders); wait until one has come back", open, limit)
		return nil
	}
	m.Due = due
	return nil
}

// CancelReminder ends a reminder that has not come back yet. The agent reads of
// it in its next turn. Conflict when the command is no reminder that waits.
func (e *Engine) CancelReminder(ctx context.Context, id bridge.CommandID) (bridge.Command, error) {
	var m bridge.Command
	err := e.update(ctx, func(c *change) (err error) {
		if m, err = c.Command(id); err != nil {
			return err
		}
		if m.Parsed.Verb != parser.Remind || m.State != bridge.CommandGranted {
			return bridge.Errorf(bridge.Conflict, "command %s (%s) is %s and no reminder that waits; see `drawbridge reminders`", m.ID, m.Parsed.Verb, m.State)
		}
		a, err := c.Agent(m.Agent)
		if err != nil {
			return err
		}
		if err := c.FailCommand(&m, "a person cancelled it"); err != nil {
			return err
		}
		if err := c.Event(bridge.EventCancelled, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(m)}); err != nil {
			return err
		}
		if err := c.WakeLane(errandLane(m), c.now); err != nil { // its handler finds it over
			return err
		}
		return c.TellLater(a, m, fmt.Sprintf("%s (REMIND %s): a person cancelled the reminder", words.OfTurn(m.Parsed.Line), m.Parsed.When))
	})
	return m, notFound(err, "command", string(id))
}
