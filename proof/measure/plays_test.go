//go:build deep

package measure_test

import (
	"context"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
)

// play is one kind of step: before brings the stage up to it, then measured loses a commit. Both get a word that is new each time, for
// names and prompts.
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
}

// rested brings an agent, and whom it launched, to rest.
func rested(prompt string) func(*stage, string) {
	return func(s *stage, word string) {
		s.launch(word, prompt+" "+word)
		s.rest()
		s.forget()
	}
}

// agent returns an orchestrator's id.
func (s *stage) agent(name string) bridge.AgentID {
	s.t.Helper()
	a, err := s.engine.FindAgent(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.ID
}
