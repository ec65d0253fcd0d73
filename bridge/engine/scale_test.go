package engine_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
	"drawbridge/proof/runtimes"
	"drawbridge/proof/stores"
	"drawbridge/store"
)

// BenchmarkScale accepts replies and lists turns and commands on a database
// with a thousand and one with a million of each, by turns, and reports how much
// slower the 99th percentile of the large one is. The files commit with
// synchronous=FULL.
func BenchmarkScale(b *testing.B) {
	small, large := grown(b, 1_000), grown(b, 1_000_000)
	ops := map[string]func(*scaled, *testing.B) time.Duration{"accept": (*scaled).accept, "list": (*scaled).list}
	for name, op := range ops {
		b.Run(name, func(b *testing.B) {
			var onSmall, onLarge []time.Duration
			for b.Loop() {
				onSmall = append(onSmall, op(small, b))
				onLarge = append(onLarge, op(large, b))
			}
			for _, p := range []int{50, 99} {
				few, many := percentile(onSmall, p), percentile(onLarge, p)
				b.ReportMetric(few*1000, fmt.Sprintf("p%d-ms-1e3", p))
				b.ReportMetric(many*1000, fmt.Sprintf("p%d-ms-1e6", p))
				b.ReportMetric(many/few, fmt.Sprintf("p%d-times", p))
			}
		})
	}
}

func percentile(all []time.Duration, p int) float64 {
	slices.Sort(all)
	return all[min(len(all)*p/100, len(all)-1)].Seconds()
}

// scaled is an engine over a grown store, with one agent to speak to.
type scaled struct {
	store  *store.Store
	engine *engine.Engine
	agent  bridge.AgentID
}

func grown(b *testing.B, n int) *scaled {
	b.Helper()
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "scale.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if err := stores.Grow(b.Context(), s, n); err != nil {
		b.Fatal(err)
	}
	rules, problems := policy.New(policy.Rules{OperatorRepos: []string{"github.com/me/agent-env"}, Limits: policy.Limits{Tree: policy.Budget{Turns: 1 << 40}, TurnsPerChain: 1}})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	cloud := &runtimes.Cloud{Answer: func(_, _ string) bridge.Observation {
		return bridge.Observation{State: bridge.RunFinished, Reply: "Some words.\nSUBAGENT: repo=github.com/evil/mine, prompt=x\n"}
	}}
	w := &scaled{store: s}
	w.engine, err = engine.New(engine.Options{Store: s, Runtime: cloud, Actions: &runtimes.Relay{}, Log: zerolog.Nop(), PollMin: time.Nanosecond,
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}, Policy: func() *policy.Policy { return rules },
		// Before anything of the grown store is due, so that a step is our agent's.
		Now: func() time.Time { return stores.GrownAt.Add(-2 * time.Hour) }})
	if err != nil {
		b.Fatal(err)
	}
	a, _, err := w.engine.LaunchAgent(b.Context(), engine.Spec{Name: "main", Repo: "github.com/me/agent-env", Prompt: "go"})
	if err != nil {
		b.Fatal(err)
	}
	w.agent = a.ID
	w.step(b)
	w.step(b)
	return w
}

func (w *scaled) step(b *testing.B) time.Duration {
	b.Helper()
	start := time.Now()
	worked, err := w.engine.Step(b.Context())
	if err != nil || !worked {
		b.Fatalf("a step: worked %t, %v", worked, err)
	}
	return time.Since(start)
}

// accept returns how long it takes from looking at a run that is over to
// having its reply judged and recorded.
func (w *scaled) accept(b *testing.B) time.Duration {
	if _, err := w.engine.Say(b.Context(), w.agent, "go on"); err != nil {
		b.Fatal(err)
	}
	w.step(b)
	return w.step(b)
}

// list returns how long a page of an agent's turns, of everybody's commands and of agents takes.
func (w *scaled) list(b *testing.B) time.Duration {
	start := time.Now()
	if err := w.engine.View(b.Context(), func(tx *bridge.Scene) error {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: stores.GrownAgent(7), Limit: 50})
		if err != nil || len(turns) == 0 {
			return fmt.Errorf("%d turns: %w", len(turns), err)
		}
		if commands, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandReported, Limit: 50}); err != nil || len(commands) != 50 {
			return fmt.Errorf("%d commands: %w", len(commands), err)
		}
		_, err = tx.Agents(bridge.AgentFilter{State: bridge.AgentDone, Limit: 20})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}
