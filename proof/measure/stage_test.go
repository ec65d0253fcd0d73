//go:build deep

package measure_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
	"drawbridge/proof/pg"
	"drawbridge/proof/pgproxy"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// stage is one engine on PostgreSQL behind a proxy, which does one step when the test asks for it. Nothing runs in the background,
// and the clock moves only when nothing is due.
type stage struct {
	t        *testing.T
	database string
	proxy    *pgproxy.Proxy
	store    *store.Store
	engine   *engine.Engine
	office   *mail.Service
	cloud    *runtimes.Cloud
	relay    *runtimes.Relay
	now      time.Time

	// events counts the events since recording began, by kind.
	events map[string]int
	// child is the subagent that was launched last.
	child bridge.AgentID
	// sent counts follow-ups that reached the cloud.
	sent int
	// lose, when set, is asked whether the answer to a launch is lost, and found counts look-ups of launches.
	lose  func(prompt string) bool
	found int

	// losing says that a commit of the engine may be lost, recorded that the database has it all the same.
	losing, recorded bool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, database: pg.Database(t), now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), events: map[string]int{}}
	s.cloud, s.relay = &runtimes.Cloud{Answer: s.answer, Fail: s.fail}, &runtimes.Relay{}
	s.open()
	t.Cleanup(func() { _ = s.store.Close(); _ = s.proxy.Close() })
	return s
}

func (s *stage) open() {
	s.t.Helper()
	var err error
	if s.proxy, err = pgproxy.Start(s.database); err != nil {
		s.t.Fatal(err)
	}
	if s.store, err = store.Open(s.t.Context(), s.proxy.URL()); err != nil {
		s.t.Fatal(err)
	}
	o := options(s.t)
	o.Store, o.Runtime, o.Actions, o.OnEvent = s.store, s.cloud, s.relay, s.heard
	o.Now, o.Rand = func() time.Time { return s.now }, func() float64 { return 0.5 }
	s.engine, s.office = newEngine(s.t, o)
}

// answer is what agents say. Their first word says what they are to do.
func (s *stage) answer(_, text string) bridge.Observation {
	o := bridge.Observation{State: bridge.RunFinished, Reply: "Noted."}
	switch verb, rest, _ := strings.Cut(text, " "); verb {
	case "delegate":
		o.Reply = "SUBAGENT: repo=" + childRepo + ", prompt=work " + rest
	case "split":
		o.Reply = "SUBAGENT: repo=" + childRepo + ", prompt=work one of " + rest + "\nSUBAGENT: repo=" + childRepo + ", prompt=work two of " + rest
	case "act":
		o.Reply = "LOCAL_ACTION: " + action
	}
	return o
}

func (s *stage) fail(point, text string) error {
	switch {
	case point == "after send":
		s.sent++
	case point == "find launch":
		s.found++
	case point == "after launch" && s.lose != nil && s.lose(text):
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the answer was lost", Unclear: true}
	}
	return nil
}

func (s *stage) heard(e bridge.Event) {
	s.events[e.Kind]++
	if e.Kind == bridge.EventLaunched && e.Command != "" {
		s.child = e.Agent
	}
}

// do calls the bridge from outside: a step of its own.
func (s *stage) do(what string, call func(context.Context) error) {
	s.t.Helper()
	err := call(s.t.Context())
	if s.lost(err) && !s.recorded { // who calls looks whether it was recorded, and calls again if not
		err = call(s.t.Context())
	}
	if err != nil && !s.lost(err) {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// until does one step after the other until ok, and waits in its own time where nothing is due.
func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	for range 200 {
		if ok() {
			return
		}
		if !s.work() {
			if s.losing { // the event was not heard, because its commit was lost
				return
			}
			s.t.Fatalf("%s: nothing is left to do", what)
		}
	}
	s.t.Fatalf("%s: not after 200 steps", what)
}

// lost reports whether an error is that of a lost commit, which the stage goes on after.
func (s *stage) lost(err error) bool {
	return s.losing && bridge.KindOf(err) == bridge.Unavailable
}

// horizon is how far ahead work counts as due: beyond are reminders that a run has no usage yet, and the like.
const horizon = 2 * time.Hour

// work does the next step and reports whether there was one.
func (s *stage) work() bool {
	s.t.Helper()
	worked, err := s.engine.Step(s.t.Context())
	if s.lost(err) {
		return true
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if worked {
		return true
	}
	next, err := s.engine.NextDue(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if next.IsZero() || next.Sub(s.now) > horizon {
		return false
	}
	s.now = next
	return true
}

// rest goes on until nothing is due.
func (s *stage) rest() {
	s.t.Helper()
	for range 200 {
		if !s.work() {
			return
		}
	}
	s.t.Fatal("no rest after 200 steps")
}

// launch launches an orchestrator.
func (s *stage) launch(name, prompt string) (id bridge.AgentID) {
	s.t.Helper()
	return s.launchAs(engine.Spec{Name: name, Repo: bossRepo, Prompt: prompt})
}

func (s *stage) launchAs(spec engine.Spec) (id bridge.AgentID) {
	s.t.Helper()
	s.do("launch by the operator", func(ctx context.Context) error {
		a, _, err := s.engine.LaunchAgent(ctx, spec)
		id = a.ID
		return err
	})
	return id
}

func (s *stage) say(id bridge.AgentID, text string) {
	s.t.Helper()
	s.do("words of the operator", func(ctx context.Context) error {
		_, err := s.engine.Say(ctx, id, text)
		return err
	})
}

func (s *stage) forget() {
	clear(s.events)
	s.sent, s.found = 0, 0
}
