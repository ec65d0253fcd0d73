package mail_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a post office over a real engine, whose time stands still until a
// test passes it. A run lasts a minute, so that an agent whose turn was
// delivered is in it until then.
type world struct {
	t      tester
	ctx    context.Context //nolint:containedctx // a test's
	store  bridge.Store
	engine *engine.Engine
	mail   *mail.Service

	mu     sync.Mutex // guards the fields below
	now    time.Time
	events []bridge.Event
	// broken names the repositories on which runs fail.
	broken map[string]bool
	// slow names the repositories on which runs go on.
	slow map[string]bool
}

const poll = time.Minute

func newWorld(t tester, o mail.Options) *world {
	return newWorldOn(t, memstore.NewDisk().Open(), o)
}

// newFileWorld is a world on SQLite.
func newFileWorld(t testing.TB, o mail.Options) *world {
	return newWorldAt(t, filepath.Join(t.TempDir(), "mail.db"), o)
}

// newWorldAt is a world on a database that a file or an address names.
func newWorldAt(t testing.TB, database string, o mail.Options) *world {
	s, err := store.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return newWorldOn(t, s, o)
}

func newWorldOn(t tester, s bridge.Store, o mail.Options) *world {
	w := &world{t: t, ctx: context.Background(), store: s, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), broken: map[string]bool{}, slow: map[string]bool{}}
	rules, problems := policy.New(policy.Rules{
		Repos:         []policy.RepoRule{{Pattern: "github.com/acme/*"}},
		OperatorRepos: []string{"github.com/me/root"},
		Limits:        policy.Limits{CommandsPerTurn: 1000, LaunchesPerHour: 1000, OpenSubagents: 1000, Tree: policy.Budget{Launches: 1000, Open: 1000, Turns: 1 << 30}},
	})
	if len(problems) > 0 {
		t.Fatalf("rules: %v", problems)
	}
	cloud := &runtimes.Cloud{Answer: w.answer}
	var err error
	w.engine, err = engine.New(engine.Options{
		Store: s, Runtime: cloud, Actions: &runtimes.Relay{}, Policy: func() *policy.Policy { return rules }, Log: zerolog.Nop(),
		Keys: bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}}, PollMin: poll, PollMax: poll, Streams: -1,
		Now: w.clock, Rand: func() float64 { return 0.5 }, OnEvent: w.saw,
		Mail: func(ctx context.Context, work bridge.Work) error { return w.mail.Work(ctx, work) },
	})
	if err != nil {
		t.Fatalf("engine: %v", err)
	}
	o.Steps = w.engine
	if w.mail, err = mail.New(o); err != nil {
		t.Fatalf("mail: %v", err)
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Microsecond)
	return w.now
}

func (w *world) saw(e bridge.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// answer launches what the prompt lists and says nothing else.
func (w *world) answer(repo, text string) bridge.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken[repo] {
		return bridge.Observation{State: bridge.RunCancelled, Detail: "broken"}
	}
	if w.slow[repo] {
		return bridge.Observation{State: bridge.RunRunning}
	}
	reply := "done"
	if names, ok := strings.CutPrefix(text, "team: "); ok {
		for name := range strings.FieldsSeq(names) {
			reply += fmt.Sprintf("\nSUBAGENT: repo=github.com/acme/%s, prompt=wait for mail as %s", name, name)
		}
	}
	return bridge.Observation{State: bridge.RunFinished, Reply: reply}
}

func (w *world) breakDown(agent bridge.Agent, broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[agent.Repo] = broken
}

// slowDown lets the runs of agents go on, or end.
func (w *world) slowDown(slow bool, names ...string) {
	for _, name := range names {
		repo := w.agent(name).Repo
		w.mu.Lock()
		w.slow[repo] = slow
		w.mu.Unlock()
	}
}

// deliver does what is due now.
func (w *world) deliver() {
	w.t.Helper()
	for range 100_000 {
		worked, err := w.engine.Step(w.ctx)
		if err != nil {
			w.t.Fatalf("step: %v", err)
		}
		if !worked {
			return
		}
	}
	w.t.Fatalf("the engine finds no rest")
}

// pass lets time pass and does what became due.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	w.deliver()
}

