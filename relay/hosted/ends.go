package hosted

import (
	"context"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// wait is for the end of one turn in this process. end and err are set before done is closed.
type wait struct {
	done chan struct{}
	end  wire.TurnEnded
	err  error
	// kept is true once the end is among those that are kept; Runtime.mu guards it.
	kept bool
}

// over returns the end, nil while there is none.
func (w *wait) over() *wire.TurnEnded {
	select {
	case <-w.done:
		if w.err == nil && w.end.Refusal == "" {
			return &w.end
		}
	default:
	}
	return nil
}

// maxWaits bounds the turns that one process waits for. maxEnds bounds the ends that it keeps until they are read, the last ones: another
// replica may read the others, and the relay has them all.
const maxWaits, maxEnds = 4096, 64

// waitFor has a turn said by the relay, and waits for its end beside the caller. A turn that is waited for already is not asked for
// again.
func (r *Runtime) waitFor(c hub.TurnCall) (*wait, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.waits[c.ID]; w != nil {
		return w, nil
	}
	switch {
	case r.ctx == nil || r.ctx.Err() != nil:
		return nil, bridge.Errorf(bridge.Unavailable, "the bridge is starting or stopping, so it did not send the turn")
	case len(r.waits) >= maxWaits+maxEnds:
		return nil, bridge.Errorf(bridge.Busy, "the bridge already waits for %d turns of relay %q", maxWaits, r.o.Relay)
	}
	ctx, w := r.ctx, &wait{done: make(chan struct{})}
	r.waits[c.ID] = w
	r.all.Go(func() {
		defer close(w.done)
		w.end, w.err = r.o.Turns.RunTurn(ctx, c)
		if w.err == nil && final(w.end) {
			r.keepRefusal(c.ID, w.end)
		}
		if w.err != nil || w.end.Refusal != "" {
			r.drop(c.ID, w) // only an end of the agent's is kept until it is read
			return
		}
		r.keepEnd(c.ID, w)
	})
	return w, nil
}

// keepEnd keeps the end of a turn until it is read or maxEnds later ones are kept.
func (r *Runtime) keepEnd(id string, w *wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.kept = true
	if r.ends = append(r.ends, id); len(r.ends) <= maxEnds {
		return
	}
	if w := r.waits[r.ends[0]]; w != nil && w.kept {
		delete(r.waits, r.ends[0])
	}
	r.ends = r.ends[1:]
}

// final reports whether an end is a refusal that would come again.
func final(end wire.TurnEnded) bool {
	return end.Refusal != "" && end.RetryMS == 0 && end.Until == 0 && end.Refusal != wire.RefusedBusy && end.Refusal != wire.RefusedRate && end.Refusal != wire.RefusedStopped
}

// keepRefusal keeps why a turn was refused until it is read. Beyond the bound it forgets another one.
func (r *Runtime) keepRefusal(id string, end wire.TurnEnded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.refusals {
		if len(r.refusals) < maxWaits {
			break
		}
		delete(r.refusals, other)
	}
	if r.refusals == nil {
		r.refusals = map[string]wire.TurnEnded{}
	}
	r.refusals[id] = end
}

// refusalOf returns the refusal that was kept.
func (r *Runtime) refusalOf(id string) (end wire.TurnEnded, kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end, kept = r.refusals[id]
	return end, kept
}

func (r *Runtime) forgetRefusal(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refusals, id)
}

func (r *Runtime) waiting(id string) *wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits[id]
}

