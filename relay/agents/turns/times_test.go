package turns_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// Two sessions of an entry with one slot take turns: the process of the one that waits gives way at once, and comes back with its session.
func TestOneSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "idle: 1h"}}, nil)
	for n, id := range []string{"a1", "b1", "a2", "b2"} {
		session := []string{"ada", "bob"}[n%2]
		w.answers(turn(session, id, "do: say "+id), id)
		if w.Processes() != 1 {
			t.Errorf("%d processes", w.Processes())
		}
	}
	if n := w.count(acpagent.Started); n != 4 {
		t.Errorf("%d processes for 4 turns", n)
	}
	if n := w.count(acpagent.Loaded); n != 2 {
		t.Errorf("sessions came back %d times", n)
	}
	if n := w.count(acpagent.Opened); n != 2 {
		t.Errorf("%d sessions were begun", n)
	}
}

// Turns that wait for a slot get it in the order in which they came; a turn of a session whose process rests does not overtake them.
func TestSlotsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "idle: 1h"}}, nil)
	first := w.background(turn("s0", "t0", "do: sleep 1h"))
	var ends []<-chan wire.TurnEnded
	w.eventually("the first one runs", func() bool { return w.LookupTurn(turn("s0", "t0")).State == wire.TurnWorking })
	for _, s := range []string{"s1", "s2", "s3"} {
		w.answersWaiting(s)
		ends = append(ends, w.background(turn(s, "t-"+s, "do: say "+s)))
		w.eventually(s+" waits", func() bool { return w.Waiting("fake") == len(ends) })
	}
	w.StopTurn(turn("s0", "t0"))
	if e := <-first; e.Cause != wire.TurnStopped {
		t.Errorf("%+v", e)
	}
	for _, end := range append(ends, w.background(turn("s0", "t9", "do: say t9"))) {
		if e := <-end; e.Cause != wire.TurnAnswered {
			t.Errorf("%+v", e)
		}
	}
	var order []string
	for _, l := range w.log("fake") {
		if l.Event == acpagent.Prompted {
			id, _, _ := strings.Cut(strings.TrimPrefix(l.Text, "[bridge "), "]")
			order = append(order, id)
		}
	}
	if got := strings.Join(order, " "); got != "t0 t-s1 t-s2 t-s3 t9" {
		t.Errorf("said in the order %s", got)
	}
}

// As many turns run side by side as an entry has slots, and one more waits.
func TestSlotsSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "slots: 2"}}, nil)
	var ends []<-chan wire.TurnEnded
	for _, s := range []string{"s1", "s2", "s3"} {
		ends = append(ends, w.background(turn(s, "t-"+s, "do: sleep 1h")))
	}
	w.eventually("two work and one waits", func() bool {
		working := 0
		for _, s := range []string{"s1", "s2", "s3"} {
			if w.LookupTurn(turn(s, "t-"+s)).State == wire.TurnWorking {
				working++
			}
		}
		return working == 2 && w.Waiting("fake") == 1
	})
	if n := w.Processes(); n != 2 {
		t.Errorf("%d processes", n)
	}
	for i, s := range []string{"s1", "s2", "s3"} {
		w.StopTurn(turn(s, "t-"+s))
		if e := <-ends[i]; e.Cause != wire.TurnStopped && e.Cause != wire.TurnUnsaid {
			t.Errorf("%s: %+v", s, e)
		}
	}
}

// answersWaiting checks that a turn that waits shows as queued.
func (w *world) answersWaiting(session string) {
	w.Helper()
	if found := w.LookupTurn(turn(session, "t-"+session)); found.Known != wire.TurnKnownNot {
		w.Errorf("%s before it came: %+v", session, found)
	}
}

// A process without a turn ends after idle, and the session goes on in the next one.
func TestIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "idle: 1s"}}, nil)
	w.answers(turn("ada", "t1", "do: say one"), "one")
	w.eventually("the process is gone", func() bool { return w.Processes() == 0 })
	w.answers(turn("ada", "t2", "do: say two"), "two")
	if w.count(acpagent.Opened) != 1 || w.count(acpagent.Loaded) != 1 {
		t.Error("the session did not go on")
	}
}

// people answers questions when a test says so.
type people struct {
	mu    sync.Mutex
	asked []turns.Work
	// reply gets the answer of each question.
	reply chan acp.Reply
}

