package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// The repositories of agents: what the API is asked about those of the second one hangs.
const (
	childRepo = "github.com/me/my-app"
	deafRepo  = "github.com/me/deaf"
)

// usualSlots is how many pieces of one kind of work are handled side by side.
const usualSlots = 64

// callTime is how long the API and the relay take for a healthy answer.
const callTime = 50 * time.Millisecond

// harbor is a bridge whose API takes its time for each answer, and hangs for some agents.
type harbor struct {
	*runtimes.Cloud
	relay  *runtimes.Relay
	store  bridge.Store
	engine *engine.Engine
	// hangFor is how long a call that hangs goes on before it fails.
	hangFor time.Duration

	mu   sync.Mutex // guards the fields below
	deaf map[string]bool
	// asked are the agents for which a call hung, acting the actions that do not end.
	asked, acting map[string]bool
}

func (h *harbor) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (h *harbor) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if err := h.pause(ctx, callTime); err != nil {
		return bridge.Started{}, err
	}
	s, err := h.Cloud.Launch(ctx, l)
	if err == nil && strings.Contains(l.Grant.Prompt(), "deaf") {
		h.mu.Lock()
		h.deaf[s.Agent] = true
		h.mu.Unlock()
	}
	return s, err
}

func (h *harbor) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	if err := h.pause(ctx, callTime); err != nil {
		return bridge.Started{}, err
	}
	return h.Cloud.Send(ctx, f)
}

func (h *harbor) Observe(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	h.mu.Lock()
	deaf := h.deaf[r.Agent]
	if deaf {
		h.asked[r.Agent] = true
	}
	h.mu.Unlock()
	if deaf {
		_ = h.pause(ctx, h.hangFor)
		return bridge.Observation{}, bridge.Errorf(bridge.Unavailable, "the API did not answer")
	}
	if err := h.pause(ctx, callTime); err != nil {
		return bridge.Observation{}, err
	}
	return h.Cloud.Observe(ctx, r)
}

// LookUp implements bridge.ActionRunner.
func (h *harbor) LookUp(context.Context, bridge.ActionLookup) (bridge.ActionFinding, error) {
	return bridge.ActionFinding{}, bridge.Errorf(bridge.Unavailable, "the journal is not asked here")
}

func (h *harbor) RunAction(ctx context.Context, q bridge.ActionRequest) (bridge.ActionOutcome, error) {
	wait := callTime
	if strings.HasPrefix(q.Grant.Action(), "slow") {
		wait = h.hangFor
		h.mu.Lock()
		h.acting[q.Request] = true
		h.mu.Unlock()
	}
	if err := h.pause(ctx, wait); err != nil {
		return bridge.ActionOutcome{}, err
	}
	return h.relay.RunAction(ctx, q)
}

// reply is what agents say: a story has a subagent and an action, and then ends.
func reply(_, text string) bridge.Observation {
	o := bridge.Observation{State: bridge.RunFinished, Reply: "Noted."}
	first, _, _ := strings.Cut(text, "\n")
	switch kind, n, _ := strings.Cut(first, " "); kind {
	case "story":
		o.Reply = "SUBAGENT: repo=" + childRepo + ", prompt=child " + n + "\nLOCAL_ACTION: quick-" + n
	case "slow":
		o.Reply = "LOCAL_ACTION: slow-" + n
	}
	return o
}

