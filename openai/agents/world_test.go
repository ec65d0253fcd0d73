package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/openai/agents"
	"drawbridge/openai/upstream"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
)

// world is an engine in a bubble of virtual time with both backends on it.
type world struct {
	*testing.T
	disk   *memstore.Disk
	cloud  *runtimes.Cloud
	relay  *runtimes.Relay
	engine *engine.Engine
	tools  *agents.Tools
	agents *agents.Agents
	repos  *agents.Cloud
	state  *state
	stop   func()
	// busy keeps all runs at work while it is set.
	busy atomic.Bool
	// reply is what agents say at the end of a run.
	reply func(text string) bridge.Observation
}

var rules = policy.Rules{
	Repos:         []policy.RepoRule{{Pattern: "github.com/me/my-app"}},
	Actions:       []policy.ActionRule{{ID: "backup_script", Relay: "laptop"}},
	OperatorRepos: []string{"github.com/me/agent-env"},
}

func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, disk: memstore.NewDisk(), cloud: &runtimes.Cloud{}, relay: &runtimes.Relay{}, state: &state{}}
		w.reply = func(string) bridge.Observation {
			return bridge.Observation{State: bridge.RunFinished, Reply: "Done."}
		}
		w.cloud.Answer = func(_, text string) bridge.Observation {
			if w.busy.Load() {
				return bridge.Observation{State: bridge.RunRunning}
			}
			return w.reply(text)
		}
		w.start()
		t.Cleanup(func() { w.stop() })
		test(w)
	})
}

func (w *world) start() {
	w.Helper()
	p, problems := policy.New(rules)
	if len(problems) > 0 {
		w.Fatal(problems)
	}
	s := w.disk.Open()
	var err error
	w.engine, err = engine.New(engine.Options{
		Store: s, Runtime: w.cloud, Actions: w.relay, Policy: func() *policy.Policy { return p },
		Keys:    bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}},
		PollMin: time.Second, PollMax: 5 * time.Second,
		Settle: func(string) time.Duration { return time.Minute }, Away: func(string) error { return nil },
		Parser: parser.Options{Remind: true}, Log: zerolog.New(zerolog.NewTestWriter(w)).Level(zerolog.ErrorLevel),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.tools = agents.NewTools(agents.ToolsOptions{Steps: w.engine, Watch: w.engine.Watch})
	o := agents.Options{Engine: w.engine, Tools: w.tools, Repos: map[string]string{"app": "github.com/me/my-app", "other": "github.com/evil/other"}}
	var bErr, cErr error
	w.agents, bErr = agents.New(o)
	w.repos, cErr = agents.NewCloud(o)
	if err := errors.Join(bErr, cErr); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.engine.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			w.Error(err)
		}
		w.stop = func() {}
	}
}

// restart stops all and starts it again on the same disk.
func (w *world) restart() {
	w.stop()
	w.start()
}

// launch launches the agent main, whose first turn is over when it returns.
func (w *world) launch() bridge.Agent {
	w.Helper()
	a, first, err := w.engine.LaunchAgent(w.Context(), engine.Spec{Name: "main", Repo: "github.com/me/agent-env", Prompt: "Begin."})
	if err != nil {
		w.Fatal(err)
	}
	w.untilTurn(first.ID, bridge.TurnReplied)
	return a
}

func (w *world) turn(id bridge.TurnID) (t bridge.Turn) {
	w.Helper()
	if err := w.engine.View(w.Context(), func(tx *bridge.Scene) (err error) { t, err = tx.Turn(id); return err }); err != nil {
		w.Fatal(err)
	}
	return t
}

func (w *world) untilTurn(id bridge.TurnID, state bridge.TurnState) {
	w.Helper()
	w.until(string(id)+" is "+string(state), func(tx *bridge.Scene) bool {
		t, err := tx.Turn(id)
		return err == nil && t.State == state
	})
}

func (w *world) until(what string, ok func(*bridge.Scene) bool) {
	w.Helper()
	changed, end := w.engine.Watch()
	defer end()
	limit := time.After(24 * time.Hour) // of virtual time
	for {
		met := false
		if err := w.engine.View(w.Context(), func(tx *bridge.Scene) error { met = ok(tx); return nil }); err != nil {
			w.Fatal(err)
		}
		if met {
			return
		}
		select {
		case <-changed:
		case <-limit:
			w.Fatalf("%s never happened", what)
		}
	}
}

// ask is a request of the user's messages, with answers of the assistant between them.
func (w *world) ask(turn string, said ...string) upstream.Request {
	r := upstream.Request{Turn: turn, Session: "s1", Token: "web", Model: "main", Body: json.RawMessage("{}"), State: w.state}
	for i, text := range said {
		if i > 0 {
			r.Messages = append(r.Messages, upstream.Message{Role: "assistant", Text: "Done."})
		}
		r.Messages = append(r.Messages, upstream.Message{Role: "user", Text: text})
	}
	return r
}

func (w *world) begin(b upstream.Upstream, r upstream.Request) upstream.Turn {
	w.Helper()
	t, err := b.Start(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// read reads an answer up to its end or its next park.
func (w *world) read(t upstream.Turn) (all []upstream.Event, err error) {
	w.Helper()
	for {
		e, err := t.Next(w.Context())
		if err != nil {
			return all, err
		}
		all = append(all, e)
		if e.Kind == upstream.Ended || e.Kind == upstream.Parked {
			return all, nil
		}
	}
}

// whole reads an answer that must end well, and returns its text and its thoughts.
func (w *world) whole(t upstream.Turn) (text, thoughts string) {
	w.Helper()
	all, err := w.read(t)
	if err != nil {
		w.Fatalf("after %+v: %v", all, err)
	}
	for _, e := range all {
		switch e.Kind {
		case upstream.Text:
			text += e.Text
		case upstream.Reasoning:
			thoughts += e.Text
		}
	}
	if last := all[len(all)-1]; last.Kind != upstream.Ended || last.Finish != "stop" {
		w.Fatalf("the last event is %+v", last)
	}
	if _, err := t.Next(w.Context()); !errors.Is(err, io.EOF) {
		w.Errorf("after the end comes %v", err)
	}
	return text, thoughts
}

// state is what a session keeps, in memory.
type state struct {
	mu   sync.Mutex
	all  map[string][]byte
	fail error
}

func (s *state) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key], nil
}

func (s *state) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if s.all == nil {
		s.all = map[string][]byte{}
	}
	s.all[key] = value
	return nil
}

// problem is an error as the door shows it.
func problem(t *testing.T, err error) *upstream.Error {
	t.Helper()
	var e *upstream.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v", err)
	}
	return e
}

// breakWith has the record fail with an error; nil mends it.
func (s *state) breakWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}
