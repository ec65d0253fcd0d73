package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
)

// world is an engine in a bubble of virtual time, on a store in memory, with a fake cloud and relay.
type world struct {
	t      *testing.T
	cloud  *runtimes.Cloud
	relay  *runtimes.Relay
	policy atomic.Pointer[policy.Policy]
	engine *engine.Engine
	disk   *memstore.Disk
	stop   func()

	// silent is true while runs of uncertainLaunch cannot be looked at.
	silent atomic.Bool

	// runtime stands in front of the cloud; nil is the cloud itself.
	runtime bridge.Runtime
	// over stands in front of the store; nil is the store itself.
	over func(bridge.Store) bridge.Store
	// poll, settle and patience are how often a run is looked at, how long an
	// effect may take to show, and how long until waits.
	poll, settle, patience time.Duration
	// away is why the runtime cannot be reached; nil while it can.
	away atomic.Pointer[string]
	// v0Settle is the operator's rule for v0 launches in doubt; 0 leaves them to a person.
	v0Settle time.Duration
}

var rules = policy.Rules{
	Repos: []policy.RepoRule{{Pattern: "github.com/me/my-app"}, {Pattern: "github.com/acme/*"},
		{Pattern: "github.com/me/careful", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
	Actions:       []policy.ActionRule{{ID: "backup_script", Relay: "laptop"}},
	OperatorRepos: []string{"github.com/me/agent-env"},
}

// v0Rule allows a repository whose agents live in v0 of the API.
var v0Rule = policy.RepoRule{Pattern: "github.com/acme/old", API: bridge.APIv0}

// bubble plays a test in virtual time. It builds the world and does not start its engine.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, relay: &runtimes.Relay{}, cloud: &runtimes.Cloud{}, disk: memstore.NewDisk(), stop: func() {},
			poll: 10 * time.Second, settle: 5 * time.Minute, patience: 1000 * time.Hour}
		w.allow(rules)
		t.Cleanup(func() { w.stop() })
		test(t, w)
	})
}

// play plays a test whose runs all finish with a reply of answer. The engine runs from the beginning.
func play(t *testing.T, answer func(repo, text string) string, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		w.cloud.Answer = func(repo, text string) bridge.Observation {
			return bridge.Observation{State: bridge.RunFinished, Reply: answer(repo, text)}
		}
		w.start()
		test(t, w)
	})
}

func (w *world) allow(r policy.Rules) {
	p, problems := policy.New(r)
	if len(problems) > 0 {
		w.t.Fatalf("rules: %v", problems)
	}
	w.policy.Store(p)
}

// settleOf is the settle time of a Runtime: of the runtime "local" nothing shows late.
func (w *world) settleOf(runtime string) time.Duration {
	if runtime == "local" {
		return 0
	}
	return w.settle
}

// awayOf is for any Runtime: there is one runtime here.
func (w *world) awayOf(string) error {
	if why := w.away.Load(); why != nil {
		return bridge.Errorf(bridge.Unavailable, "%s", *why)
	}
	return nil
}

func (w *world) start() {
	w.t.Helper()
	s := w.disk.Open()
	cloud := w.runtime
	if cloud == nil {
		cloud = w.cloud
	}
	var db bridge.Store = s
	if w.over != nil {
		db = w.over(s)
	}
	var err error
	w.engine, err = engine.New(engine.Options{
		Store: db, Runtime: cloud, Actions: w.relay, Policy: w.policy.Load,
		Keys:    bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}},
		Hosts:   func(runtime string) (string, string, bool) { return "laptop", "opencode", runtime != "elsewhere" },
		PollMin: w.poll, PollMax: 5 * w.poll, Settle: w.settleOf, V0Settle: w.v0Settle, Away: w.awayOf,
		Parser: parser.Options{Remind: true, WebhookResult: true}, Log: zerolog.New(zerolog.NewTestWriter(w.t)).Level(zerolog.WarnLevel),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.engine.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
		if err := s.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
		w.stop = func() {}
	}
}

