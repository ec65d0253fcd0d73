package sim

import (
	"fmt"
	"time"

	"drawbridge/bridge"
)

// relayDefinition is the one definition that an operator approves for a relay.
const relayDefinition = "5f3a"

// relay is the user's side: it runs actions, each request once, and keeps a journal.
type relay struct {
	w       *world
	journal map[string]bridge.ActionOutcome
	// asks holds the requests that have been looked at, and whether the relay wants the operator's word for them.
	asks      map[string]bool
	ran       int
	downUntil time.Time
}

func newRelay(w *world) *relay {
	return &relay{w: w, journal: map[string]bridge.ActionOutcome{}, asks: map[string]bool{}}
}

// run takes a request that left after a commit.
func (r *relay) run(q bridge.ActionRequest, left int) (bridge.ActionOutcome, error) {
	w := r.w
	if !q.Grant.Valid() {
		w.fail("an action without a grant")
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Denied, "no grant")
	}
	if w.now.Before(r.downUntil) {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Unavailable, "the relay cannot be reached")
	}
	if out, known := r.journal[q.Request]; known {
		w.happened("relay: the recorded answer again")
		return out, nil
	}
	if _, known := r.asks[q.Request]; !known {
		r.asks[q.Request] = w.strikes(faultRelayAsks, 0.2)
	}
	if r.asks[q.Request] && q.Approved == nil {
		return bridge.ActionOutcome{Status: bridge.ActionRefused, Error: "the operator has to approve it", Wants: relayDefinition}, nil
	}
	out := bridge.ActionOutcome{Status: bridge.ActionExecuted, Duration: w.span(0, 5*time.Second)}
	if w.strikes(faultRelayRefuses, 0.3) {
		out.Status = []bridge.ActionStatus{bridge.ActionRefused, bridge.ActionFailed, bridge.ActionTimedOut}[w.rng.IntN(3)]
		out.Error = "as the dice fell"
	}
	if out.Status != bridge.ActionRefused {
		r.ran++
		out.Stdout = fmt.Sprintf("<x%d>", r.ran)
		w.oracle.acted(q, left)
	}
	w.happened("action " + string(out.Status))
	r.journal[q.Request] = out
	return out, nil
}

// look says what the journal knows of a request. A request that it does not know may still be on its way.
func (r *relay) look(q bridge.ActionLookup) (bridge.ActionFinding, error) {
	if r.w.now.Before(r.downUntil) {
		return bridge.ActionFinding{}, bridge.Errorf(bridge.Unavailable, "the relay cannot be reached")
	}
	out, known := r.journal[q.Request]
	if !known {
		return bridge.ActionFinding{Relay: "laptop", Known: bridge.JournalNothing}, nil
	}
	r.w.happened("relay: the journal was asked and knew")
	return bridge.ActionFinding{Relay: "laptop", Known: bridge.JournalOver, Outcome: out}, nil
}
