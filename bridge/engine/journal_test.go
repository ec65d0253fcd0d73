package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

// line is the way to a relay: it can be cut, and then loses the answers of what is under way.
type line struct {
	mu      sync.Mutex // guards what follows
	cut     bool
	changed chan struct{}
}

func newLine() *line { return &line{changed: make(chan struct{})} }

func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != cut {
		l.cut = cut
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

func (l *line) now() (cut bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.changed
}

// slow makes each action of the world's relay take a time, and the relay reachable over l alone. An action whose line is cut runs on,
// and its answer is lost.
func (w *world) slow(l *line, takes time.Duration) {
	w.relay.Fail = func(point, _ string) error {
		cut, changed := l.now()
		switch {
		case cut:
			return bridge.Errorf(bridge.Unavailable, "relay laptop is not connected")
		case point != "after":
			return nil
		}
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-changed:
			return &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Message: "relay laptop gave no answer; the action may have run"}
		}
	}
}

// connects does what a relay that connects does to what waits for it.
func (w *world) connects() {
	s := w.disk.Open()
	defer s.Close()
	err := s.Update(w.t.Context(), func(tx *bridge.Scene) error {
		lanes, err := w.engine.LanesAt(tx, "laptop")
		return errors.Join(err, tx.WakeLanes(append(lanes, bridge.LookupLane("laptop"), bridge.ActionLane("laptop", "backup_script")), time.Now()))
	})
	if err != nil {
		w.t.Error(err)
	}
	w.engine.Wake()
}

// command returns the only action command.
func (w *world) action() bridge.Command {
	w.t.Helper()
	var all []bridge.Command
	w.look(func(tx *bridge.Scene) (err error) { all, err = tx.Commands(bridge.CommandFilter{}); return err })
	if len(all) != 1 {
		w.t.Fatalf("%d commands", len(all))
	}
	return all[0]
}

func (w *world) look(fn func(*bridge.Scene) error) {
	w.t.Helper()
	if err := w.engine.View(context.WithoutCancel(w.t.Context()), fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) untilState(state bridge.CommandState) {
	w.t.Helper()
	w.until("a command is "+string(state), func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{State: state})
		return err == nil && len(all) == 1
	})
}

func (w *world) untilOutcome() {
	w.t.Helper()
	w.until("the outcome", func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{})
		return err == nil && len(all) == 1 && all[0].Outcome != nil
	})
}

// A cut of 100 s in a 15 s action: the command is uncertain meanwhile, and finished once the relay is back, told once.
func TestCutInTheMiddleOfAnAction(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		l := newLine()
		w.slow(l, 15*time.Second)
		w.start()
		w.launch("go")
		w.untilState(bridge.CommandSending)
		synctest.Wait()
		l.set(true)
		began := time.Now()
		w.untilState(bridge.CommandUncertain)
		if cut := 100*time.Second - time.Since(began); cut > 0 {
			time.Sleep(cut)
		}
		l.set(false)
		w.connects()
		back := time.Now()
		w.untilOutcome()
		if took := time.Since(back); took > time.Second {
			t.Errorf("it took %s after the relay was back", took)
		}
		w.resting()
		m := w.action()
		if m.State != bridge.CommandReported || m.Outcome.Status != "executed" || len(w.relay.Log()) != 1 {
			t.Errorf("%s, %+v, ran %q", m.State, m.Outcome, w.relay.Log())
		}
		heard := strings.Join(w.sent(boss), "\n")
		if n := strings.Count(heard, "executed, exit code 0"); n != 1 {
			t.Errorf("the outcome stands %d times in:\n%s", n, heard)
		}
		wants(t, heard, "uncertain, it may have run", "from the journal of relay laptop")
	})
}

// The bridge ends while a command is uncertain; the next one asks the journal all the same.
func TestJournalIsAskedAfterARestart(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		l := newLine()
		w.slow(l, 15*time.Second)
		w.start()
		w.launch("go")
		w.untilState(bridge.CommandSending)
		synctest.Wait()
		l.set(true)
		w.untilState(bridge.CommandUncertain)
		w.stop()
		l.set(false)
		w.start()
		w.untilOutcome()
		w.resting()
		if m := w.action(); m.State != bridge.CommandReported || m.Outcome == nil || len(w.relay.Log()) != 1 {
			t.Errorf("%s, %+v, ran %q", m.State, m.Outcome, w.relay.Log())
		}
	})
}

