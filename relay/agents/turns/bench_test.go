package turns_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/wire"
)

// BenchmarkWarmTurn compares, by turns in one run, a turn of a session whose process lives with the same turn over bare pipes. The relay's turn has its
// record, its evidence from git and its fetch; the agent answers at once and syncs its own log several times. The figures are medians and
// 95th percentiles in milliseconds; "added" is the difference of the medians.
func BenchmarkWarmTurn(b *testing.B) {
	w := newWorld(b, nil, nil)
	w.answers(turn("ada", "t0", "do: say here"), "here")
	w.answers(turn("ada", "t1", "do: say here"), "here")
	home := b.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"HOME=" + home, "RUN_AS_AGENT=1", "PATH=/usr/bin:/bin"}
	r, err := acpagent.StartRaw(cmd, home)
	w.must(err)
	b.Cleanup(func() { _ = r.Close() })
	var relay, raw []time.Duration
	for n := 0; b.Loop(); n++ {
		t := turn("ada", fmt.Sprintf("b%d", n), "do: say here")
		began := time.Now()
		w.must(r.Turn(t.Text))
		raw = append(raw, time.Since(began))
		began = time.Now()
		if end := w.run(t); end.Cause != wire.TurnAnswered {
			b.Fatalf("%+v", end)
		}
		relay = append(relay, time.Since(began))
	}
	b.ReportMetric(share(raw, 50), "ms-raw-p50")
	b.ReportMetric(share(relay, 50), "ms-relay-p50")
	b.ReportMetric(share(relay, 50)-share(raw, 50), "ms-added-p50")
	b.ReportMetric(share(relay, 50)/share(raw, 50), "times-p50")
	b.ReportMetric(share(raw, 95), "ms-raw-p95")
	b.ReportMetric(share(relay, 95), "ms-relay-p95")
}

// share is the time in milliseconds within which a percentage of the turns ended.
func share(took []time.Duration, percent int) float64 {
	slices.Sort(took)
	return float64(took[(len(took)-1)*percent/100].Microseconds()) / 1000
}

// BenchmarkManyAgents is a turn of each of 64 sessions at a time, each in a process of its own.
func BenchmarkManyAgents(b *testing.B) {
	const sessions = 64
	w := newWorld(b, map[string]entry{"fake": {more: "slots: 64"}}, nil)
	var mu sync.Mutex
	var took []time.Duration
	each := func(n int) {
		var all sync.WaitGroup
		for s := range sessions {
			all.Go(func() {
				began := time.Now()
				if end := w.run(turn(fmt.Sprintf("s%d", s), fmt.Sprintf("b%d-%d", n, s), "do: say here")); end.Cause != wire.TurnAnswered {
					b.Errorf("%+v", end)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
		}
		all.Wait()
	}
	each(0)
	each(1) // the first turns moved the branches of the clone
	b.Logf("%d processes live", w.Processes())
	took = nil
	began := time.Now()
	for n := 2; b.Loop(); n++ {
		each(n)
	}
	b.ReportMetric(float64(len(took))/time.Since(began).Seconds(), "turns/s")
	b.ReportMetric(share(took, 50), "ms-p50")
	b.ReportMetric(share(took, 95), "ms-p95")
}
