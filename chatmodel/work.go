package chatmodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/bridge/words"
	"drawbridge/internal/tracing"
)

// maxFaults is how many calls of the model may fail in a row until the turn ends as an error. A limit is not a fault: the turn
// waits for as long as the endpoint says.
const maxFaults = 8

// The longest wait after a call of the model that failed, and the wait after a limit that does not say until when.
const (
	lastWait  = time.Minute
	limitWait = 30 * time.Second
)

// Runtimes are the chat models of a configuration, by name.
type Runtimes map[string]*Runtime

// goneWait is when work is looked at again whose runtime the configuration does not have.
const goneWait = time.Minute

// Work goes on with one turn of an agent, which the engine hands out; see engine.Options. Twice is fine: what was done is on
// record.
func (all Runtimes) Work(ctx context.Context, steps bridge.Steps, w bridge.Work) error {
	var now *run
	err := steps.View(ctx, func(tx *bridge.Scene) (err error) {
		now, err = loadWhole(tx, bridge.TurnID(w.Ref))
		return err
	})
	if err != nil {
		return err
	}
	if now == nil || now.end != nil {
		return steps.Change(ctx, func(tx bridge.Change) error { return tx.FinishWork(w) })
	}
	r := all[now.Runtime]
	if r == nil {
		return steps.Change(ctx, func(tx bridge.Change) error { return tx.PutBack(w, tx.Now().Add(goneWait)) })
	}
	return r.work(ctx, w, now)
}

// errEnded stops the work on a run that has ended meanwhile, errStopping that of a bridge that stops: the next one goes on.
var (
	errEnded    = errors.New("the run has ended")
	errStopping = errors.New("the bridge stops")
)

// work plays a run from where its record ends until it is over, or has to wait.
func (r *Runtime) work(ctx context.Context, w bridge.Work, now *run) error {
	mine, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.mu.Lock()
	r.stops[now.Turn] = cancel
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.stops, now.Turn)
	}()
	l := &loop{Runtime: r, run: now}
	wait, err := l.play(mine)
	switch {
	case errors.Is(context.Cause(mine), errEnded), errors.Is(err, errEnded):
		return r.o.Steps.Change(context.WithoutCancel(ctx), func(tx bridge.Change) error { return tx.FinishWork(w) })
	case errors.Is(err, errStopping):
		wait = 0
	case err != nil:
		return err
	}
	return r.o.Steps.Change(context.WithoutCancel(ctx), func(tx bridge.Change) error {
		if wait > 0 { // so that the engine says what the agent waits for
			if err := tx.WakeLane(bridge.AgentLane(now.Agent), tx.Now()); err != nil {
				return err
			}
		}
		if wait >= 0 {
			return tx.PutBack(w, tx.Now().Add(wait))
		}
		if err := l.finished(tx); err != nil {
			return err
		}
		return tx.FinishWork(w)
	})
}

// loop is a run at work.
type loop struct {
	*Runtime
	*run
	offers []bridge.ToolOffer
	// bare says that the agent's toolsets lack do_nothing.
	bare   bool
	result ended
}

// play makes steps until the run is over; then wait is negative and the result is set. Otherwise the work waits for so long.
func (l *loop) play(ctx context.Context) (wait time.Duration, err error) {
	if l.opening == nil {
		if err := l.opens(ctx, l.run); err != nil {
			return 0, err
		}
	}
	if _, l.offers, err = l.o.Tools.Offered(ctx, l.Agent); err != nil {
		return 0, err
	}
	if l.bare = !slices.ContainsFunc(l.offers, func(t bridge.ToolOffer) bool { return t.Name == DoNothing }); l.bare {
		l.offers = append(l.offers, doNothing)
	}
	for {
		over, err := l.tools(ctx)
		if err != nil || over {
			return -1, err
		}
		wait, err := l.ask(ctx)
		if err != nil || wait != 0 {
			return wait, err
		}
	}
}

// tools makes the calls that the last answer asked for, and reports whether the run is over.
func (l *loop) tools(ctx context.Context) (over bool, err error) {
	if len(l.steps) > 0 {
		last := &l.steps[len(l.steps)-1]
		for i := range last.Calls {
			if last.returned[i] == "" && cutOff(last.answer) == "" {
				if err := l.call(ctx, last, i); err != nil {
					return false, err
				}
			}
		}
		if stop, detail := l.stops(last.answer); stop != "" {
			l.result = ended{State: bridge.RunFinished, Stop: stop, Detail: detail, Reply: l.text()}
			if stop == StopError {
				l.result.State = bridge.RunError
			}
			return true, nil
		}
	}
	switch {
	case len(l.steps) >= l.o.MaxSteps:
		l.result = ended{State: bridge.RunFinished, Stop: StopMaxSteps, Detail: "the bridge ended the turn after " + words.Count(len(l.steps), "call") + " of the model, which is the limit (steps of the runtime in bridge.yaml)", Reply: l.text()}
	case l.worked >= l.o.TurnTimeout:
		l.result = ended{State: bridge.RunError, Stop: StopError, Detail: fmt.Sprintf("the turn worked for longer than %s, its turn_timeout", l.o.TurnTimeout), Reply: l.text()}
	default:
		return false, nil
	}
	return true, nil
}