// onItsWay reports whether this process still has the turn said, so that the relay may get it after a look-up that does not show it.
func (r *Runtime) onItsWay(id string) bool {
	w := r.waiting(id)
	if w == nil {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// drop forgets a wait that is over.
func (r *Runtime) drop(id string, w *wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits[id] == w {
		delete(r.waits, id)
	}
}

// Observe implements bridge.Observer. The relay's record has the end as long as the session lives, so that it is not kept here once it
// was read.
func (r *Runtime) Observe(ctx context.Context, ref bridge.RunRef) (bridge.Observation, error) {
	w := r.waiting(ref.Run)
	if w != nil && ctx.Err() == nil {
		if end := w.over(); end != nil {
			r.drop(ref.Run, w)
			return r.observed(*end), nil
		}
	}
	found, err := r.lookUp(ctx, r.of(ref))
	if err != nil {
		return bridge.Observation{}, err
	}
	switch found.Known {
	case wire.TurnKnownOpen:
		return bridge.Observation{State: bridge.RunRunning, Doing: doing[found.State], DoingSince: r.o.Now().Add(-time.Duration(found.SinceMS) * time.Millisecond), Detail: found.Note}, nil
	case wire.TurnKnownEnded:
		return r.observed(*found.Ended), nil
	}
	return r.unrecorded(ref, w, found)
}

// unrecorded is what Observe says of a turn that is not in the relay's record.
func (r *Runtime) unrecorded(ref bridge.RunRef, w *wait, found wire.TurnFound) (bridge.Observation, error) {
	if w != nil {
		select {
		case <-w.done:
		default: // the relay's word on it is on its way
			return bridge.Observation{State: bridge.RunRunning}, nil
		}
	}
	if end, kept := r.refusalOf(ref.Run); kept { // it would come again, so that the turn has failed
		return bridge.Observation{State: bridge.RunError, Detail: r.observed(end).Detail}, nil
	}
	if found.Known == wire.TurnKnownAbsent {
		return bridge.Observation{State: bridge.RunError, Cause: bridge.CauseUnsaid, Detail: "the relay never got the turn"}, nil
	}
	return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "relay %q no longer has a record of this turn", r.o.Relay)
}

// doing says of each state of an open turn what the agent does.
var doing = map[wire.TurnState]bridge.Doing{
	wire.TurnQueued: bridge.DoingQueued, wire.TurnStarting: bridge.DoingStarting, wire.TurnWorking: bridge.DoingWorking, wire.TurnSilent: bridge.DoingSilent, wire.TurnAskingNow: bridge.DoingAsking,
}

// states says of each cause how the run ended.
var states = map[wire.TurnCause]bridge.RunState{
	wire.TurnAnswered: bridge.RunFinished, wire.TurnStopped: bridge.RunCancelled, wire.TurnUnsaid: bridge.RunCancelled, wire.TurnHung: bridge.RunExpired,
}

// observed is a turn's end in the words of every Runtime.
func (r *Runtime) observed(end wire.TurnEnded) bridge.Observation {
	o := bridge.Observation{State: bridge.RunError, Reply: end.Text, Cause: bridge.EndCause(end.Cause), Seen: seenLines(end.Evidence), Detail: end.Error, Spent: spent(end.Spent)}
	if state, known := states[end.Cause]; known {
		o.State = state
	}
	if end.Refusal != "" {
		o.Cause, o.Detail = bridge.CauseUnsaid, fmt.Sprintf("relay %q refused the turn (%s)%s", r.o.Relay, end.Refusal, because(end.Error))
	}
	if end.Unclear {
		o.Cause = bridge.CauseUnclear
	}
	if wait := r.wait(end); wait > 0 {
		o.NotBefore = r.o.Now().Add(wait)
	}
	return o
}

// spent is what a turn took, in the words of every Runtime.
func spent(s *wire.Spent) *bridge.Spent {
	if s == nil {
		return nil
	}
	if s = s.Known(); s == nil {
		return nil
	}
	out := &bridge.Spent{CostMicros: s.CostMicros, Model: s.Model}
	if t := s.Tokens; t != nil {
		out.Tokens = &bridge.Tokens{Input: t.Input, Output: t.Output, CacheWrite: t.CacheWrite, CacheRead: t.CacheRead}
	}
	return out
}

// Cancel implements bridge.Observer.
func (r *Runtime) Cancel(ctx context.Context, ref bridge.RunRef) error {
	call := r.of(ref)
	call.Ask.Over = ref.Over
	found, err := r.o.Turns.StopTurn(ctx, call)
	if err == nil && found.Known == wire.TurnKnownNot {
		return bridge.Errorf(bridge.NotFound, "relay %q has no record of this turn", r.o.Relay)
	}
	return err
}

// maxPoll bounds the pause between two looks of Follow.
const maxPoll = 3 * time.Second

// Follow implements bridge.Follower. Where this process had the turn said it waits for the relay's word, otherwise it asks again and
// again: after a restart, or on another replica.
func (r *Runtime) Follow(ctx context.Context, ref bridge.RunRef) error {
	if w := r.waiting(ref.Run); w != nil {
		select {
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if w.over() != nil {
			return nil
		}
		r.drop(ref.Run, w) // the connection was lost, and the record tells the rest
	}
	for again := r.o.Poll; ; again = min(again*5/4, maxPoll) {
		found, err := r.lookUp(ctx, r.of(ref))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && found.Known != wire.TurnKnownOpen:
			return nil
		case err != nil && !bridge.Passing(err):
			return err
		}
		if err := pause.For(ctx, again); err != nil {
			return err
		}
	}
}