// restart stops the engine where it stands and starts another on the same disk.
func (w *world) restart() {
	w.stop()
	w.start()
}

func (w *world) launch(prompt string) bridge.Agent {
	w.t.Helper()
	return w.launchNamed("main", prompt)
}

func (w *world) launchNamed(name, prompt string) bridge.Agent {
	w.t.Helper()
	a, _, err := w.engine.LaunchAgent(w.t.Context(), engine.Spec{Name: name, Repo: "github.com/me/agent-env", Prompt: prompt})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// until waits for a condition on the store, checked after each change.
func (w *world) until(what string, ok func(*bridge.Scene) bool) {
	w.t.Helper()
	changed, end := w.engine.Watch()
	defer end()
	limit := time.After(w.patience)
	for {
		met := false
		err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) error { met = ok(tx); return nil })
		if err != nil {
			w.t.Fatal(err)
		}
		if met {
			return
		}
		select {
		case <-changed:
		case <-limit:
			w.t.Fatalf("%s never happened\nevents:\n%s", what, strings.Join(w.events(), "\n"))
		}
	}
}

// events are lines for a person who reads why a test failed; a test asserts on timeline.
func (w *world) events() (lines []string) {
	for _, e := range w.timeline() {
		lines = append(lines, fmt.Sprintf("%s %s: %s", e.Kind, e.Name, e.Text))
	}
	return lines
}

// timeline returns the events of some kinds, or of all, oldest first.
func (w *world) timeline(kinds ...string) (found []bridge.Event) {
	w.t.Helper()
	err := w.engine.View(context.Background(), func(tx *bridge.Scene) error {
		all, err := tx.Events(0, 10_000)
		for _, e := range all {
			if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
				found = append(found, e)
			}
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	return found
}

// idle waits until the orchestrator has nothing more to do.
func (w *world) idle(turns int) {
	w.t.Helper()
	w.until(fmt.Sprintf("idle after %d turns", turns), func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "main")
		if err != nil || a.State != bridge.AgentIdle {
			return false
		}
		all, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
		return err == nil && len(all) == turns
	})
}

func (w *world) commands() (out []string) {
	err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Commands(bridge.CommandFilter{})
		for i := len(all) - 1; i >= 0; i-- {
			out = append(out, fmt.Sprintf("%s %s%s %s", all[i].Parsed.Verb, all[i].Parsed.Repo, all[i].Parsed.Action, all[i].State))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// script answers first prompts by repository and follow-ups with thanks.
func script(first map[string]string) func(repo, text string) string {
	return func(repo, text string) string {
		if strings.HasPrefix(text, "[bridge ") {
			return "Thanks."
		}
		return first[repo]
	}
}

func (w *world) idleOrWaiting() {
	w.t.Helper()
	w.until("no open turn", func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "main")
		return err == nil && (a.State == bridge.AgentIdle || a.State == bridge.AgentWaiting)
	})
}

func (w *world) oneCommand(state bridge.CommandState) (m bridge.Command) {
	w.t.Helper()
	err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Commands(bridge.CommandFilter{State: state})
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("%d commands are %s", len(all), state)
		}
		if err == nil {
			m = all[0]
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// told waits until an agent was sent a text that contains words.
func (w *world) told(words string) {
	w.t.Helper()
	w.until("told of "+words, func(*bridge.Scene) bool {
		for _, line := range w.cloud.Log() {
			if strings.HasPrefix(line, "send") && strings.Contains(line, words) {
				return true
			}
		}
		return false
	})
}

// turnsIn waits until an agent has so many turns in a state.
func (w *world) turnsIn(id bridge.AgentID, state bridge.TurnState, n int) (all []bridge.Turn) {
	w.t.Helper()
	w.until(string(state), func(tx *bridge.Scene) (ok bool) {
		var err error
		all, err = tx.Turns(bridge.TurnFilter{Agent: id, State: state})
		return err == nil && len(all) == n
	})
	return all
}

// boss is the orchestrator's repository.
const boss = "github.com/me/agent-env"

// cast are the agents of a test in virtual time: what each says first, and how
// far its runs have come.
type cast struct {
	mu sync.Mutex // guards the fields below
	// first are first replies, by repository.
	first map[string]string
	// states are of first runs, later of further ones; none is FINISHED.
	states, later map[string]bridge.RunState
}

func (c *cast) answer(repo, text string) bridge.Observation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(text, "[bridge ") {
		return bridge.Observation{State: c.later[repo], Reply: "Thanks."}
	}
	return bridge.Observation{State: c.states[repo], Reply: c.first[repo]}
}

