package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/wire"
)

// either are the questions that a person at the machine and the operator at the bridge may answer, by request. The bridge is told
// at once that it may; the machine's answer waits here until the bridge asks again. Safe for concurrent use.
type either struct {
	// answered carries the requests of which the machine has said something. What does not fit is sent a moment later.
	answered chan string

	mu   sync.Mutex
	open map[string]*openQuestion
}

// openQuestion is one that is asked at the machine, or was answered there.
type openQuestion struct {
	definition string
	// taken is closed when the answer was fetched, or is wanted no more.
	taken chan struct{}
	// over is true when verdict and err are set.
	over    bool
	verdict approval.Verdict
	err     error
}

const (
	// maxAnswered bounds what waits to be told to the bridge.
	maxAnswered = 16
	// tellAfter is the first wait before the bridge is told once more; it doubles.
	tellAfter = time.Second
)

func newEither() *either {
	return &either{answered: make(chan string, maxAnswered), open: map[string]*openQuestion{}}
}

// Answered implements wire.Answerer.
func (r *Relay) Answered() <-chan string { return r.either.answered }

// take removes a question and returns what is known of it, or nil.
func (e *either) take(request string) *openQuestion {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.open[request]
	if q == nil {
		return nil
	}
	delete(e.open, request)
	close(q.taken)
	answer := *q
	return &answer
}

// drop removes a question that nobody fetched.
func (e *either) drop(request string, q *openQuestion) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[request] == q {
		delete(e.open, request)
	}
}

// withdraw ends the question of a request that needs it no more.
func (r *Relay) withdraw(request string) {
	if r.either.take(request) != nil && r.o.Desk != nil {
		r.o.Desk.Withdraw(request)
	}
}

// askBoth returns the machine's answer to q when there is one, else the zero verdict: then the question is open there, and the
// bridge has to be told that its operator may answer as well.
func (r *Relay) askBoth(a *attempt, q approval.Question) (approval.Verdict, error) {
	e := r.either
	e.mu.Lock()
	known := e.open[q.Request]
	waits := known != nil && known.definition == q.Definition && !known.over
	e.mu.Unlock()
	if waits {
		return approval.Verdict{}, nil
	}
	if answer := e.take(q.Request); answer != nil {
		if answer.definition == q.Definition {
			return answer.verdict, answer.err
		}
		r.o.Desk.Withdraw(q.Request) // what was shown is not what would run
	}
	if v, err := r.o.Desk.Known(q); err != nil || v.By != "" {
		return v, err
	}
	entered, err := r.calls.enter(context.WithoutCancel(a.waiting))
	if err != nil {
		return approval.Verdict{}, err
	}
	_ = r.note(r.event(audit.Asked, a))
	open := &openQuestion{definition: q.Definition, taken: make(chan struct{})}
	e.mu.Lock()
	e.open[q.Request] = open
	e.mu.Unlock()
	go func() {
		defer r.calls.leave(entered)
		verdict, err := r.o.Desk.Ask(entered.waiting, q)
		e.mu.Lock()
		open.over, open.verdict, open.err = true, verdict, err
		e.mu.Unlock()
		r.tellBridge(entered.waiting, q.Request, open)
	}()
	return approval.Verdict{}, nil
}

// tellBridge says until the bridge asks again that there is an answer: the connection may be away, and the bridge may not have
// written down yet that it waits. A yes that nobody fetches within the approval's wait is forgotten, as it is at the desk.
func (r *Relay) tellBridge(ctx context.Context, request string, open *openQuestion) {
	ctx, cancel := context.WithTimeout(ctx, max(r.o.Config.Limits.ApprovalWait, time.Minute))
	defer cancel()
	for wait := tellAfter; ; wait *= 2 {
		select {
		case <-open.taken:
			return
		default:
		}
		select {
		case r.either.answered <- request:
		default:
		}
		timer := time.NewTimer(wait)
		select {
		case <-open.taken:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			r.either.drop(request, open)
			return
		case <-timer.C:
		}
	}
}

// asksBoth reports whether both may answer: whoever calls the relay's own door has no operator whom we could wait for.
func (a *attempt) asksBoth() bool {
	return a.action.Approval.Machine() && a.action.Approval.Bridge() && a.request.KeyID != doorKey
}

// ask returns a person's verdict on q, or the outcome of a request that has none yet.
func (r *Relay) ask(a *attempt, q approval.Question) (verdict approval.Verdict, refused *wire.Outcome) {
	var err error
	if a.asksBoth() {
		verdict, err = r.askBoth(a, q)
	} else {
		_ = r.note(r.event(audit.Asked, a))
		verdict, err = r.o.Desk.Ask(a.waiting, q)
	}
	var out wire.Outcome
	var unasked *approval.UnaskedError
	switch {
	case errors.As(err, &unasked) && unasked.Denied:
		out = r.refuse(a.request, wire.RefusedDenied, err.Error())
	case errors.As(err, &unasked):
		out = r.later(a.request, wire.RefusedRate, err.Error(), unasked.Wait)
	case errors.Is(err, approval.ErrTooMany):
		out = r.later(a.request, wire.RefusedBusy, err.Error(), r.o.Config.Limits.ApprovalWait)
	case err != nil:
		out = r.gaveUp(a.request, err)
	case verdict.By == "":
		out = r.wantsWord(a, q, fmt.Sprintf("the operator at the bridge, or a person at that machine within %s, has to approve this action as it is defined now", r.o.Config.Limits.ApprovalWait))
	default:
		return verdict, nil
	}
	return approval.Verdict{}, &out
}

// wantsWord refuses a request until the operator at the bridge has approved what is shown.
func (r *Relay) wantsWord(a *attempt, q approval.Question, reason string) wire.Outcome {
	out := r.refuse(a.request, wire.RefusedApproval, reason)
	out.Definition, out.Shows = a.definition, r.shows(a.action, q, wire.MaxShows)
	return out
}

// approvedThere reports whether the operator at the bridge agrees to q: the request carries a word for the action as it is now, or
// one that was given before still lasts.
func (r *Relay) approvedThere(a *attempt, q approval.Question) bool {
	given := a.request.Approved
	switch {
	case !a.action.Approval.Bridge():
		return false
	case given == nil:
		if r.o.Desk == nil || !r.o.Desk.Stands(q) {
			return false
		}
		r.withdraw(a.request.ID)
		a.approvedBy = "earlier"
		return true
	case given.Definition != a.definition:
		r.alarm(a.request, "the approval is for another definition of the action")
		return false
	}
	r.withdraw(a.request.ID)
	a.approvedBy = "bridge: " + output.Line(given.By)
	if r.o.Desk != nil {
		if err := r.o.Desk.Stand(q); err != nil {
			// It counts for this request all the same; the next one asks again.
			r.o.Log.Error().Err(err).Str("request", a.request.ID).Msg("keep approval")
		}
	}
	return true
}