// Ask implements turns.Asker.
func (p *people) Ask(ctx context.Context, w turns.Work, _ acp.Question) acp.Reply {
	p.mu.Lock()
	p.asked = append(p.asked, w)
	p.mu.Unlock()
	select {
	case r := <-p.reply:
		return r
	case <-ctx.Done():
		return acp.Unanswered
	}
}

// Without somebody who judges questions each of them is answered with no, whatever permissions say.
func TestPermissionsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {more: "permissions: { read: allow, execute: ask }"}}, nil)
	w.answers(turn("ada", "t1", "do: ask read x"), "asked for x: reject_once")
	w.answers(turn("ada", "t2", "do: ask execute x"), "asked for x: reject_once")
	w.answers(turn("ada", "t3", "do: ask sudo x"), "asked for x: reject_once")
}

// A turn is stopped while it runs, while it waits, and before it comes. One that has ended stays as it is.
func TestStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	running := turn("ada", "t1", "do: sleep 10m", "do: say late")
	ended := w.background(running)
	w.eventually("it runs", func() bool { return w.said(running.Marker) == 1 })
	waiting := turn("ada", "t2", "do: say never")
	waits := w.background(waiting)
	w.eventually("it waits", func() bool { return w.LookupTurn(waiting).State == wire.TurnQueued })
	if found := w.StopTurn(waiting); found.Known != wire.TurnKnownOpen {
		t.Errorf("%+v", found)
	}
	if end := <-waits; end.Cause != wire.TurnUnsaid || !strings.Contains(end.Error, "before the agent got it") {
		t.Errorf("%+v", end)
	}
	if found := w.StopTurn(running); found.Known != wire.TurnKnownOpen || found.State != wire.TurnWorking {
		t.Errorf("%+v", found)
	}
	if end := <-ended; end.Cause != wire.TurnStopped {
		t.Errorf("%+v", end)
	}
	if found := w.StopTurn(running); found.Known != wire.TurnKnownEnded || found.Ended.Cause != wire.TurnStopped {
		t.Errorf("%+v", found)
	}
	unborn := turn("ada", "t3", "do: say never")
	if found := w.StopTurn(unborn); found.Known != wire.TurnKnownAbsent {
		t.Errorf("%+v", found)
	}
	if end := w.run(unborn); end.Cause != wire.TurnUnsaid {
		t.Errorf("%+v", end)
	}
	stranger := turn("bob", "t4", "do: say never")
	if found := w.StopTurn(stranger); found.Known != wire.TurnKnownNot {
		t.Errorf("%+v", found)
	}
	if end := w.run(stranger); end.Cause != wire.TurnUnsaid || !strings.Contains(end.Error, "before") {
		t.Errorf("%+v", end)
	}
	if n := w.said("never"); n != 0 {
		t.Errorf("%d stopped turns were said", n)
	}
	w.answers(turn("ada", "t5", "do: say on"), "on")
	if w.count(acpagent.Started) != 1 {
		t.Error("the process was lost with a stopped turn")
	}
}

// A stop that comes before its turn counts over the end of the relay, whether the relay knows the session or not. It counts for that turn alone.
func TestStopOutlivesTheRelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.answers(turn("ada", "t1", "do: say one"), "one")
	later, first := turn("ada", "t2", "do: say never"), turn("bob", "t3", "do: say never")
	for range 2 {
		if found := w.StopTurn(later); found.Known != wire.TurnKnownAbsent {
			t.Errorf("%+v", found)
		}
		if found := w.StopTurn(first); found.Known != wire.TurnKnownNot {
			t.Errorf("%+v", found)
		}
		w.again()
	}
	for _, stopped := range []wire.Turn{later, first} {
		if end := w.run(stopped); end.Cause != wire.TurnUnsaid || !strings.Contains(end.Error, "before the agent got it") {
			t.Errorf("%+v", end)
		}
		if end := w.run(stopped); end.Cause != wire.TurnUnsaid || !end.Replayed {
			t.Errorf("again: %+v", end)
		}
	}
	if n := w.said("never"); n != 0 {
		t.Errorf("%d stopped turns were said", n)
	}
	w.answers(turn("ada", "t4", "do: say on"), "on")
	w.answers(turn("bob", "t5", "do: say on"), "on")
}