// stops says why an answer ends the run, "" when it does not.
func (l *loop) stops(a answer) (stop, detail string) {
	if detail := cutOff(a); detail != "" {
		return StopError, detail
	}
	if slices.ContainsFunc(a.Calls, func(c call) bool { return c.Name == DoNothing }) {
		return StopEndTurn, ""
	}
	if len(a.Calls) > 0 {
		return "", ""
	}
	if slices.ContainsFunc(l.steps, func(s step) bool { return len(s.Calls) > 0 }) {
		return StopEndTurn, ""
	}
	return StopNoToolCall, ""
}

// cutOff says why an answer is not whole, "" for one that is. The calls of a cut answer are not made: their arguments may lack their ends.
func cutOff(a answer) string {
	switch a.Finish {
	case "length":
		return "the model's answer was cut off at the endpoint's limit of tokens; raise max_tokens of the runtime or the limit at the endpoint"
	case "content_filter":
		return "the endpoint's content filter ended the answer"
	}
	return ""
}

// text is what the model wrote in the whole run.
func (l *loop) text() string {
	var all []string
	for _, s := range l.steps {
		if strings.TrimSpace(s.Text) != "" {
			all = append(all, strings.TrimSpace(s.Text))
		}
	}
	text := strings.Join(all, "\n\n")
	return strings.ToValidUTF8(text[:min(len(text), maxAnswer)], "")
}

// call makes one tool call through the door. The door records it before it runs, and what it returned.
func (l *loop) call(ctx context.Context, last *step, place int) error {
	c, at := last.Calls[place], len(l.steps)
	k := bridge.ToolCall{Turn: l.Turn, ID: toolID(at, place+1), Name: c.Name, Args: json.RawMessage(c.Args), Step: fmt.Sprint(at), Guard: l.goesOn}
	r, err := l.callTool(ctx, k)
	if err != nil {
		return err
	}
	last.returned[place] = r.Payload
	return nil
}

// callTool asks the door, but for do_nothing where the agent's toolsets lack it.
func (l *loop) callTool(ctx context.Context, k bridge.ToolCall) (bridge.ToolReturn, error) {
	if k.Name != DoNothing || !l.bare {
		return l.o.Tools.Call(ctx, l.Agent, k)
	}
	const nothing = `{"action":"none"}`
	return bridge.ToolReturn{Payload: nothing}, l.note(ctx,
		noted{bridge.RunMessage{Kind: bridge.ToolCallMessage, Name: DoNothing, CallID: k.ID}, json.RawMessage("{}")},
		noted{bridge.RunMessage{Kind: bridge.ToolReturnMessage, Name: DoNothing, CallID: k.ID}, json.RawMessage(nothing)})
}

// goesOn fails when the run has ended.
func (l *loop) goesOn(tx *bridge.Scene) error {
	now, err := loadRun(tx, l.Turn)
	if err == nil && (now == nil || now.end != nil) {
		err = errEnded
	}
	return err
}

// noted is a line for the record.
type noted struct {
	bridge.RunMessage
	payload any
}

