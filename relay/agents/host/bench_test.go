package host_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"drawbridge/proof/acpagent"
)

// BenchmarkDriver compares a turn of an agent that lives already: by the driver under keeper and sandbox, and with bare lines over pipes. Its
// figure is the median in milliseconds. The agent syncs its log several times in each turn.
func BenchmarkDriver(b *testing.B) {
	const prompt = "do: say one\ndo: say two"
	b.Run("driver", func(b *testing.B) {
		w := newWorld(b, nil, "sandbox: {}")
		_, s := w.start(nil)
		median(b, func() {
			if a, err := s.Prompt(b.Context(), prompt); err != nil || a.Text() != "onetwo" {
				b.Fatal(a, err)
			}
		})
	})
	b.Run("raw", func(b *testing.B) {
		home := b.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"HOME=" + home, "RUN_AS_AGENT=1", "PATH=/usr/bin:/bin"}
		r, err := acpagent.StartRaw(cmd, home)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = r.Close() })
		median(b, func() {
			if err := r.Turn(prompt); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func median(b *testing.B, do func()) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		do()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
}