// When the bridge says that a session is over, its process ends, also after a turn that was stopped. The session goes on if the bridge needs it after all.
func TestSessionIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	ada, bob := turn("ada", "t1", "do: say one"), turn("bob", "t2", "do: sleep 10m")
	w.answers(ada, "one")
	ended := w.background(bob)
	w.eventually("it runs", func() bool { return w.said(bob.Marker) == 1 })
	w.StopTurn(bob)
	<-ended
	for of, cause := range map[*wire.Turn]wire.TurnCause{&ada: wire.TurnAnswered, &bob: wire.TurnStopped} {
		of.Over = true
		if found := w.StopTurn(*of); found.Known != wire.TurnKnownEnded || found.Ended == nil || found.Ended.Cause != cause {
			t.Errorf("%+v", found)
		}
	}
	w.eventually("their processes end", func() bool { return w.Processes() == 0 })
	w.answers(turn("ada", "t3", "do: say two"), "two")
	if w.count(acpagent.Started) != 3 || w.said("say one") != 1 {
		t.Errorf("%d processes, said %d times", w.count(acpagent.Started), w.said("say one"))
	}
}

// The kill switch ends processes without a turn, and none stays after its turn until it is off.
func TestHalt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.answers(turn("ada", "t1", "do: say one"), "one")
	w.Halt()
	if n := w.Processes(); n != 0 {
		t.Errorf("%d processes", n)
	}
	w.answers(turn("ada", "t2", "do: say two"), "two")
	w.eventually("it does not stay", func() bool { return w.Processes() == 0 })
	w.Proceed()
	w.answers(turn("ada", "t3", "do: say three"), "three")
	if n := w.Processes(); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// ahead is a clock that a test puts forward.
// With each it goes on by so much whenever somebody looks at it.
type ahead struct{ by, each atomic.Int64 }

func (c *ahead) now() time.Time { return time.Now().Add(time.Duration(c.by.Add(c.each.Load()))) }

// An agent that is silent for too long, or takes too long, is ended with the cause hung, and the next turn of its session goes on. TestWatch
// has the rules.
func TestHung(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, reason string
		wait           time.Duration
	}{
		"silent":   {"do: hang", "silent_after (5m0s)", 6 * time.Minute},
		"too long": {"do: busy 10m", "turn_timeout (1h0m0s)", 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clock ahead
			w := newWorld(t, nil, func(o *turns.Options) { o.Now = clock.now })
			ended := w.background(turn("ada", "t1", c.script))
			w.eventually("the agent has the turn", func() bool { return w.count(acpagent.Prompted) == 1 })
			clock.each.Store(int64(c.wait)) // the relay may be slow, and look at the clock for the first time now
			if end := <-ended; end.Cause != wire.TurnHung || !strings.Contains(end.Error, c.reason) {
				t.Errorf("%+v", end)
			}
			if w.Processes() != 0 {
				t.Error("the process lives")
			}
			clock.each.Store(0)
			w.answers(turn("ada", "t2", "do: say on"), "on")
		})
	}
}

// A turn whose agent asks a person shows as asking. A question that is open for ask_hold ends the process.
func TestAsking(t *testing.T) {
	t.Parallel()
	p := &people{reply: make(chan acp.Reply)}
	var clock ahead
	w := newWorld(t, nil, func(o *turns.Options) { o.Asker, o.Now = p, clock.now })
	asks := func(id string) <-chan wire.TurnEnded {
		end := w.background(turn("ada", id, "do: ask execute make"))
		w.eventually("a person is asked", func() bool { return w.LookupTurn(turn("ada", id)).State == wire.TurnAskingNow })
		return end
	}
	end := asks("t1")
	p.reply <- acp.Allow
	if e := <-end; e.Cause != wire.TurnAnswered || e.Text != "asked for make: allow_once" {
		t.Errorf("%+v", e)
	}
	if len(p.asked) != 1 || p.asked[0].Agent != "fake" || p.asked[0].Session != "ada" || p.asked[0].Turn != "t1" || !strings.HasSuffix(p.asked[0].Dir, "/workspaces/ada/tree") {
		t.Errorf("asked for %+v", p.asked)
	}
	end = asks("t2")
	clock.by.Store(int64(11 * time.Minute))
	if e := <-end; e.Cause != wire.TurnAsking || !strings.Contains(e.Error, "ask_hold (10m0s)") || w.Processes() != 0 {
		t.Errorf("%+v, %d processes", e, w.Processes())
	}
	w.answers(turn("ada", "t3", "do: say on"), "on")
}