// note writes lines of the record in one step, while the run goes on.
func (l *loop) note(ctx context.Context, all ...noted) error {
	return l.o.Steps.Change(bridge.Unheard(bridge.Forgettable(ctx)), func(tx bridge.Change) error {
		if err := l.goesOn(tx.Scene); err != nil {
			return err
		}
		for _, n := range all {
			n.Turn = l.Turn
			if err := appendOnce(tx, n.RunMessage, n.payload); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask asks the model once, and records that before it does. A wait other than 0 puts the run off; it is negative when the run is over.
func (l *loop) ask(ctx context.Context) (wait time.Duration, err error) {
	call, cancel := lanes.Repeatable(ctx)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-call.Done():
		return 0, l.whyEnded(ctx)
	}
	q := request{Model: l.o.Model, Messages: l.messages(), Tools: tools(l.offers), MaxTokens: l.o.MaxTokens}
	at := asking{Step: len(l.steps) + 1, Try: l.tries + 1, Model: l.o.Model, Messages: len(q.Messages), Bytes: size(q.Messages)}
	id, answeredID := modelCallIDs(at)
	if err := l.note(ctx, noted{bridge.RunMessage{Kind: bridge.ModelCallMessage, Name: l.o.Model, CallID: id}, at}); err != nil {
		return 0, err
	}
	l.tries++
	began := l.o.Now()
	timed, done := context.WithTimeout(call, l.o.TurnTimeout-l.worked)
	defer done()
	a, fault := l.endpoint.complete(timed, q)
	if fault != nil && call.Err() != nil { // the bridge stops, or the run was cancelled
		return 0, l.whyEnded(ctx)
	}
	out := answered{Step: at.Step, answer: a, TookMS: l.o.Now().Sub(began).Milliseconds()}
	if fault != nil {
		answeredID = fmt.Sprintf("step_%d_%d", at.Step, at.Try)
		out.answer, out.Fault = answer{}, &faulted{Kind: string(bridge.KindOf(fault)), Message: bridge.SafeMessage(fault), AtMS: l.o.Now().UnixMilli()}
		if bridge.KindOf(fault) == bridge.RateLimited {
			out.Fault.UntilMS = time.UnixMilli(out.Fault.AtMS).Add(spread(l.o.Rand, cmp.Or(bridge.RetryAfter(fault), limitWait))).UnixMilli()
		}
	}
	if err := l.note(ctx, noted{bridge.RunMessage{Kind: bridge.ModelReturnMessage, Name: l.o.Model, CallID: answeredID}, out}); err != nil {
		return 0, err
	}
	l.hear(out)
	l.traced(out, at, began)
	return l.afterFault(fault), nil
}

// modelCallIDs are the ids of a call of the model and of its answer. A step has one answer: a process that was
// taken for dead cannot add a second one.
func modelCallIDs(at asking) (call, answer string) {
	answer = fmt.Sprintf("step_%d", at.Step)
	if at.Try == 1 {
		return answer, answer
	}
	return fmt.Sprintf("step_%d_%d", at.Step, at.Try), answer
}

// whyEnded says why a call of the model was cut off.
func (l *loop) whyEnded(ctx context.Context) error {
	if ctx.Err() == nil {
		return errStopping
	}
	return context.Cause(ctx)
}

func size(all []message) (n int) {
	for _, m := range all {
		if m.Content != nil {
			n += len(*m.Content)
		}
		for _, c := range m.Calls {
			n += len(c.Function.Arguments) + len(c.Function.Name)
		}
	}
	return n
}

// afterFault says how long the run waits after a fault, 0 without one, and ends it where waiting does not help.
func (l *loop) afterFault(fault error) time.Duration {
	kind := bridge.KindOf(fault)
	switch {
	case fault == nil:
		return 0
	case kind == bridge.RateLimited:
		l.o.Log.Info().Str("runtime", l.o.Name).Str("turn", string(l.Turn)).Dur("wait", bridge.RetryAfter(fault)).Msg("the model's endpoint asks to wait")
		return time.Duration(l.limit.UntilMS-l.limit.AtMS)*time.Millisecond + time.Millisecond
	case kind == bridge.Unavailable && l.faults < maxFaults && l.worked < l.o.TurnTimeout:
		l.o.Log.Warn().Str("runtime", l.o.Name).Str("turn", string(l.Turn)).Int("faults", l.faults).Str("error", bridge.SafeMessage(fault)).Msg("the model did not answer; it is asked again")
		return max(lanes.Backoff(l.o.Rand, l.faults, l.firstWait, lastWait), bridge.RetryAfter(fault))
	}
	l.result = ended{State: bridge.RunError, Stop: StopError, Detail: bridge.SafeMessage(fault), Reply: l.text()}
	if kind == bridge.Invalid || kind == bridge.Unauthenticated {
		l.result.Stop = StopRefused
	}
	if l.worked >= l.o.TurnTimeout {
		l.result.Detail += fmt.Sprintf("; the turn has worked for %s, its turn_timeout", l.o.TurnTimeout)
	}
	return -1
}

// spread makes a wait up to a tenth longer, so that agents that wait for one endpoint do not come back together.
func spread(random func() float64, wait time.Duration) time.Duration {
	return wait + time.Duration(float64(wait)*random()/10)
}

// finished records the end of the run in the step that gives its work back.
func (l *loop) finished(tx bridge.Change) error {
	if err := l.goesOn(tx.Scene); err != nil {
		return nil //nolint:nilerr // it was cancelled: its end is on record
	}
	return finish(tx, l.run, l.result)
}

// traced tells of a call of the model.
func (l *loop) traced(out answered, at asking, began time.Time) {
	s := tracing.Step{Turn: string(l.Turn), Agent: string(l.Agent), Step: fmt.Sprint(at.Step), Model: cmp.Or(out.Model, l.o.Model), Begun: began, Ended: l.o.Now()}
	if out.Fault != nil {
		s.Step, s.Kind = fmt.Sprintf("%d.%d", at.Step, at.Try), out.Fault.Kind
	}
	if out.Metered {
		s.Spent = &tracing.Tokens{Input: out.Input - out.Cached, Output: out.Output, CacheRead: out.Cached}
	}
	l.o.Tracing.Step(s)
}
