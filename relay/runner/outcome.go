package runner

import (
	"errors"
	"path/filepath"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// maxNoted is how much of a stranger's word stands in logs, in bytes.
const maxNoted = 100

func refused(action string, why wire.Refusal, reason string) wire.Outcome {
	return wire.Outcome{Answer: wire.Refused(action, reason), Refusal: why}
}

// refuse is the outcome of a request of which nothing ran, and its audit line.
func (r *Relay) refuse(request wire.Request, why wire.Refusal, reason string) wire.Outcome {
	out := refused(request.Action, why, reason)
	e := audit.Event{
		Event: audit.Refused, Request: output.Line(clip.Text(request.ID, maxNoted)), Action: output.Line(clip.Text(request.Action, maxNoted)), Key: output.Line(request.KeyID),
		Status: string(why), Reason: output.Line(reason),
	}
	if err := r.note(e); err != nil {
		r.o.Log.Error().Err(err).Msg("audit")
	}
	return out
}

func (r *Relay) later(request wire.Request, why wire.Refusal, reason string, retry time.Duration) wire.Outcome {
	out := r.refuse(request, why, reason)
	out.RetryMS = retry.Milliseconds()
	return out
}

// gaveUp is the outcome of a request that ended before its action began.
func (r *Relay) gaveUp(request wire.Request, cause error) wire.Outcome {
	switch {
	case errors.Is(cause, errSwitched):
		return r.refuse(request, wire.RefusedStopped, errSwitched.Error())
	case errors.Is(cause, errStopping):
		return r.later(request, wire.RefusedBusy, errStopping.Error(), 5*time.Second)
	default:
		return r.later(request, wire.RefusedBusy, "the caller stopped waiting before the action began", time.Second)
	}
}

func (r *Relay) journalRefusal(request wire.Request, err error) wire.Outcome {
	switch {
	case errors.Is(err, ErrOtherAction), errors.Is(err, ErrOtherBody):
		r.alarm(request, err.Error())
		return r.refuse(request, wire.RefusedConflict, err.Error())
	case errors.Is(err, ErrJournalFull):
		return r.later(request, wire.RefusedBusy, err.Error(), time.Hour)
	case errors.Is(err, ErrUnrecorded):
		r.o.Log.Error().Err(err).Str("request", request.ID).Msg("journal")
		return r.later(request, wire.RefusedBusy, ErrUnrecorded.Error(), time.Minute)
	default:
		return r.gaveUp(request, err)
	}
}

// alarm says of a request what no honest bridge would send, or of a program what no honest machine would show.
func (r *Relay) alarm(request wire.Request, reason string) {
	r.o.Log.Error().Str("request", request.ID).Str("action", output.Line(clip.Text(request.Action, maxNoted))).Str("key", output.Line(request.KeyID)).
		Str("reason", reason).Msg("alarm")
	e := audit.Event{Event: audit.Alarm, Request: request.ID, Action: output.Line(clip.Text(request.Action, maxNoted)), Key: output.Line(request.KeyID), Reason: reason}
	if err := r.note(e); err != nil {
		r.o.Log.Error().Err(err).Msg("audit")
	}
}

// event is an audit line about an attempt.
func (r *Relay) event(kind string, a *attempt) audit.Event {
	files := map[string]string{}
	for _, f := range a.action.Files {
		files[output.Line(a.action.Redactor(r.secret).Hide(f.Path))] = f.SHA256
	}
	return audit.Event{
		Event: kind, Files: files, Request: a.request.ID, Action: a.request.Action, Body: a.request.BodyHash, Key: output.Line(a.request.KeyID), Agent: output.Line(a.request.Agent),
		Config: r.definition(a), Argv: a.action.ArgvHash(), Sandbox: r.confinement(a.action), By: a.approvedBy,
	}
}

// definition is the one that was looked at, or the one at the start where nothing depends on the difference.
func (r *Relay) definition(a *attempt) string {
	if a.definition != "" {
		return a.definition
	}
	for _, offer := range r.offers {
		if offer.Action == a.request.Action {
			return offer.Definition
		}
	}
	return ""
}

func (r *Relay) plan(action settings.Action) sandbox.Plan {
	return Plan(r.o.Config, action, r.o.Ability)
}

// Plan is how the sandbox of an action, which must have one, is made on a machine with an ability. The control socket is kept
// out of every sandbox.
func Plan(config settings.Config, action settings.Action, ability sandbox.Ability) sandbox.Plan {
	state := config.State
	if resolved, err := filepath.EvalSymlinks(state); err == nil {
		state = resolved
	}
	return ability.Plan(sandbox.Wish{
		Read: action.Sandbox.Read, Write: action.Sandbox.Write, Network: action.Sandbox.Network,
		Hide: []string{filepath.Join(state, control.SocketName)},
	})
}

// confinement is what keeps an action in bounds here, for people and the audit.
func (r *Relay) confinement(action settings.Action) string {
	if action.Sandbox == nil {
		return "none"
	}
	plan := r.plan(action)
	if missing := plan.Missing(); missing != "" {
		return plan.String() + " (" + missing + " on this machine)"
	}
	return plan.String()
}

// noteRan writes the audit line of an action that ran. When it cannot be written the answer still goes out: it is what
// happened.
func (r *Relay) noteRan(a *attempt) {
	if err := r.note(*a.ran); err != nil {
		r.o.Log.Error().Err(err).Str("request", a.request.ID).Msg("audit")
	}
}
