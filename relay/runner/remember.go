package runner

import (
	"net/http"
	"time"

	"drawbridge/relay/wire"
)

// Process implements wire.Handler.
func (r *Relay) Process() string { return r.process }

// Epoch implements wire.Handler.
func (r *Relay) Epoch() int64 { return r.o.Journal.Epoch() }

// KeepEpoch implements wire.Handler.
func (r *Relay) KeepEpoch(epoch int64) error { return r.o.Journal.KeepEpoch(epoch) }

// Lookup implements wire.Handler. It says nothing of whether the action is listed, and the kill switch does not matter:
// nothing runs.
func (r *Relay) Lookup(request wire.Request) wire.Found {
	found := wire.Found{ID: request.ID, Known: wire.KnownNot}
	j, looks := r.o.Journal.(interface {
		Lookup(id, action, body string) (bool, *wire.Answer)
	})
	if !looks {
		return found
	}
	known, answer := j.Lookup(request.ID, request.Action, request.BodyHash)
	switch {
	case !known:
	case answer == nil:
		found.Known = wire.KnownOpen
	case answer.Status == wire.StatusInterrupted && r.o.Config.Actions[request.Action].Idempotent:
		found.Known = wire.KnownAgain
	default:
		out := replay(*answer)
		out.ID, out.Action = request.ID, request.Action
		found.Known, found.Outcome = wire.KnownOver, &out
	}
	return found
}

// lookedUp is the door's answer to POST /lookup: the recorded answer with the status of a run, 202 while the request has not ended yet, 404 when the
// journal does not know it, 409 when it may run again. Nothing runs.
func (r *Relay) lookedUp(id, action string) reply {
	found := r.Lookup(wire.Request{ID: id, Action: action, KeyID: doorKey})
	out := reply{id: id, looked: true, out: wire.Outcome{Answer: wire.Answer{Action: action, ExitCode: wire.NoExitCode, Status: wire.StatusInterrupted}}}
	switch found.Known {
	case wire.KnownOver:
		out.status, out.out = statusOf(*found.Outcome), *found.Outcome
	case wire.KnownOpen:
		out.status, out.out.Error = http.StatusAccepted, "the request has not ended yet"
	case wire.KnownAgain:
		out.status, out.out.Error = http.StatusConflict, "the result of the request is unknown; the action may be run again"
	default:
		out.status, out.out.Error = http.StatusNotFound, "this relay has no record of this request"
	}
	return out
}

// Asking implements wire.Asker.
func (r *Relay) Asking() (questions []wire.Asked, changed <-chan struct{}) {
	if r.o.Desk == nil {
		return nil, nil
	}
	open, changed := r.o.Desk.Open()
	now := r.o.Now()
	for _, p := range open[:min(len(open), wire.MaxQuestions)] {
		questions = append(questions, wire.Asked{ID: p.Request, AgeMS: span(now.Sub(p.Asked)), LeftMS: span(p.Until.Sub(now))})
	}
	return questions, changed
}

// span is d in milliseconds, as the wire takes it also after somebody set the clock.
func span(d time.Duration) int64 { return min(max(d, 0), wire.MaxQuestion).Milliseconds() }

// Outdated implements wire.Outdatable. The log says once when a change begins to wait.
func (r *Relay) Outdated() bool {
	now := r.live.Outdated()
	if before := r.outdated.Swap(now); now && !before {
		r.o.Log.Warn().Str("file", r.o.Config.File).Msg("relay.yaml has a change that waits for a restart; test it with drawbridge-relay check, then restart the relay")
	}
	return now
}

// Stopped implements wire.Stoppable.
func (r *Relay) Stopped() (on bool, changed <-chan struct{}) { return r.calls.refusing(errSwitched) }
