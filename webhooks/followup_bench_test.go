package webhooks_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/cloudagents"
	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
	"drawbridge/policy"
	"drawbridge/proof/pg"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
	"drawbridge/webhooks"
)

// BenchmarkFollowUp measures from a webhook's arrival to the arrival of the
// parent's follow-up at the API: verify, record, acknowledge, ask the API what
// is true, record the end, begin the parent's turn, send it. The API is the
// simulated one over loopback, on the same processors; the file database commits with
// synchronous=FULL. Widths are stories that are told at a time. The cases below postgres have their database in PostgreSQL.
func BenchmarkFollowUp(b *testing.B) {
	for _, width := range []int{1, 16} {
		name := fmt.Sprintf("width=%d", width)
		b.Run(name, func(b *testing.B) { followUps(b, b.TempDir()+"/bench.db", width) })
		b.Run("postgres/"+name, func(b *testing.B) { followUps(b, pg.Database(b), width) })
	}
}

// stopwatch notes when each subagent's webhook came, and when its parent was spoken to.
type stopwatch struct {
	mu       sync.Mutex // guards what follows
	hooks    map[string]time.Time
	followed map[string]chan time.Time
}

func (s *stopwatch) hook(op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.hooks[op]; !known {
		s.hooks[op] = time.Now()
	}
}

func (s *stopwatch) arrived(op string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks[op]
}

// follow returns the channel that tells when a parent gets a follow-up.
func (s *stopwatch) follow(parent string) chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed[parent] == nil {
		s.followed[parent] = make(chan time.Time, 1)
	}
	return s.followed[parent]
}

func followUps(b *testing.B, database string, width int) {
	ctx, cancel := context.WithCancel(context.Background())
	watch := &stopwatch{hooks: map[string]time.Time{}, followed: map[string]chan time.Time{}}
	e := world(ctx, b, database, watch)
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx) })
	defer running.Wait()
	defer cancel()

	took := make([][]time.Duration, width)
	var tellers sync.WaitGroup
	var mu sync.Mutex // guards n
	n := 0
	b.ResetTimer()
	for w := range width {
		tellers.Go(func() {
			for {
				mu.Lock()
				n++
				story := n
				mu.Unlock()
				if story > b.N {
					return
				}
				d, err := tell(ctx, e, watch, fmt.Sprintf("main-%d-%d", b.N, story))
				if err != nil {
					b.Error(err)
					return
				}
				took[w] = append(took[w], d)
			}
		})
	}
	tellers.Wait()
	b.StopTimer()
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(sorted) == 0 {
		return
	}
	b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds())/1000, "p99-ms")
}

// tell plays one story and returns how long the follow-up took after the webhook.
func tell(ctx context.Context, e *engine.Engine, watch *stopwatch, name string) (time.Duration, error) {
	root, _, err := e.LaunchAgent(ctx, engine.Spec{Name: name, Repo: "github.com/me/agent-env", Prompt: "Delegate " + name})
	if err != nil {
		return 0, err
	}
	external := bridge.ExternalID(root.OpKey)
	var sent time.Time
	select {
	case sent = <-watch.follow(external):
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("%s got no follow-up", name)
	}
	var children []bridge.Agent
	if err := e.View(ctx, func(tx *bridge.Scene) (err error) {
		children, err = tx.Agents(bridge.AgentFilter{Parent: root.ID})
		return err
	}); err != nil || len(children) != 1 {
		return 0, fmt.Errorf("%d subagents: %w", len(children), err)
	}
	hook := watch.arrived(string(children[0].ID))
	if hook.IsZero() {
		return 0, fmt.Errorf("the follow-up of %s came without a webhook", name)
	}
	return sent.Sub(hook), nil
}

// world wires a bridge to a simulated cloud; both end with the benchmark.
func world(ctx context.Context, b *testing.B, database string, watch *stopwatch) *engine.Engine {
	b.Helper()
	sc, err := script.Parse([]byte(`
agents:
  - repo: github.com/me/agent-env
    turns:
      - { match: Delegate, after: 1ms, reply: "SUBAGENT: repo=github.com/me/my-app, prompt=work" }
      - { reply: "Noted.", after: 1ms }
  - repo: github.com/me/my-app
    turns: [{ reply: "Done.", after: 30ms }]
`))
	if err != nil {
		b.Fatal(err)
	}
	sim, err := cloudsim.New(cloudsim.Options{Script: sc})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sim.Close)
	handler := sim.Handler()
	cloud := serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/agents/"); ok && r.Method == http.MethodPost {
			if id, ok := strings.CutSuffix(rest, "/runs"); ok {
				watch.follow(id) <- time.Now()
			}
		}
		handler.ServeHTTP(w, r)
	}))
	client, err := cloudagents.New(cloudagents.Options{BaseURL: cloud, Key: cloudsim.DefaultKey, API: bridge.APIv1})
	if err != nil {
		b.Fatal(err)
	}
	rules, problems := policy.New(policy.Rules{
		Repos: []policy.RepoRule{{Pattern: "github.com/me/my-app", API: bridge.APIv0}}, OperatorRepos: []string{"github.com/me/agent-env"},
		Limits: policy.Limits{LaunchesPerHour: 1_000_000, OpenSubagents: 1_000_000},
	})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	s, err := store.Open(ctx, database)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	keys := bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}
	var receiver http.Handler
	hooks := serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch.hook(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		receiver.ServeHTTP(w, r)
	}))
	e, err := engine.New(engine.Options{Store: s, Runtime: client, Actions: &runtimes.Relay{}, Keys: keys, Policy: func() *policy.Policy { return rules },
		PublicURL: hooks, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	h, err := webhooks.New(webhooks.Options{Bridge: e, Keys: keys, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	receiver = h.Handler()
	return e
}

// serve serves on loopback until the benchmark ends and returns the address.
func serve(b *testing.B, h http.Handler) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}
