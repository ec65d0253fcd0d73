package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// actionWork asks the relay to run an action. The request id is the operation
// key: asking again after a crash, a lost answer or from a restored database
// meets the relay's record of the first time.
func (e *Engine) actionWork(ctx context.Context, w bridge.Work) error {
	var r errand
	ready := false
	err := e.onErrand(ctx, w, func(c *change) (err error) {
		if r, err = loadErrand(c.Scene, w); err != nil {
			return err
		}
		ready, err = beginAction(c, &r)
		return err
	})
	if err != nil || !ready {
		return err
	}
	if !e.holds(ctx) {
		return bridge.ErrLeaseLost
	}
	out, err := e.o.Actions.RunAction(ctx, bridge.ActionRequest{Grant: r.grant, Request: r.command.OpKey, Agent: r.agent.Name,
		Line: lineOf(r.command), Approved: r.command.RelayApproval()})
	switch {
	case err == nil:
		return e.onErrand(ctx, w, func(c *change) error { return acted(c, r, out) })
	case ctx.Err() != nil:
		return e.onErrand(ctx, w, func(c *change) error { return c.PutBack(w, c.now) })
	}
	return e.trouble(ctx, r, err)
}

// begin commits that the request is about to leave. It reports whether it is to be sent.
func beginAction(c *change, r *errand) (bool, error) {
	r.doubt = r.command.State == bridge.CommandSending
	switch r.command.State {
	case bridge.CommandSending:
		// Asked before; the gate was passed then, and the relay knows the id.
	case bridge.CommandGranted:
		r.command.Code, r.command.Reason = "", "" // it waits for its relay no more
		if err := c.setCommand(&r.command, bridge.CommandSending); err != nil {
			return false, err
		}
	default:
		return false, c.FinishWork(r.work)
	}
	switch tree, err := c.Tree(r.agent.Root); {
	case err != nil:
		return false, err
	case tree.Stopped(): // the call was on its way when the operator stopped it
		return false, failed(c, *r, bridge.Errorf(bridge.Conflict, "%s", words.Stopped(tree)))
	}
	v := c.policy().Grant(r.names, r.command.Parsed, r.command.Approved)
	if r.doubt && (!v.Grant.Valid() || v.Relay != r.command.Relay) {
		return false, failed(c, *r, &bridge.Error{Kind: bridge.Conflict, Unclear: true,
			Message: "the allowlist changed while the bridge waited for the relay's answer, so the bridge did not ask the relay again"})
	}
	if !v.Grant.Valid() {
		v.Reason = words.RefusedNow(v)
		r.command.Code, r.command.Reason = string(v.Code), v.Reason
		return false, finishErrand(c, *r, bridge.CommandRefused, bridge.Notice{Cause: bridge.CauseActionOutcome, Text: words.Errand(r.command) + "refused: " + words.Own(strings.TrimPrefix(v.Reason, "refused: "))})
	}
	r.grant, r.wait = v.Grant, v.Wait
	return true, nil
}

// trouble decides by the kind of the error whether to ask again. An action that surely was not sent waits as long as its rule
// says; one that may have been sent is asked about for a while, and then becomes uncertain.
func (e *Engine) trouble(ctx context.Context, r errand, cause error) error {
	tries := r.work.Tries + 1 // and not the claims: a crash is no relay's refusal
	wait := max(e.backoff(tries, actionWait, maxActionWait), bridge.RetryAfter(cause))
	e.o.Log.Warn().Err(cause).Str("command", string(r.command.ID)).Int("try", tries).Msg("action waits")
	kind, doubt := bridge.KindOf(cause), r.doubt || bridge.IsUnclear(cause)
	return e.onErrand(ctx, r.work, func(c *change) error {
		away := kind == bridge.Unavailable && !doubt
		switch {
		case !away:
			r.work.AwaySince = time.Time{}
		case r.work.AwaySince.IsZero():
			r.work.AwaySince = c.now
		}
		waits := c.now.Sub(r.work.AwaySince).Abs() // a clock that was put back makes no wait longer
		switch {
		case kind == bridge.RateLimited, kind == bridge.Busy, kind == bridge.Unavailable && doubt && waited(patient(tries, r.work)) < e.o.ActionPatience:
			return askLater(c, r, cause, wait)
		case away && waits < r.wait:
			return askLater(c, r, cause, min(wait, max(r.wait-waits, time.Second)))
		case away:
			cause = bridge.Errorf(bridge.Unavailable, "%s was not connected for %s, so the action did not run", relayOf(r.command), words.Span(r.wait))
		}
		return failed(c, r, cause)
	})
}

