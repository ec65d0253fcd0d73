package turns_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// later is a host's clock that a test puts forward.
func later(ahead *atomic.Int64) func(*turns.Options) {
	return func(o *turns.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
}

// unmet checks that a turn ended as limited and never reached its agent.
func (w *world) unmet(t wire.Turn, end wire.TurnEnded, until int64) {
	w.Helper()
	if end.Cause != wire.TurnLimited || end.Until != until || !strings.Contains(end.Error, "another agent with the same login") {
		w.Errorf("%+v", end)
	}
	if n := w.said(t.Marker); n != 0 {
		w.Errorf("%s was said %d times", t.ID, n)
	}
}

// The sessions of an entry share its login. While one of them is limited, the others get nothing and no process, until the same time. Another
// entry is not concerned, and neither is the session that has the time from the agent itself.
func TestLimitOfALogin(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := newWorld(t, map[string]entry{"fake": {}, "good": {}}, later(&ahead))
	w.answers(turn("cid", "t0", "do: say warm"), "warm")
	first := w.run(turn("ada", "t1", "do: error -32603 You've hit your usage limit, try again in 3 hours"))
	if first.Cause != wire.TurnLimited || first.Until == 0 {
		t.Fatalf("%+v", first)
	}
	processes := w.count(acpagent.Started)
	fresh, warm := turn("bob", "t2", "do: say fresh"), turn("cid", "t3", "do: say on")
	w.unmet(fresh, w.run(fresh), first.Until)
	w.unmet(warm, w.run(warm), first.Until)
	if n := w.count(acpagent.Started); n != processes {
		t.Errorf("%d processes were started", n-processes)
	}
	other := turn("dan", "t4", "do: say fine")
	other.Agent = "good"
	w.answers(other, "fine")
	w.answers(turn("ada", "t5", "do: say paid"), "paid")
	ahead.Store(int64(4 * time.Hour))
	for _, again := range []wire.Turn{fresh, warm} {
		again.ID, again.BodyHash, again.Home = again.ID+"-again", "another body", wire.Home{}
		if end := w.run(again); end.Cause != wire.TurnAnswered || w.said(again.Marker) != 1 {
			t.Errorf("%+v, said %d times", end, w.said(again.Marker))
		}
	}
}

// A limit that comes while other turns wait for a slot counts for them, too.
func TestLimitWhileOthersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	release := filepath.Join(w.dir, "release")
	first := w.background(turn("ada", "t1", "do: sh until test -e '"+release+"'; do sleep 0.05; done", "do: error -32603 usage limit, try again in 3 hours"))
	w.eventually("the first one works", func() bool { return w.LookupTurn(turn("ada", "t1")).State == wire.TurnWorking })
	waiting := turn("bob", "t2", "do: say fresh")
	second := w.background(waiting)
	w.eventually("the other one waits", func() bool { return w.Waiting("fake") == 1 })
	w.must(os.WriteFile(release, nil, 0o600))
	end := <-first
	w.unmet(waiting, <-second, end.Until)
	w.answers(turn("ada", "t3", "do: say on"), "on")
}
