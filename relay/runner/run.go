package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// once runs a listed action unless the journal knows what the id came to. waiting ends with the caller's patience or
// the relay; running only with the relay, because half an action is worse than one whose caller has left.
func (r *Relay) once(waiting, running context.Context, id, name string) reply {
	action, listed := r.config.Actions[name]
	if !listed {
		return r.unlisted(id, name)
	}
	recorded, err := r.journal.Begin(waiting, id, name)
	if errors.Is(err, ErrUnrecorded) {
		r.log.Error().Err(err).Str("request", id).Msg("journal")
	}
	if err != nil {
		return journalRefusal(err)
	}
	if recorded != nil {
		return reply{status: http.StatusOK, answer: *recorded, replayed: true}
	}
	failpoint.Here("relay.run.before")
	out := r.admit(waiting, running, name, action)
	failpoint.Here("relay.run.after")
	if out.status != http.StatusOK {
		err = r.journal.Withdraw(id)
	} else {
		err = r.journal.Finish(id, out.answer)
	}
	if err != nil {
		r.log.Error().Err(err).Str("request", id).Msg("journal")
		return reply{status: http.StatusInternalServerError, answer: wire.Answer{
			Status: wire.StatusFailed, ExitCode: wire.NoExitCode, Error: "what came of the action could not be recorded",
		}}
	}
	return out
}

// unlisted refuses, unless the action ran under this id before it was taken off the list: a refusal would then promise
// that nothing ran.
func (r *Relay) unlisted(id, name string) reply {
	if j, remembers := r.journal.(interface {
		Recorded(id, action string) *wire.Answer
	}); remembers {
		if recorded := j.Recorded(id, name); recorded != nil {
			return reply{status: http.StatusOK, answer: *recorded, replayed: true}
		}
	}
	return refuse(http.StatusForbidden, fmt.Sprintf("action %+.80q is not on this relay's list", name))
}

func journalRefusal(err error) reply {
	switch {
	case errors.Is(err, ErrOtherAction):
		return refuse(http.StatusConflict, err.Error())
	case errors.Is(err, ErrJournalFull):
		return later(http.StatusServiceUnavailable, err.Error(), time.Hour)
	case errors.Is(err, ErrUnrecorded):
		return later(http.StatusServiceUnavailable, ErrUnrecorded.Error(), time.Minute)
	default:
		return gaveUp(err)
	}
}

// gaveUp is the reply to a request that ended before its action began.
func gaveUp(cause error) reply {
	if errors.Is(cause, errStopping) {
		return later(http.StatusServiceUnavailable, errStopping.Error(), 5*time.Second)
	}
	return later(http.StatusServiceUnavailable, "the caller left before the action began", time.Second)
}

func later(status int, reason string, retry time.Duration) reply {
	out := refuse(status, reason)
	out.retry = retry
	return out
}

// admit waits for a slot and runs the action; any status but 200 says that nothing ran.
func (r *Relay) admit(waiting, running context.Context, name string, action settings.Action) reply {
	if err := r.slots.take(waiting, name); errors.Is(err, errQueueFull) {
		return later(http.StatusServiceUnavailable, err.Error(), time.Second)
	} else if err != nil {
		return gaveUp(err)
	}
	defer r.slots.give(name)
	if wait := r.pace.start(); wait > 0 {
		reason := fmt.Sprintf("this relay starts at most %d actions a minute", r.config.Limits.PerMinute)
		return later(http.StatusTooManyRequests, reason, wait)
	}
	return reply{status: http.StatusOK, answer: r.run(running, name, action)}
}

func (r *Relay) run(ctx context.Context, name string, action settings.Action) wire.Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, action.Timeout, errTimedOut)
	defer cancel()
	secret := action.Redactor(r.secret)
	out, errs := output.NewTail(action.Output, secret), output.NewTail(action.Output, secret)
	began := r.now()
	end, err := execute(ctx, action, out, errs)
	answer := wire.Answer{Action: name, ExitCode: wire.NoExitCode, DurationMS: r.now().Sub(began).Milliseconds()}
	answer.Stdout, answer.StdoutOmitted = out.Text()
	answer.Stderr, answer.StderrOmitted = errs.Text()
	switch {
	case err != nil:
		answer.Status, answer.Error = wire.StatusFailed, err.Error()
	case end.cut && errors.Is(context.Cause(ctx), errTimedOut):
		answer.Status, answer.Error = wire.StatusTimedOut, fmt.Sprintf("ended after its timeout of %s", action.Timeout)
	case end.cut:
		answer.Status, answer.Error = wire.StatusFailed, "ended because the relay is stopping"
	case end.signal != 0:
		answer.Status, answer.Error = wire.StatusFailed, fmt.Sprintf("ended by a signal: %s", end.signal)
	default:
		answer.Status, answer.ExitCode = wire.StatusExecuted, end.code
	}
	return answer
}