// turnOver ends the turns that run; what follows from them is delivered.
func (w *world) turnOver() { w.t.Helper(); w.pass(2 * poll) }

// rest lets everything come to its end.
func (w *world) rest() {
	w.t.Helper()
	for range 1000 {
		if next, err := w.engine.NextDue(w.ctx); err != nil {
			w.t.Fatalf("next due: %v", err)
		} else if next.IsZero() || next.Sub(w.clock()) > 12*time.Hour { // a deadline that nobody waits out
			return
		}
		w.turnOver()
	}
	w.t.Fatalf("there is always something to do")
}

func (w *world) root(prompt, name string) bridge.Agent {
	w.t.Helper()
	if _, _, err := w.engine.LaunchAgent(w.ctx, engine.Spec{Name: name, Repo: "github.com/me/root", Prompt: prompt}); err != nil {
		w.t.Fatalf("launch %s: %v", name, err)
	}
	w.rest()
	return w.agent(name)
}

// team launches boss with subagents of those names; all are at rest.
func (w *world) team(names ...string) {
	w.t.Helper()
	boss := w.root("team: "+strings.Join(names, " "), "boss")
	w.update(func(tx *bridge.Scene) error {
		children, err := tx.Agents(bridge.AgentFilter{Parent: boss.ID, Limit: 1000})
		for _, a := range children {
			a.Name = a.Repo[strings.LastIndexByte(a.Repo, '/')+1:]
			if err := tx.UpdateAgent(a); err != nil {
				return err
			}
		}
		return err
	})
	for _, name := range names {
		w.agent(name)
	}
}

func (w *world) update(fn func(*bridge.Scene) error) {
	w.t.Helper()
	if err := w.store.Update(w.ctx, fn); err != nil {
		w.t.Fatalf("update: %v", err)
	}
}

func (w *world) view(fn func(*bridge.Scene) error) {
	w.t.Helper()
	if err := w.store.View(w.ctx, fn); err != nil {
		w.t.Fatalf("view: %v", err)
	}
}

func (w *world) agent(name string) (a bridge.Agent) {
	w.t.Helper()
	w.view(func(tx *bridge.Scene) (err error) {
		a, err = tx.FindAgent(bridge.ByName, name)
		return err
	})
	return a
}

func (w *world) id(name string) bridge.AgentID { w.t.Helper(); return w.agent(name).ID }

// turns returns an agent's turns, oldest first.
func (w *world) turns(name string) (all []bridge.Turn) {
	w.t.Helper()
	id := w.id(name)
	w.view(func(tx *bridge.Scene) (err error) {
		all, err = tx.Turns(bridge.TurnFilter{Agent: id, Limit: 10_000})
		return err
	})
	slices.Reverse(all)
	return all
}

// prompt is what an agent's last turn says.
func (w *world) prompt(name string) string {
	w.t.Helper()
	all := w.turns(name)
	return all[len(all)-1].Sent
}

// enter gives an agent a turn by a person and leaves it in it.
func (w *world) enter(name string) {
	w.t.Helper()
	if _, err := w.engine.Say(w.ctx, w.id(name), "go on"); err != nil {
		w.t.Fatalf("say to %s: %v", name, err)
	}
	w.deliver()
}

func (w *world) send(from string, d mail.Draft) mail.Sent {
	w.t.Helper()
	sent, err := w.mail.Send(w.ctx, w.id(from), d)
	if err != nil {
		w.t.Fatalf("send from %s to %s: %v", from, d.To, err)
	}
	return sent
}

// states are the receipts of a message, as "name state".
func (w *world) states(id bridge.MessageID) (all []string) {
	w.t.Helper()
	receipts, err := w.mail.Receipts(w.ctx, bridge.User, id)
	if err != nil {
		w.t.Fatalf("receipts: %v", err)
	}
	for _, r := range receipts {
		all = append(all, r.Name+" "+string(r.State))
	}
	return all
}

// kinds counts the events of a kind.
func (w *world) kinds(kind string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func wantKind(t *testing.T, what string, err error, kind bridge.ErrorKind) {
	t.Helper()
	if bridge.KindOf(err) != kind {
		t.Errorf("%s: %v, want an error of kind %q", what, err, kind)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}