// runs says how far the first runs of some repositories are by now.
func (c *cast) runs(state bridge.RunState, repos ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, repo := range repos {
		c.states[repo] = state
	}
}

// follows says how further runs of a repository end from now on.
func (c *cast) follows(state bridge.RunState, repo string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.later[repo] = state
}

// virtual plays a test with a cast. The engine is not started yet. A run that was
// cancelled ends as the cast says.
func virtual(t *testing.T, first map[string]string, test func(t *testing.T, w *world, c *cast)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		c := &cast{first: maps.Clone(first), states: map[string]bridge.RunState{}, later: map[string]bridge.RunState{}}
		w.cloud.Answer, w.cloud.Deaf = c.answer, true
		test(t, w, c)
	})
}

// launchJoined launches the orchestrator with a policy for results.
func (w *world) launchJoined(join bridge.Join, within time.Duration) bridge.Agent {
	w.t.Helper()
	a, _, err := w.engine.LaunchAgent(w.t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go", Join: join, JoinWithin: within})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// resting waits until no agent has an open turn but those that are named, and no
// action is on its way.
func (w *world) resting(except ...bridge.AgentID) {
	w.t.Helper()
	w.until("rest", func(tx *bridge.Scene) bool {
		all, err := tx.Agents(bridge.AgentFilter{})
		for _, a := range all {
			if _, open := tx.OpenTurn(a.ID); !slices.Contains(except, a.ID) && !errors.Is(open, bridge.ErrNoRow) {
				return false
			}
		}
		for _, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending} {
			actions, err := tx.Commands(bridge.CommandFilter{State: state, Verb: parser.LocalAction})
			if err != nil || len(actions) > 0 {
				return false
			}
		}
		return err == nil
	})
}

// agent returns the orchestrator as it is now.
func (w *world) agent() bridge.Agent {
	w.t.Helper()
	a, err := w.engine.FindAgent(w.t.Context(), "main")
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// itemsLine ends words that are said again.
var itemsLine = regexp.MustCompile(`\n\n\[items( [0-9a-f]{16})+\]$`)

// sent returns what the agents of a repository were told in follow-ups.
func (w *world) sent(repo string) (all []string) {
	for _, line := range w.cloud.Log() {
		if text, ok := strings.CutPrefix(line, "send "+repo+" "); ok {
			all = append(all, itemsLine.ReplaceAllString(text, ""))
		}
	}
	return all
}

func (w *world) say(text string) bridge.Turn {
	w.t.Helper()
	t, err := w.engine.Say(w.t.Context(), w.agent().ID, text)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// turns returns the orchestrator's turns, oldest first, as "cause state".
func (w *world) turns() (all []string) {
	w.t.Helper()
	err := w.engine.View(w.t.Context(), func(tx *bridge.Scene) error {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: w.agent().ID})
		for _, t := range slices.Backward(turns) {
			all = append(all, fmt.Sprintf("%s %s", t.Cause, t.State))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// wants fails unless some text holds every part.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("nothing says %q:\n%s", part, text)
		}
	}
}