// A journal that never knew the request leaves the command uncertain, and no request is repeated.
func TestJournalThatDoesNotKnow(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		var asked, looked atomic.Int32
		w.relay.Fail = func(point, _ string) error {
			if point == "look" {
				looked.Add(1)
				return nil
			}
			asked.Add(1)
			return &bridge.Error{Kind: bridge.Conflict, Unclear: true, Message: "the relay has no record of this request"}
		}
		w.start()
		w.launch("go")
		w.untilState(bridge.CommandUncertain)
		time.Sleep(72 * time.Hour)
		if n := looked.Load(); n < 10 || n > 49*60 {
			t.Errorf("looked %d times", n)
		}
		before := looked.Load()
		time.Sleep(24 * time.Hour)
		if m := w.action(); m.State != bridge.CommandUncertain || asked.Load() != 1 || looked.Load() != before {
			t.Errorf("%s, asked %d times, looked %d times more", m.State, asked.Load(), looked.Load()-before)
		}
	})
}

// A command for a relay that is away says so, and ends as its rule says.
func TestWaitingForARelay(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		l := newLine()
		l.set(true)
		w.slow(l, 0)
		w.start()
		w.launch("go")
		w.until("it waits", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandGranted})
			return err == nil && len(all) == 1 && all[0].Code == bridge.CodeRelayAway
		})
		time.Sleep(30 * time.Minute)
		w.look(func(tx *bridge.Scene) error {
			all, err := tx.Commands(bridge.CommandFilter{})
			for _, m := range all {
				if m.State != bridge.CommandSending && m.Shown() != "waiting for relay laptop" {
					t.Errorf("%s is %s: %q", m.Canonical, m.State, m.Shown())
				}
			}
			return err
		})
		time.Sleep(31 * time.Minute)
		w.resting()
		w.look(func(tx *bridge.Scene) error {
			all, err := tx.Commands(bridge.CommandFilter{})
			for _, m := range all {
				if m.State != bridge.CommandReported || m.Reason != "relay laptop was not connected for 1h, so the action did not run" {
					t.Errorf("%s is %s: %q", m.Canonical, m.State, m.Reason)
				}
			}
			return err
		})
		if ran := w.relay.Log(); len(ran) != 0 {
			t.Errorf("ran %q", ran)
		}
	})
}

// A person's words about an action: it ran, with and without an exit code, and it did not.
func TestResolveAction(t *testing.T) {
	t.Parallel()
	three := 3
	for _, tt := range []struct {
		word  engine.Word
		state bridge.CommandState
		exit  int
		heard string
	}{
		{engine.Word{Ran: true}, bridge.CommandFinished, bridge.NoExitCode, "it ran after all; its exit code and its output are unknown"},
		{engine.Word{Ran: true, ExitCode: &three}, bridge.CommandFinished, 3, "it ran after all, exit code 3"},
		{engine.Word{}, bridge.CommandFailed, 0, "it did not run after all"},
	} {
		virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
			w.relay.Fail = lostTrack
			w.start()
			w.launch("go")
			w.untilState(bridge.CommandUncertain)
			m, err := w.engine.Resolve(t.Context(), w.action().ID, tt.word)
			if err != nil || m.State != tt.state || tt.word.Ran && m.Outcome.ExitCode != tt.exit {
				t.Fatalf("%+v: %s, %+v, %v", tt.word, m.State, m.Outcome, err)
			}
			w.resting()
			wants(t, strings.Join(w.sent(boss), "\n"), tt.heard)
		})
	}
}

// lostTrack is a relay that never took a request and does not know it.
func lostTrack(point, _ string) error {
	if point == "look" {
		return nil
	}
	return &bridge.Error{Kind: bridge.Conflict, Unclear: true, Message: "the relay has no record of this request"}
}

