//go:build deep

package measure_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
)

// bound is the most that a kind of step may take.
type bound struct {
	// trips and statements are of all that is played. A round trip in which a connection prepares a statement, which it does once, does not count.
	trips, statements int
	// stay is the most round trips between two points at which the engine leaves the database: a claim, a load and what is
	// applied. transaction is the most round trips of one transaction.
	stay, transaction int
}

// bounds are round trips, statements, and round trips of the longest stay and of the longest transaction. No step takes more than 4
// round trips, so that no transaction does; a stay may have several steps, and a claim is one of them. A turn without commands takes
// at most 20. Beside that they are today's figures and a few more, for a notification that one commit sends or another. Lower one when
// a change makes it true, and raise none.
var bounds = map[string]bound{
	"turn":      {18, 95, 6, 4},
	"launch":    {10, 50, 6, 4},
	"follow-up": {18, 70, 10, 4},
	"action":    {12, 58, 6, 4},
	"mail":      {22, 80, 12, 4},
	"join":      {26, 135, 13, 4},
	"doubt":     {16, 68, 6, 4},
	"resolve":   {85, 255, 6, 4},
	"restore":   {38, 145, 13, 4},
}

// play is one kind of step: before brings the stage up to it, then what measured does is counted. Both get a word that is new each
// time, for names and prompts.
type play struct{ before, measured func(*stage, string) }

var plays = map[string]play{
	// A whole turn without commands, from the operator's launch to the agent's rest.
	"turn": {func(*stage, string) {}, func(s *stage, word string) {
		s.launch(word, "look")
		s.rest()
	}},
	// A granted launch, from the claim of its work to the API's answer in the records.
	"launch": {func(s *stage, word string) {
		s.launch(word, "delegate "+word)
		s.until("granted", func() bool { return s.events[bridge.EventGranted] == 1 })
		s.forget()
	}, func(s *stage, _ string) {
		s.until("launched", func() bool { return s.events[bridge.EventLaunched] == 1 })
	}},
	// An operator's words to an agent at rest, until the API has them and the records say so.
	"follow-up": {rested("look"), func(s *stage, word string) {
		s.say(s.agent(word), "go on")
		s.until("sent", func() bool { return s.sent == 1 })
	}},
	// A granted action, from the claim of its work to its outcome in the records.
	"action": {func(s *stage, word string) {
		s.launch(word, "act")
		s.until("granted", func() bool { return s.events[bridge.EventGranted] == 1 })
		s.forget()
	}, func(s *stage, _ string) {
		s.until("executed", func() bool { return s.events[bridge.EventExecuted] == 1 })
	}},
	// A message from a parent to its subagent, until the turn that carries it was sent.
	"mail": {rested("delegate"), func(s *stage, word string) {
		s.do("message", func(ctx context.Context) error {
			_, err := s.office.Send(ctx, s.agent(word), mail.Draft{To: string(s.child), Text: "How far are you?"})
			return err
		})
		s.until("sent", func() bool { return s.sent == 1 })
	}},
	// The second of two results that come back as one turn: the end of its run, until that turn was sent.
	"join": {func(s *stage, word string) {
		s.launchAs(engine.Spec{Name: word, Repo: bossRepo, Prompt: "split " + word, Join: bridge.JoinAll, JoinWithin: time.Hour})
		s.until("one result", func() bool { return s.events[bridge.EventReply] == 2 })
		s.forget()
	}, func(s *stage, _ string) {
		s.until("sent", func() bool { return s.sent == 1 })
	}},
	// A launch whose answer is lost, until a look-up has found it.
	"doubt": {func(s *stage, word string) {
		s.lose = func(string) bool { return s.found == 0 }
		s.launch(word, "look")
	}, func(s *stage, _ string) {
		s.until("found", func() bool { return s.found > 0 && s.events[bridge.EventLaunched] == 1 })
		s.lose = nil
	}},
	// A launch whose answer is lost and which no look-up shows, until it counts as uncertain and the operator has settled it.
	"resolve": {func(s *stage, word string) {
		s.lose, s.cloud.Hidden = func(string) bool { return true }, func(string) bool { return true }
		s.launchAs(engine.Spec{Name: word, Repo: bossRepo, Prompt: "look " + word, API: bridge.APIv0})
	}, func(s *stage, word string) {
		s.until("uncertain", func() bool { return s.events[bridge.EventUncertain] == 1 })
		s.lose, s.cloud.Hidden = nil, nil
		s.do("the operator settles it", func(ctx context.Context) error {
			_, err := s.engine.ResolveTurn(ctx, s.latest[bridge.EventUncertain].Turn, engine.Word{External: s.cloud.External("look " + word)})
			return err
		})
	}},
}

// rested brings an agent, and whom it launched, to rest.
func rested(prompt string) func(*stage, string) {
	return func(s *stage, word string) {
		s.launch(word, prompt+" "+word)
		s.rest()
		s.forget()
	}
}

// agent returns an orchestrator's id. The statements of the look-up do not count.
func (s *stage) agent(name string) bridge.AgentID {
	s.t.Helper()
	a, err := s.engine.FindAgent(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.proxy.Reset()
	return a.ID
}

// TestStepsOnTheWire plays each kind of step once against PostgreSQL and counts its round trips and statements on the wire. -v prints
// every stay.
func TestStepsOnTheWire(t *testing.T) {
	t.Parallel()
	for kind, p := range plays {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			for _, word := range []string{"first", "second"} { // statements are prepared at their first use
				p.before(s, word)
				p.measured(s, word)
				s.rest()
				s.record(false)
			}
			p.before(s, "third")
			s.record(true)
			p.measured(s, "third")
			s.judge(kind)
		})
	}
	t.Run("restore", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		restored(s)
		s.judge("restore")
	})
}

// restored plays words to two agents, puts the database of before back and counts what further words to the second one take: the
// engine takes over the run that the database has forgotten.
func restored(s *stage) {
	for _, word := range []string{"first", "second"} {
		s.launch(word, "look "+word)
	}
	s.rest()
	older := s.copy()
	for _, word := range []string{"first", "second"} {
		s.say(s.agent(word), "go on, "+word)
	}
	s.rest()
	s.restore(older)
	s.say(s.agent("first"), "and now?")
	s.rest()
	s.record(true)
	s.say(s.agent("second"), "and now?")
	s.until("sent", func() bool { return s.sent == 1 })
}

// judge prints what was recorded and compares it with the bounds.
func (s *stage) judge(kind string) {
	s.t.Helper()
	s.recording = false
	var got bound
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "stay\ttrips\tprepares\tstatements\ttransactions\tnotifies\tlargest transaction")
	for _, x := range s.stays {
		trips := x.wire.RoundTrips - x.wire.Prepares
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", x.what, trips, x.wire.Prepares, x.wire.Statements, x.wire.Transactions, x.wire.Notifies, x.wire.Largest.Trips())
		got.trips += trips
		got.statements += x.wire.Statements
		got.stay = max(got.stay, trips)
		got.transaction = max(got.transaction, x.wire.Largest.Trips())
	}
	_ = w.Flush()
	s.t.Logf("%s: %d round trips, %d statements; at most %d round trips a stay and %d a transaction\n%s", kind, got.trips, got.statements, got.stay, got.transaction, text.String())
	most := bounds[kind]
	if got.trips == 0 || got.trips > most.trips || got.statements > most.statements || got.stay > most.stay || got.transaction > most.transaction {
		s.t.Errorf("%s took %+v; at most %+v", kind, got, most)
	}
}