func newHarbor(t testing.TB, s bridge.Store, hangFor time.Duration) *harbor {
	t.Helper()
	r := policy.Rules{Repos: []policy.RepoRule{{Pattern: childRepo}}, OperatorRepos: []string{boss, deafRepo},
		Limits: policy.Limits{LaunchesPerHour: 10_000, OpenSubagents: 10_000}}
	for i := range 100 {
		r.Actions = append(r.Actions, policy.ActionRule{ID: fmt.Sprint("quick-", i), Relay: "laptop"}, policy.ActionRule{ID: fmt.Sprint("slow-", i), Relay: "laptop"})
	}
	p, problems := policy.New(r)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	h := &harbor{Cloud: &runtimes.Cloud{Answer: reply}, relay: &runtimes.Relay{}, store: s, hangFor: hangFor,
		deaf: map[string]bool{}, asked: map[string]bool{}, acting: map[string]bool{}}
	var err error
	h.engine, err = engine.New(engine.Options{Store: s, Runtime: h, Actions: h, Log: zerolog.Nop(), PollMin: 20 * time.Millisecond, PollMax: time.Second, Grace: time.Millisecond,
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}, Policy: func() *policy.Policy { return p }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *harbor) launch(t testing.TB, name, repo, prompt string) bridge.AgentID {
	t.Helper()
	a, _, err := h.engine.LaunchAgent(t.Context(), engine.Spec{Name: name, Repo: repo, Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

// await returns when ok does.
func (h *harbor) await(t testing.TB, ok func(*bridge.Scene) (bool, error)) {
	t.Helper()
	for {
		reached := false
		err := h.store.View(t.Context(), func(tx *bridge.Scene) (err error) { reached, err = ok(tx); return err })
		if err != nil {
			t.Fatal(err)
		}
		if reached {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// stories plays five stories, each to the end of all that it asked for, and returns how long that took.
func (h *harbor) stories(t testing.TB, round int) time.Duration {
	t.Helper()
	start := time.Now()
	var roots []bridge.AgentID
	for i := range 5 {
		roots = append(roots, h.launch(t, fmt.Sprintf("story-%d-%d", round, i), boss, fmt.Sprintf("story %d\nround %d", i, round)))
	}
	for _, root := range roots {
		h.await(t, func(tx *bridge.Scene) (bool, error) {
			commands, err := tx.Commands(bridge.CommandFilter{Agent: root})
			for _, m := range commands {
				if m.State != bridge.CommandReported {
					return false, err
				}
			}
			return len(commands) == 2, err
		})
	}
	return time.Since(start)
}

// launches launches ten agents and returns how long it took until the API had them all.
func (h *harbor) launches(t testing.TB, round int) time.Duration {
	t.Helper()
	start := time.Now()
	for i := range 10 {
		h.launch(t, fmt.Sprintf("plain-%d-%d", round, i), boss, fmt.Sprintf("plain %d %d", round, i))
	}
	for i := range 10 {
		h.await(t, func(*bridge.Scene) (bool, error) { return h.External(fmt.Sprintf("plain %d %d", round, i)) != "", nil })
	}
	return time.Since(start)
}

// hang launches agents about whom the API does not answer, and returns once each was asked about.
func (h *harbor) hang(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		h.launch(t, fmt.Sprint("deaf-", i), deafRepo, fmt.Sprint("deaf ", i))
	}
	h.await(t, func(*bridge.Scene) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.asked) >= 64, nil
	})
}

// act begins actions that do not end, each asked for by an agent of its own.
func (h *harbor) act(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		h.launch(t, fmt.Sprint("slow-", i), boss, fmt.Sprint("slow ", i))
	}
	h.await(t, func(*bridge.Scene) (bool, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.acting) >= min(n, usualSlots), nil
	})
}

// In virtual time, where nothing but the slots makes anybody wait: five stories beside 150 agents about whom the API does not answer, and
// launches beside 80 actions that do not end, take no longer than 1.5 times as long as alone.
func TestHealthyWorkBesideHanging(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hang    func(*harbor, testing.TB)
		healthy func(*harbor, testing.TB, int) time.Duration
	}{
		"stories beside 150 agents that hang": {func(h *harbor, t testing.TB) { h.hang(t, 150) }, (*harbor).stories},
		"stories beside 600 agents that hang": {func(h *harbor, t testing.TB) { h.hang(t, 600) }, (*harbor).stories},
		"launches beside 80 slow actions":     {func(h *harbor, t testing.TB) { h.act(t, 80) }, (*harbor).launches},
		"stories beside 80 slow actions":      {func(h *harbor, t testing.TB) { h.act(t, 80) }, (*harbor).stories},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memstore.NewDisk().Open()
				t.Cleanup(func() { _ = s.Close() })
				h := newHarbor(t, s, 30*time.Second)
				alone := c.healthy(h, t, 0)
				c.hang(h, t)
				for round := range 5 {
					beside := c.healthy(h, t, round+1)
					t.Logf("alone %s, beside %s", alone, beside)
					if beside > alone*3/2 {
						t.Errorf("round %d: it took %s, and %s alone", round, beside, alone)
					}
					time.Sleep(7 * time.Second)
				}
			})
		})
	}
}

// BenchmarkBulkheads compares in one run, on a database in a file: five stories alone and beside 150 agents about whom the API
// does not answer, and launches alone and beside 80 actions that do not end. The goal is a ratio below 1.5.
func BenchmarkBulkheads(b *testing.B) {
	for name, c := range map[string]struct {
		hang    func(*harbor)
		healthy func(*harbor, testing.TB, int) time.Duration
	}{
		"stories":  {func(h *harbor) { h.hang(b, 150) }, (*harbor).stories},
		"launches": {func(h *harbor) { h.act(b, 80) }, (*harbor).launches},
	} {
		b.Run(name, func(b *testing.B) {
			open := func(file string) *harbor {
				s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), file))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = s.Close() })
				return newHarbor(b, s, 30*time.Second)
			}
			free, busy := open("free.db"), open("busy.db")
			c.hang(busy)
			var alone, beside []time.Duration
			round := 0
			for b.Loop() {
				alone = append(alone, c.healthy(free, b, round))
				beside = append(beside, c.healthy(busy, b, round))
				round++
			}
			for _, p := range []int{50, 99} {
				a, z := percentile(alone, p), percentile(beside, p)
				b.ReportMetric(a, fmt.Sprintf("p%d-s-alone", p))
				b.ReportMetric(z, fmt.Sprintf("p%d-s-beside", p))
				b.ReportMetric(z/a, fmt.Sprintf("p%d-times", p))
			}
		})
	}
}