// What the journal knows counts for more than a person's word; without a word the journal alone decides.
func TestResolveAsksTheJournalFirst(t *testing.T) {
	t.Parallel()
	for _, word := range []engine.Word{{}, {Ran: true}, {Journal: true}} {
		virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
			var there atomic.Bool
			w.relay.Fail = func(point, _ string) error {
				switch {
				case there.Load(), point == "before":
					return nil
				case point == "look":
					return bridge.Errorf(bridge.Unavailable, "away")
				}
				return &bridge.Error{Kind: bridge.Conflict, Unclear: true, Message: "interrupted"}
			}
			w.start()
			w.launch("go")
			w.untilState(bridge.CommandUncertain)
			if _, err := w.engine.Resolve(t.Context(), w.action().ID, engine.Word{Journal: true}); bridge.KindOf(err) != bridge.Unavailable {
				t.Errorf("while the relay is away: %v", err)
			}
			synctest.Wait() // the engine's own look is over, too
			there.Store(true)
			m, err := w.engine.Resolve(t.Context(), w.action().ID, word)
			if err != nil || m.State != bridge.CommandFinished || m.Outcome == nil || m.Outcome.ExitCode != 0 || m.Outcome.Stdout == "" {
				t.Errorf("%+v: %s, %+v, %v", word, m.State, m.Outcome, err)
			}
		})
	}
}

// A journal's answer after a person's word changes no state. It is told when it contradicts the word, and only then.
func TestJournalAfterAWord(t *testing.T) {
	t.Parallel()
	zero, three := 0, 3
	for _, tt := range []struct {
		word      engine.Word
		corrected bool
	}{
		{engine.Word{Ran: true, Unchecked: true}, false},
		{engine.Word{Ran: true, ExitCode: &zero, Unchecked: true}, false},
		{engine.Word{Ran: true, ExitCode: &three, Unchecked: true}, true},
		{engine.Word{Unchecked: true}, true},
	} {
		virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
			l := newLine()
			w.slow(l, 15*time.Second)
			w.start()
			w.launch("go")
			w.untilState(bridge.CommandSending)
			synctest.Wait()
			l.set(true)
			w.untilState(bridge.CommandUncertain)
			m, err := w.engine.Resolve(t.Context(), w.action().ID, tt.word)
			if err != nil {
				t.Fatal(err)
			}
			said := m.Outcome
			l.set(false)
			w.connects()
			w.until("the journal's answer", func(tx *bridge.Scene) bool {
				events, err := tx.Events(0, 1000)
				for _, e := range events {
					if e.Kind == bridge.EventJournal {
						return true
					}
				}
				return err != nil
			})
			w.resting()
			time.Sleep(5 * time.Minute)
			heard := strings.Join(w.sent(boss), "\n")
			if got := strings.Count(heard, "correction: executed"); got > 1 || (got == 1) != tt.corrected {
				t.Errorf("%+v: told %d corrections in:\n%s", tt.word, got, heard)
			}
			if m := w.action(); (m.Outcome == nil) != (said == nil) || m.State != bridge.CommandReported {
				t.Errorf("%+v: %s, %+v", tt.word, m.State, m.Outcome)
			}
		})
	}
}

// A link that is cut again and again, for seconds up to minutes: all that ran ends as finished, and is told to its agent once.
func TestFlappingLink(t *testing.T) {
	t.Parallel()
	const agents = 40
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		l := newLine()
		w.slow(l, 15*time.Second)
		w.start()
		for i := range agents {
			w.launchNamed(fmt.Sprint("main", i), "go")
		}
		over, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				// Open for 3 to 27 s, cut for 1 to 100 s.
				for _, step := range []struct {
					cut  bool
					span time.Duration
				}{{false, time.Duration(3+i*7%25) * time.Second}, {true, time.Duration(1+i*37%100) * time.Second}} {
					if l.set(step.cut); !step.cut {
						w.connects()
					}
					select {
					case <-over:
						l.set(false)
						w.connects()
						return
					case <-time.After(step.span):
					}
				}
			}
		}()
		w.until("all ran", func(*bridge.Scene) bool { return len(w.relay.Log()) == agents })
		close(over)
		<-ended
		w.resting()
		time.Sleep(2 * time.Minute)
		w.look(func(tx *bridge.Scene) error {
			all, err := tx.Commands(bridge.CommandFilter{Limit: 2 * agents})
			for _, m := range all {
				if m.State != bridge.CommandReported || m.Outcome == nil || m.Outcome.Status != "executed" {
					t.Errorf("command %s is %s: %s", m.ID, m.State, m.Reason)
				}
			}
			return err
		})
		uncertain := len(w.timeline(bridge.EventUncertain))
		heard := strings.Join(w.sent(boss), "\n")
		if n := strings.Count(heard, "executed, exit code 0"); n != agents || uncertain == 0 {
			t.Errorf("%d outcomes told to %d agents; %d commands were uncertain for a while", n, agents, uncertain)
		}
	})
}