// relayOf names the relay that a command is for.
func relayOf(m bridge.Command) string {
	if m.Relay == "" {
		return "its relay"
	}
	return "relay " + m.Relay
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
func askLater(c *change, r errand, cause error, wait time.Duration) error {
	switch {
	case r.doubt:
	case bridge.IsUnclear(cause):
		r.work.Tries = 0 // the tries before it was sent are not those of asking what came of it
	default:
		r.command.Code, r.command.Reason = bridge.CodeRelayAway, r.command.Waits()
		if bridge.KindOf(cause) != bridge.Unavailable {
			r.command.Reason += ": " + words.OneLine(bridge.SafeMessage(cause), 300)
		}
		if err := c.setCommand(&r.command, bridge.CommandGranted); err != nil {
			return err
		}
	}
	return c.PutOff(r.work, c.now.Add(wait))
}

// failed ends an action that could not be run, or of which nobody knows whether it ran.
func failed(c *change, r errand, cause error) error {
	r.command.Reason = bridge.SafeMessage(cause)
	if bridge.KindOf(cause) == bridge.NotFound {
		r.command.Code = codeNoRelay
	}
	next, kind, word := bridge.CommandFailed, bridge.EventFailed, bridge.Words("failed: ")
	if r.doubt || bridge.IsUnclear(cause) { // an earlier request may have run it, whatever the last one met
		next, kind, word = bridge.CommandUncertain, bridge.EventUncertain, "uncertain, it may have run: "
	}
	if err := c.event(kind, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: string(word) + r.command.Reason, Fields: words.Fields(r.command)}); err != nil {
		return err
	}
	text := words.Errand(r.command) + word + words.Own(r.command.Reason)
	if next == bridge.CommandUncertain {
		text += ". The bridge will look into the relay's journal and tell you the outcome. Do not ask for the action again"
	}
	if err := finishErrand(c, r, next, bridge.Notice{Cause: bridge.CauseActionOutcome, Text: text}); err != nil || next != bridge.CommandUncertain {
		return err
	}
	return enqueueLookup(c, r.command, c.now)
}

// acted records the relay's answer.
func acted(c *change, r errand, out bridge.ActionOutcome) error {
	if held, err := holdForRelay(c, r, out); held || err != nil {
		return err
	}
	r.command.Outcome = outcomeOf(out)
	n := bridge.Notice{Cause: bridge.CauseActionOutcome, Text: words.Errand(r.command) + words.Action(out), Untrusted: words.Outputs(out), Source: bridge.OriginOutside, Author: r.command.Relay}
	if out.Status == bridge.ActionRefused {
		r.command.Reason = "the relay refused it: " + words.SafeLine(out.Error, 300)
		if err := c.event(bridge.EventRefused, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: r.command.Reason, Fields: words.Fields(r.command)}); err != nil {
			return err
		}
		return finishErrand(c, r, bridge.CommandRefused, n)
	}
	fields := words.Fields(r.command)
	fields["status"], fields["exit_code"] = string(out.Status), strconv.Itoa(out.ExitCode)
	fields["duration_ms"], fields["output"] = strconv.FormatInt(out.Duration.Milliseconds(), 10), words.Clip(out.Stdout, 1000)
	if err := c.event(bridge.EventExecuted, r.agent, bridge.Event{Turn: r.command.Turn, Command: r.command.ID, Text: r.command.Canonical + " " + words.Acted(out), Fields: fields}); err != nil {
		return err
	}
	return finishErrand(c, r, bridge.CommandFinished, n)
}

func outcomeOf(out bridge.ActionOutcome) *bridge.CommandOutcome {
	return &bridge.CommandOutcome{Status: string(out.Status), ExitCode: out.ExitCode, Stdout: out.Stdout, Stderr: out.Stderr,
		Omitted: out.Omitted, DurationMS: out.Duration.Milliseconds(), HTTPStatus: out.HTTPStatus, Error: out.Error}
}

