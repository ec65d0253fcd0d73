//go:build deep

package turns_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/wire"
)

// A relay that is killed says no turn twice and loses no answer that it had, whenever it is killed: in mid-turn, in the moments after the end of
// the turn, and at random. Each turn is answered. The waits only choose the moment of the kill: what the test demands holds at each moment, so that
// a slow machine fails nothing.
func TestRelayIsKilled(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same moments each time
	for name, moment := range map[string]struct {
		script string
		// after is waited for in the agent's log before the wait.
		after string
		wait  func() time.Duration
	}{
		"in mid-turn":    {"do: sleep 2s", acpagent.Prompted, func() time.Duration { return time.Duration(random.IntN(60)) * time.Millisecond }},
		"after the end":  {"", acpagent.Ended, func() time.Duration { return time.Duration(random.IntN(50)) * time.Millisecond }},
		"at some moment": {"do: sleep 20ms", "", func() time.Duration { return time.Duration(random.IntN(900)) * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			l := &ledger{world: w, session: "ada", counts: map[string]int{}}
			w.answers(turn("ada", "t0", "do: say here"), "here")
			for n := range kills(t) {
				w.close()
				tn := turn("ada", fmt.Sprintf("t%d", n+1), moment.script, fmt.Sprintf("do: say answer t%d", n+1))
				before := w.count(moment.after)
				r := w.start()
				w.must(r.in.Encode(tn))
				if moment.after != "" {
					w.eventually("the turn is there", func() bool { return w.count(moment.after) > before })
				}
				wait(moment.wait())
				r.kill()
				var got *wire.TurnEnded
				for end := range r.ends {
					got = &end
				}
				w.open()
				end := l.settle(tn)
				if got != nil && (got.Cause != end.Cause || got.Text != end.Text || got.Evidence != end.Evidence) {
					t.Errorf("the relay said %+v before it was killed, and its record says %+v", got, end)
				}
				if end.Cause != wire.TurnAnswered {
					t.Errorf("the turn did not go on: %+v", end)
				}
			}
			t.Logf("ends: %v", l.counts)
		})
	}
}

// An agent that is killed in mid-turn or after its answer loses no answer and gets no turn twice; the turn and its session go on in the next process.
func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // the same moments each time
	for name, script := range map[string]string{"in mid-turn": "do: sleep 10m", "after the end": "", "at some moment": "do: sleep 10ms"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			l := &ledger{world: w, session: "ada", counts: map[string]int{}}
			for n := range kills(t) {
				id := fmt.Sprintf("t%d", n)
				tn := turn("ada", id, script, "do: say answer "+id)
				after := acpagent.Prompted
				if name == "after the end" {
					after = acpagent.Ended
				}
				prompts := w.count(after) // before the turn, which may be quick
				ended := w.background(tn)
				w.eventually("the agent has the turn", func() bool { return w.count(after) > prompts })
				wait(time.Duration(random.IntN(50)) * time.Millisecond)
				w.killAgent()
				<-ended
				if end := l.settle(tn); end.Cause != wire.TurnAnswered {
					t.Errorf("%+v", end)
				}
			}
			t.Logf("ends: %v", l.counts)
		})
	}
}

// Whatever ends an agent's process, nothing that it started is left two seconds later, a process in a session of its own among it: the end
// of the relay in good order, its death, the death of the agent, and the end of idle.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, r *relay){
		"the relay ends":    func(_ *world, r *relay) { _ = r.input.Close(); _ = r.cmd.Wait() },
		"the relay dies":    func(_ *world, r *relay) { r.kill() },
		"the agent dies":    func(w *world, _ *relay) { w.killAgent() },
		"the process rests": func(*world, *relay) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {more: "idle: 1s"}}, nil)
			w.close()
			r := w.start()
			w.must(r.in.Encode(turn("ada", "t1", "do: spawn 300")))
			said := <-r.ends
			pid, err := strconv.Atoi(strings.TrimPrefix(said.Text, "spawned "))
			if err != nil {
				t.Fatalf("%+v", said)
			}
			end(w, r)
			began := time.Now()
			w.eventually("it is gone", func() bool { return syscall.Kill(pid, 0) != nil })
			t.Logf("gone after %s", time.Since(began).Round(time.Millisecond))
			r.kill()
			w.open()
		})
	}
}
