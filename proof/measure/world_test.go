//go:build deep

package measure_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/pg"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

func TestMain(m *testing.M) { os.Exit(pg.Main(m, func() error { return goleak.Find() })) }

// The repositories of orchestrators and of subagents, and the action that the rules allow.
const (
	bossRepo  = "github.com/me/agent-env"
	childRepo = "github.com/me/my-app"
	action    = "backup_script"
)

// worker is a stand-in runtime whose runs take 50 to 100 ms, as a quick agent's do. Its stream tells their end.
type worker struct {
	*runtimes.Cloud

	mu   sync.Mutex // guards ends
	ends map[string]time.Time
}

func newWorker() *worker {
	w := &worker{ends: map[string]time.Time{}}
	w.Cloud = &runtimes.Cloud{Answer: func(_, _ string) bridge.Observation {
		return bridge.Observation{State: bridge.RunFinished, Reply: "Done. The tests pass, and the change is on the branch."}
	}}
	return w
}

// begun notes when a run will be over. How long one takes depends on its id alone.
func (w *worker) begun(s bridge.Started, err error) (bridge.Started, error) {
	if err != nil {
		return s, err
	}
	h := fnv.New32()
	_, _ = h.Write([]byte(s.Run))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[s.Run] = time.Now().Add(50*time.Millisecond + time.Duration(h.Sum32()%50)*time.Millisecond)
	return s, nil
}

func (w *worker) left(r bridge.RunRef) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.ends[r.Run])
}

// Launch implements bridge.Launcher.
func (w *worker) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	return w.begun(w.Cloud.Launch(ctx, l))
}

// Send implements bridge.Sender.
func (w *worker) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	return w.begun(w.Cloud.Send(ctx, f))
}

// Observe implements bridge.Observer.
func (w *worker) Observe(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	if w.left(r) > 0 {
		return bridge.Observation{State: bridge.RunRunning}, nil
	}
	return w.Cloud.Observe(ctx, r)
}

// Follow implements bridge.Follower.
func (w *worker) Follow(ctx context.Context, r bridge.RunRef) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.left(r)):
		return nil
	}
}

// options are those of every engine here. The caller sets Store and Runtime.
func options(t testing.TB) engine.Options {
	t.Helper()
	const many = 1 << 30
	rules, problems := policy.New(policy.Rules{
		Repos: []policy.RepoRule{{Pattern: childRepo}}, OperatorRepos: []string{bossRepo}, Actions: []policy.ActionRule{{ID: action, Relay: "laptop"}},
		Limits: policy.Limits{LaunchesPerHour: many, OpenSubagents: many, CommandsPerTurn: 100, TurnsPerChain: many,
			Tree: policy.Budget{Launches: many, Open: many, Turns: many}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return engine.Options{Actions: &runtimes.Relay{}, Policy: func() *policy.Policy { return rules }, Log: zerolog.Nop(), Parser: parser.Options{Remind: true},
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}, Grace: time.Second}
}

// openStore opens a database and closes it when the test ends.
func openStore(t testing.TB, database string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newEngine makes an engine with a post office.
func newEngine(t testing.TB, o engine.Options) (*engine.Engine, *mail.Service) {
	t.Helper()
	var office *mail.Service
	o.Mail = func(ctx context.Context, w bridge.Work) error { return office.Work(ctx, w) }
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if office, err = mail.New(mail.Options{Steps: e, PerPair: -1}); err != nil {
		t.Fatal(err)
	}
	return e, office
}

// launch launches an orchestrator.
func launch(ctx context.Context, e *engine.Engine, name, prompt string) (bridge.Agent, error) {
	a, _, err := e.LaunchAgent(ctx, engine.Spec{Name: name, Repo: bossRepo, Prompt: prompt})
	if err != nil {
		return a, fmt.Errorf("launch %s: %w", name, err)
	}
	return a, nil
}