// codeNoRelay is the seed's word for an action that no relay is configured for.
const codeNoRelay = "missing_local_action_runner"

// holdForRelay holds a command because the relay wants the operator's word on one definition. The relay has said that nothing
// ran. A word that was given for this very definition and did not help is not asked for again.
func holdForRelay(c *change, r errand, out bridge.ActionOutcome) (held bool, err error) {
	m := &r.command
	if out.Wants == "" || (m.Approved && m.DefinitionToApprove() == out.Wants) {
		return false, nil
	}
	m.Code, m.ApprovalKey, m.Approved, m.Reason = bridge.CodeRelayApproval, bridge.DefinitionKey(out.Wants), false, words.RelayAsks(out)
	joins, err := waitsAlready(c, *m)
	if err != nil {
		return false, err
	}
	if err := c.setCommand(m, bridge.CommandHeld); err != nil {
		return false, err
	}
	if err := c.FinishWork(r.work); err != nil {
		return false, err
	}
	if err := c.event(bridge.EventHeld, r.agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: words.Fields(*m)}); err != nil {
		return false, err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return false, err
	}
	text := words.Errand(r.command) + words.Say("held as %s: a person has to approve it", m.ID)
	return true, c.tell(bridge.Notice{Agent: r.agent.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Quiet: joins, Text: text, Item: c.item(r.agent, "held", m.OpKey), Asked: turn.ID})
}

// waitsAlready reports whether the agent has heard that the same action waits for the same word.
func waitsAlready(c *change, m bridge.Command) (bool, error) {
	held, err := c.Commands(bridge.CommandFilter{Agent: m.Agent, State: bridge.CommandHeld, Verb: m.Parsed.Verb, Limit: 100})
	return slices.ContainsFunc(held, func(other bridge.Command) bool {
		return other.Canonical == m.Canonical && other.Code == m.Code && other.ApprovalKey == m.ApprovalKey
	}), err
}

// errand is an action or reminder command with what its handler needs.
type errand struct {
	work    bridge.Work
	command bridge.Command
	agent   bridge.Agent
	names   []string
	grant   policy.Grant
	// wait is how long an action waits for a relay that is away.
	wait time.Duration
	// doubt says that an earlier request may have reached the relay.
	doubt bool
}

func loadErrand(tx *bridge.Scene, w bridge.Work) (r errand, err error) {
	r.work = w
	if r.command, err = tx.Command(bridge.CommandID(w.Ref)); err != nil {
		return r, fmt.Errorf("load command %q: %w", w.Ref, err)
	}
	if r.agent, err = tx.Agent(r.command.Agent); err != nil {
		return r, fmt.Errorf("load agent %q: %w", r.command.Agent, err)
	}
	r.names, err = tx.Lineage(r.agent)
	return r, err
}

// errandLane is where an action or a reminder waits for its turn.
func errandLane(m bridge.Command) string {
	if m.Parsed.Verb == parser.Remind {
		return "remind/" + string(m.ID)
	}
	return bridge.ActionLane(m.Relay, m.Canonical)
}

// finish ends a command, removes its work and tells the agent. An agent hears of
// one end of a command, and besides of a doubt that came before it.
func finishErrand(c *change, r errand, next bridge.CommandState, n bridge.Notice) error {
	fresh, err := c.Command(r.command.ID)
	if err != nil {
		return err
	}
	r.command.State = fresh.State
	if err := c.setCommand(&r.command, next); err != nil {
		return err
	}
	if err := c.FinishWork(r.work); err != nil {
		return err
	}
	turn, err := c.Turn(r.command.Turn)
	if err != nil {
		return err
	}
	what := "end"
	if next == bridge.CommandUncertain {
		what = "uncertain"
	}
	n.Agent, n.Depth, n.Commands, n.Asked = r.agent.ID, turn.Depth, []bridge.CommandID{r.command.ID}, turn.ID
	n.Item = c.item(r.agent, what, r.command.OpKey)
	return c.tell(n)
}
