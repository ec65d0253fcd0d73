//go:build deep

package runner_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"drawbridge/relay/runner/audit"
	"drawbridge/relay/wire"
)

// Not parallel, so that the memory is this test's own.
func TestOutputIsBounded(t *testing.T) {
	const written = 200_000_000
	relay := serveActions(t, "  flood: { argv: [/usr/bin/head, -c, '200000000', /dev/zero] }\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := relay.run("flood", "")
	runtime.ReadMemStats(&after)
	if got.answer.Status != wire.StatusExecuted || got.answer.StdoutOmitted != written-wire.DefaultOutput {
		t.Errorf("status %s, omitted %d, stderr %q", got.answer.Status, got.answer.StdoutOmitted, got.answer.Stderr)
	}
	if want := strings.Repeat(`\x00`, wire.DefaultOutput); got.answer.Stdout != want {
		t.Errorf("kept %d characters, want %d", len(got.answer.Stdout), len(want))
	}
	if len(got.body) > wire.MaxAnswer {
		t.Errorf("the answer has %d bytes", len(got.body))
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("200 MB of output: %d KiB allocated in all, client included, in %d ms", allocated>>10, got.answer.DurationMS)
	if allocated > 32<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

// A caller who holds every key and sends what it likes starts nothing but the listed command lines, with the listed
// environments.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	const requests = 100_000
	rec := &recorder{}
	h := handle(t, "limits: { per_minute: 600, per_day: 50000 }\nactions: { hello: { argv: [/bin/echo, hi] }, other: { argv: [/bin/true], env: { A: b } } }\n", rec)
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"hello", "other", "/bin/sh", "-c", ";", "\n", "\x00", "..", "$(id)", "`id`", "HELLO", "é", "\u202e", " ", "", "%s", "|", "&", "'"}
	word := func() string {
		var b strings.Builder
		for range random.IntN(3) + 1 {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		return b.String()
	}
	statuses := map[wire.Status]int{}
	began := time.Now()
	for i := range requests {
		r := wire.Request{
			ID: fmt.Sprint("r", random.IntN(requests)), Action: word(), Line: word(), Agent: word(), KeyID: word(), BodyHash: word(),
			Created: time.Unix(random.Int64(), 0), Approved: &wire.Approval{Definition: word(), By: word(), At: random.Int64()},
		}
		if i%5 == 0 {
			r.ID = word()
		}
		out := h.ask(t, r)
		statuses[out.Status]++
		if (out.Status == wire.StatusRefused) != (out.Refusal != "") {
			t.Fatalf("%+v gave %+v", r, out)
		}
	}
	for _, c := range rec.commands {
		line := strings.Join(c.Argv, " ") + "|" + strings.Join(c.Env, " ")
		if line != "/bin/echo hi|PATH=/usr/local/bin:/usr/bin:/bin" && line != "/bin/true|A=b PATH=/usr/local/bin:/usr/bin:/bin" || c.Dir != "/" {
			t.Fatalf("ran %q in %q", line, c.Dir)
		}
	}
	took := time.Since(began)
	if most := 600 * (1 + int(took/time.Minute)); len(rec.commands) == 0 || len(rec.commands) > most {
		t.Errorf("%d ran within %s; 600 may in a minute", len(rec.commands), took)
	}
	t.Logf("%d requests: %v", requests, statuses)
	if _, err := audit.Verify(h.audit, ""); err != nil {
		t.Error(err)
	}
}
