//go:build deep

package link_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drawbridge/relay/link"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// A thousand at once: as many as fit wait, the others are told to come back, and each is answered.
func TestThousandAtOnce(t *testing.T) {
	t.Parallel()
	h := newHandler()
	h.hold = make(chan struct{})
	free := sync.OnceFunc(func() { close(h.hold) })
	executed, busy := 0, 0
	relayWith(t, h, func(p *peer) {
		defer free() // also after a fault: the relay waits for what runs
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		go func() {
			for n := range 1000 {
				if err := p.frame(wire.Frame{Request: sign(t, p.key, order(fmt.Sprintf("op-%d", n), "listed"))}); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for range 1000 {
			f, err := p.read()
			switch {
			case err != nil || f.Outcome == nil:
				t.Errorf("%+v, %v", f, err)
				return
			case f.Outcome.Status == wire.StatusExecuted:
				executed++
			case f.Outcome.Refusal == wire.RefusedBusy && f.Outcome.RetryMS > 0:
				busy++
			}
			if busy == 1000-link.MaxInFlight {
				free()
			}
		}
	})
	if executed != link.MaxInFlight || busy != 1000-link.MaxInFlight {
		t.Errorf("%d executed, %d told to come back", executed, busy)
	}
}

// A bridge that has the true key and means harm, against the relay as it is but for the last step: no process outside the
// list's own words is ever started, and every request gets one answer.
func TestHostileBridgeWithTheTrueKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "relay.yaml")
	text := "listen: none\nlimits: { per_minute: 600, per_day: 50000 }\nactions: { listed: { argv: [/bin/echo, one, two], dir: /, env: { A: b } } }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := settings.Load(path, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	started := &executor{}
	relay, err := runner.Listen(t.Context(), runner.Options{Config: config, Executor: started})
	if err != nil {
		t.Fatal(err)
	}
	executed := hostileBridge(t, relay)
	if executed == 0 || executed != len(started.ran) {
		t.Errorf("%d executed by the answers, %d started", executed, len(started.ran))
	}
	for _, c := range started.ran {
		env := slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool { return strings.HasPrefix(v, "PATH=") })
		if c.Path != "/bin/echo" || !slices.Equal(c.Argv, []string{"/bin/echo", "one", "two"}) || c.Dir != "/" || !slices.Equal(env, []string{"A=b"}) {
			t.Fatalf("started %+v", c)
		}
	}
}

// A connection over which nothing comes any more, and that nobody ends, is noticed within a ping and its time-out (20 s and
// 15 s), and the relay dials again.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	silent(t, func(l *link.Link, w *way, connections <-chan time.Time) {
		<-connections
		// Long after: pings keep a good connection, so that nothing was dialed again.
		<-time.After(10 * time.Minute)
		if len(connections) != 0 || !l.Connected() {
			t.Error("a good connection was given up")
		}
		w.swallowed.Store(true)
		gone := time.Now()
		<-time.After(36 * time.Second)
		if l.Connected() {
			t.Error("36 s of silence were not noticed")
		}
		w.swallowed.Store(false)
		// What was dialed into the silence is given up first, after 30 s, and then there is a wait.
		if took := (<-connections).Sub(gone); took > 72*time.Second {
			t.Errorf("connected again %s after the way went, and 36 s less after it was there again", took)
		}
	})
}

// A way that swallows already while the relay dials, or in the middle of its handshake, holds it up for no longer than a
// handshake may take.
func TestBlackHoleFromTheStart(t *testing.T) {
	t.Parallel()
	silent(t, func(_ *link.Link, w *way, connections <-chan time.Time) {
		<-connections
		w.swallowed.Store(true)
		// The connection is given up after 35 s at most; what is dialed then is swallowed, too, for several tries.
		<-time.After(5 * time.Minute)
		w.swallowed.Store(false)
		back := time.Now()
		// A try that was swallowed (30 s), and the longest wait (60 s).
		if took := (<-connections).Sub(back); took > 90*time.Second {
			t.Errorf("connected again %s after the way was there again", took)
		}
	})
}
