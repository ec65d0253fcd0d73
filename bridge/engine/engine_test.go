package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// world is an engine on a real store, with a fake cloud and relay.
type world struct {
	t      *testing.T
	cloud  *runtimes.Cloud
	relay  *runtimes.Relay
	policy atomic.Pointer[policy.Policy]
	engine *engine.Engine
	path   string
	stop   func()

	// silent is true while runs of uncertainLaunch cannot be looked at.
	silent atomic.Bool

	// disk is where the store is; nil is a file at path.
	disk *memstore.Disk
	// poll, settle and patience are how often a run is looked at, how long an
	// effect may take to show, and how long until waits.
	poll, settle, patience time.Duration
	// away is why the runtime cannot be reached; nil while it can.
	away atomic.Pointer[string]
	// v0Settle is the operator's rule for v0 launches in doubt, of runOn.
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

func newWorld(t *testing.T, answer func(repo, text string) string) *world {
	t.Helper()
	w := &world{t: t, relay: &runtimes.Relay{}, path: t.TempDir() + "/bridge.db", poll: time.Millisecond, settle: 20 * time.Millisecond, patience: 20 * time.Second}
	w.cloud = &runtimes.Cloud{Answer: func(repo, text string) bridge.Observation {
		return bridge.Observation{State: bridge.RunFinished, Reply: answer(repo, text)}
	}}
	w.allow(rules)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) allow(r policy.Rules) {
	p, problems := policy.New(r)
	if len(problems) > 0 {
		w.t.Fatalf("rules: %v", problems)
	}
	w.policy.Store(p)
}

// settleOf is the settle time of an API: of the runtime "local" nothing shows late.
func (w *world) settleOf(api string) time.Duration {
	if api == "local" {
		return 0
	}
	return w.settle
}

// awayOf is for any API: there is one runtime here.
func (w *world) awayOf(string) error {
	if why := w.away.Load(); why != nil {
		return bridge.Errorf(bridge.Unavailable, "%s", *why)
	}
	return nil
}

func (w *world) start() {
	w.t.Helper()
	s, shut := w.open()
	var err error
	w.engine, err = engine.New(engine.Options{
		Store: s, Runtime: w.cloud, Actions: w.relay, Policy: w.policy.Load,
		Keys:    bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}},
		PollMin: w.poll, PollMax: 5 * w.poll, Settle: w.settleOf, Away: w.awayOf,
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
		if err := shut(); err != nil {
			w.t.Errorf("close: %v", err)
		}
		w.stop = func() {}
	}
}

func (w *world) open() (s bridge.Store, shut func() error) {
	w.t.Helper()
	if w.disk != nil {
		m := w.disk.Open()
		return m, m.Close
	}
	f, err := store.Open(w.t.Context(), w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	return f, f.Close
}

// restart stops the engine where it stands and starts another on the same file.
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

func (w *world) events() (lines []string) {
	_ = w.engine.View(context.Background(), func(tx *bridge.Scene) error {
		all, err := tx.Events(0, 1000)
		for _, e := range all {
			lines = append(lines, fmt.Sprintf("%s %s: %s", e.Kind, e.Name, e.Text))
		}
		return err
	})
	return lines
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

func TestTheMainJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{
		"github.com/me/agent-env": "I delegate.\nSUBAGENT: repo=https://github.com/me/My-App, prompt=Add a health check\nLOCAL_ACTION: backup_script\nLOCAL_ACTION: rm_all\n- LOCAL_ACTION: backup_script\n",
		"github.com/me/my-app":    "Added it.\nLOCAL_ACTION: evil",
	}))
	w.launch("Ship it")
	w.until("all reported", func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{})
		if err != nil || len(all) < 4 {
			return false
		}
		for _, c := range all {
			if c.State != bridge.CommandReported {
				return false
			}
		}
		return true
	})
	want := []string{
		"SUBAGENT https://github.com/me/My-App reported", "LOCAL_ACTION backup_script reported",
		"LOCAL_ACTION rm_all reported", "LOCAL_ACTION evil reported",
	}
	if diff := cmp.Diff(want, w.commands()); diff != "" {
		t.Error(diff)
	}
	if got := w.relay.Log(); !cmp.Equal(got, []string{"backup_script"}) {
		t.Errorf("relay ran %q", got)
	}
	if n := w.cloud.Effects("launch github.com/me/my-app Add a health check"); n != 1 {
		t.Errorf("launched %d times: %q", n, w.cloud.Log())
	}
	sent := strings.Join(w.cloud.Log(), "\n")
	for _, part := range []string{
		"ended with status FINISHED", "\nWEBHOOK_RESULT: agent_id=bc-", "| Added it.\n| LOCAL_ACTION: evil",
		`action "rm_all" is not on the allowlist; allowed: backup_script`, "executed, exit code 0", "line 5", "bar (|)",
	} {
		if !strings.Contains(sent, part) {
			t.Errorf("no turn said %q:\n%s", part, sent)
		}
	}
}

func TestHeldWaitsForAPersonOverRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{
		"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/careful, prompt=Change it",
		"github.com/me/careful":   "Changed.",
	}))
	w.launch("go")
	var held bridge.Command
	isHeld := func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
		if err != nil || len(all) != 1 {
			return false
		}
		held = all[0]
		open, err := tx.OpenTurn(held.Agent)
		return errors.Is(err, bridge.ErrNoRow) && open.ID == ""
	}
	w.until("held", isHeld)
	w.restart()
	w.until("still held", isHeld)
	if n := w.cloud.Effects("launch github.com/me/careful"); n != 0 {
		t.Fatalf("launched without approval: %q", w.cloud.Log())
	}
	if _, err := w.yes(held.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.yes(held.ID); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("second approval: %v", err)
	}
	w.idle(3) // launch, told that it is held, told that it finished
	if n := w.cloud.Effects("launch github.com/me/careful Change it"); n != 1 {
		t.Errorf("launched %d times", n)
	}
}

func TestDenyTellsTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/careful, prompt=Change it"}))
	w.launch("go")
	w.idleOrWaiting()
	held := w.oneCommand(bridge.CommandHeld)
	if _, err := w.engine.Deny(t.Context(), held.ID, "not today"); err != nil {
		t.Fatal(err)
	}
	w.idle(3)
	if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, "a person denied it: not today") {
		t.Errorf("the agent was not told:\n%s", sent)
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

func TestOverACapNothingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": strings.Repeat("LOCAL_ACTION: backup_script\n", 10_000)}))
	w.launch("go")
	w.idle(2)
	if got := w.relay.Log(); len(got) != 0 {
		t.Errorf("relay ran %d actions", len(got))
	}
	if sent := w.cloud.Log()[1]; !strings.Contains(sent, "10000 commands") || len(sent) > 2000 {
		t.Errorf("report: %.300s", sent)
	}
}

func TestAReplyTooLargeHasNoEffectAndOneReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}))
	w.cloud.Unreadable = func(text string) error {
		if text == "go" {
			return bridge.Errorf(bridge.TooLarge, "the reply has more than 8 MiB")
		}
		return nil
	}
	w.launch("go")
	w.idle(2)
	if got := w.relay.Log(); len(got) != 0 {
		t.Errorf("relay ran %q", got)
	}
	if sent := w.cloud.Log()[1]; !strings.Contains(sent, "too large") {
		t.Errorf("report: %s", sent)
	}
}

func TestEchoAndDuplicateAreHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(repo, text string) string {
		switch {
		case repo == "github.com/me/my-app":
			return "please write\n> LOCAL_ACTION:   backup_script"
		case strings.Contains(text, "please write"):
			return "LOCAL_ACTION: backup_script"
		case strings.HasPrefix(text, "[bridge "):
			return "ok"
		}
		return "SUBAGENT: repo=github.com/me/my-app, prompt=x\nSUBAGENT: repo=https://github.com/ME/my-app.git, prompt=x"
	})
	w.launch("go")
	w.until("two held", func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
		return err == nil && len(all) == 2 && all[0].Code == "echo" && all[1].Code == "duplicate"
	})
	if got := w.relay.Log(); len(got) != 0 {
		t.Errorf("an echo ran: %q", got)
	}
	if n := w.cloud.Effects("launch github.com/me/my-app"); n != 1 {
		t.Errorf("launched %d times", n)
	}
}

func TestLostAnswersHaveOneEffect(t *testing.T) {
	t.Parallel()
	lost := &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
	for _, point := range []string{"before launch", "after launch", "before send", "after send"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x", "github.com/me/my-app": "done"}))
			var failed atomic.Int32
			w.cloud.Fail = func(p, _ string) error {
				if p == point && failed.Add(1) <= 2 {
					return lost
				}
				return nil
			}
			w.launch("go")
			w.idle(2)
			if n := w.cloud.Effects("launch"); n != 2 {
				t.Errorf("%d launches: %q", n, w.cloud.Log())
			}
			if n := w.cloud.Effects("send"); n != 1 {
				t.Errorf("%d follow-ups: %q", n, w.cloud.Log())
			}
		})
	}
}

func TestAnotherRepositoryIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x"}))
	w.cloud.Report = func(repo string) string {
		if repo == "github.com/me/my-app" {
			return "github.com/evil/my-app"
		}
		return repo
	}
	w.launch("go")
	w.idle(2)
	if n := w.cloud.Effects("cancel"); n != 1 {
		t.Errorf("cancelled %d times", n)
	}
	if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, `"github.com/evil/my-app"`) {
		t.Errorf("the orchestrator was not told:\n%s", sent)
	}
}

func TestRelayDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}))
	var calls atomic.Int32
	w.relay.Fail = func(point, _ string) error {
		if point == "before" && calls.Add(1) == 1 {
			return bridge.Errorf(bridge.Unavailable, "relay laptop is not reachable")
		}
		if point == "after" {
			return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
		}
		return nil
	}
	w.launch("go")
	w.until("ran", func(*bridge.Scene) bool { return len(w.relay.Log()) == 1 })
	w.stop()
	w.relay.Fail = nil
	w.start()
	w.idle(2)
	if got := w.relay.Log(); len(got) != 1 {
		t.Errorf("ran %d times", len(got))
	}
}

func TestRestartAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x\nLOCAL_ACTION: backup_script", "github.com/me/my-app": "done"}))
	w.launch("go")
	for range 15 {
		w.restart()
	}
	w.until("reported", func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandReported})
		return err == nil && len(all) == 2
	})
	if n := w.cloud.Effects("launch"); n != 2 {
		t.Errorf("%d launches: %q", n, w.cloud.Log())
	}
	if got := w.relay.Log(); len(got) != 1 {
		t.Errorf("ran %d times", len(got))
	}
}

func TestAllowlistIsAskedAgainBeforeSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x"}))
	w.cloud.Fail = func(point, text string) error {
		if point == "before launch" && text == "x" {
			narrow := rules
			narrow.Repos = nil
			w.allow(narrow)
			return &bridge.Error{Kind: bridge.RateLimited, Message: "slow down", RetryAfter: time.Millisecond}
		}
		return nil
	}
	w.launch("go")
	w.idle(2)
	if n := w.cloud.Effects("launch github.com/me/my-app"); n != 0 {
		t.Errorf("launched although no longer allowed: %q", w.cloud.Log())
	}
}

func TestChainWithoutAPersonEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(string, string) string { return "LOCAL_ACTION: backup_script" })
	r := rules
	r.Limits.TurnsPerChain = 5
	w.allow(r)
	w.launch("go")
	gated := func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "main")
		return err == nil && a.State == bridge.AgentGated
	}
	w.until("gated", gated)
	a, err := w.engine.FindAgent(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine.Say(t.Context(), a.ID, "stop that"); err != nil {
		t.Fatal(err)
	}
	w.until("gated again", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
		return err == nil && len(turns) == 10 && gated(tx)
	})
}

func TestRefusalsAreNotAnsweredForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(string, string) string { return "LOCAL_ACTION: nonsense" })
	w.launch("go")
	w.idle(4)
}

func TestNearMissesAreNotAnsweredForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(string, string) string { return "I quote:\n- LOCAL_ACTION: backup_script" })
	w.launch("go")
	w.idle(4)
}

func TestReminder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "REMIND: 2020-01-01T00:00:00Z, too late\nREMIND: 10m, tea"}))
	w.launch("go")
	w.idleOrWaiting()
	if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, "in the past") {
		w.until("told", func(*bridge.Scene) bool { return strings.Contains(strings.Join(w.cloud.Log(), "\n"), "in the past") })
	}
	if m := w.oneCommand(bridge.CommandGranted); m.Parsed.Message != "tea" {
		t.Errorf("waiting reminder: %+v", m.Parsed)
	}
}

func TestOperatorMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(nil))
	for name, spec := range map[string]engine.Spec{
		"denied repo":  {Name: "x", Repo: "github.com/evil/x", Prompt: "p"},
		"bad name":     {Name: "../x", Repo: "github.com/me/my-app", Prompt: "p"},
		"like an id":   {Name: "agt_main", Repo: "github.com/me/my-app", Prompt: "p"},
		"empty prompt": {Name: "x", Repo: "github.com/me/my-app", Prompt: "  "},
		"bad api":      {Name: "x", Repo: "github.com/me/my-app", Prompt: "p", API: "v2"},
		"bad utf8":     {Name: "x", Repo: "github.com/me/my-app", Prompt: "p\xff"},
	} {
		if _, _, err := w.engine.LaunchAgent(t.Context(), spec); bridge.KindOf(err) != bridge.Invalid && bridge.KindOf(err) != bridge.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.engine.Say(t.Context(), "agt_none", "hi"); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("unknown agent: %v", err)
	}
	if len(w.cloud.Log()) != 0 {
		t.Errorf("effects: %q", w.cloud.Log())
	}
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
