package turns_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/wire"
)

// An agent that is killed in the middle of a turn goes on with it by itself, three times at most. It reads the turn once.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sessions, kills string
		// first is true for the first turn of its session.
		first bool
		cause wire.TurnCause
		// said counts the words of the turn, continued the messages to go on with it.
		said, continued int
		reason          string
	}{
		"killed once":            {"", "1", false, wire.TurnAnswered, 1, 1, ""},
		"in its first turn":      {"", "1", true, wire.TurnAnswered, 1, 1, ""},
		"with a late history":    {"late", "1", true, wire.TurnAnswered, 1, 1, ""},
		"killed three times":     {"", "3", false, wire.TurnAnswered, 1, 3, ""},
		"killed each time":       {"", "9", false, wire.TurnCrashed, 1, 3, "ended by a signal"},
		"one that cannot tell":   {"resume", "1", false, wire.TurnCrashed, 1, 0, "cannot tell how much of the turn it has"},
		"one that resumes never": {"none", "1", false, wire.TurnSessionGone, 1, 0, "cannot continue a session of an earlier process"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {env: map[string]string{"ACPAGENT_SESSIONS": c.sessions}}}, nil)
			if !c.first {
				w.answers(turn("ada", "t0", "do: say first"), "first")
			}
			end := w.run(turn("ada", "t1", "do: kill "+c.kills, "do: say end"))
			if end.Cause != c.cause || end.Cause == wire.TurnAnswered && end.Text != "end" || end.Unclear || !strings.Contains(end.Error, c.reason) {
				t.Errorf("%+v", end)
			}
			if said, continued := w.said("do: kill"), w.said("[bridge t1] [continue t1."); said != c.said || continued != c.continued {
				t.Errorf("said %d times, asked %d times to continue", said, continued)
			}
			if n := strings.Count(end.Evidence, "ended in the middle of the turn"); n != max(1, c.continued) {
				t.Errorf("noticed %d times: %s", n, end.Evidence)
			}
			w.answers(turn("ada", "t2", "do: say on"), "on")
		})
	}
}

// A relay that ends in the middle of a turn leaves the turn open. The next one goes on with it, whether the bridge asks for the turn again or looks
// it up.
func TestGoesOnAfterTheRelay(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"asked again", "looked up", "half an answer", "cannot tell"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{}
			if way == "cannot tell" {
				env["ACPAGENT_SESSIONS"] = "resume"
			}
			w := newWorld(t, map[string]entry{"fake": {env: env}}, nil)
			t1 := turn("ada", "t1", "do: hang", "do: say end")
			ctx, cut := context.WithCancelCause(t.Context())
			ended := make(chan wire.TurnEnded, 1)
			go func() { ended <- w.RunTurn(ctx, t1) }()
			w.eventually("the agent has the turn", func() bool { return w.said("[bridge t1]") == 1 })
			cut(wire.ErrEnding)
			if end := <-ended; end != (wire.TurnEnded{}) {
				t.Errorf("the relay that ended said %+v", end)
			}
			w.close()
			if way == "half an answer" {
				w.agentKeeps("Let me look first.")
			}
			w.open()
			if way == "cannot tell" {
				if end := w.run(t1); end.Cause != wire.TurnCrashed || end.Unclear || !strings.Contains(end.Error, "the relay ended in the middle of the turn; the agent cannot tell") {
					t.Errorf("%+v", end)
				}
				return
			}
			if way == "looked up" {
				look := t1
				look.Text, look.Home, look.BodyHash = "", wire.Home{}, "body of a look-up"
				noted := false
				w.eventually("the turn has an end", func() bool {
					found := w.LookupTurn(look)
					noted = noted || strings.Contains(found.Note, "continues the turn")
					return found.Known == wire.TurnKnownEnded
				})
			}
			end := w.answers(t1, "end")
			if !strings.Contains(end.Evidence, "the relay was stopped in the middle of the turn") {
				t.Errorf("nothing is noticed: %s", end.Evidence)
			}
			if said, continued := w.said("do: hang"), w.said("[bridge t1] [continue t1.1]"); said != 1 || continued != 1 {
				t.Errorf("said %d times, asked %d times to continue", said, continued)
			}
		})
	}
}

// agentKeeps adds an answer to the session files of agent fake, as if it had said so before it was killed.
func (w *world) agentKeeps(text string) {
	w.Helper()
	list, err := filepath.Glob(filepath.Join(w.config.AgentHome("fake"), "sessions", "*.jsonl"))
	w.must(err)
	for _, path := range list {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
		w.must(err)
		_, err = fmt.Fprintf(file, "{\"role\":\"agent\",\"text\":%q}\n", text)
		w.must(errors.Join(err, file.Close()))
	}
}

// A relay that is stopped in order breaks nothing: however often that happens, the turn goes on.
func TestStoppedAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	orders := slices.Repeat([]string{"do: hang"}, 5)
	t1 := turn("ada", "t1", append(orders, "do: say end")...)
	for n := range orders {
		ctx, cut := context.WithCancelCause(t.Context())
		ended := make(chan wire.TurnEnded, 1)
		go func() { ended <- w.RunTurn(ctx, t1) }()
		w.eventually("the agent has the turn", func() bool { return w.said("[bridge t1]") == n+1 })
		cut(wire.ErrEnding)
		<-ended
		w.again()
	}
	w.answers(t1, "end")
	if n := w.said("do: hang"); n != 1 {
		t.Errorf("the words were said %d times", n)
	}
}

// The kill switch ends a turn that goes on after a restart as it ends any other, and nothing goes on when it is off again.
func TestSwitchEndsWhatGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	t1 := turn("ada", "t1", "do: hang", "do: hang", "do: say end")
	ctx, cut := context.WithCancelCause(t.Context())
	ended := make(chan wire.TurnEnded, 1)
	go func() { ended <- w.RunTurn(ctx, t1) }()
	w.eventually("the agent has the turn", func() bool { return w.said("[bridge t1]") == 1 })
	cut(wire.ErrEnding)
	<-ended
	w.again()
	look := t1
	look.Text, look.Home = "", wire.Home{}
	w.eventually("the turn goes on", func() bool { return w.LookupTurn(look).State == wire.TurnWorking })
	w.Halt()
	w.Proceed()
	found := w.LookupTurn(look)
	if found.Known != wire.TurnKnownEnded || found.Ended.Cause != wire.TurnStopped {
		t.Errorf("%+v", found)
	}
	if n := w.said("[continue "); n != 1 {
		t.Errorf("asked %d times to continue", n)
	}
}

// A process that does not open its session has got nothing. Another one is started, and a person hears of it after the last.
func TestStartsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start  string
		more   string
		starts int
		cause  wire.TurnCause
		reason string
	}{
		"ends once":   {"exit once", "", 2, wire.TurnAnswered, ""},
		"ends always": {"exit", "", 4, wire.TurnCrashed, "exit code 3"},
		"is silent":   {"silent", "start_timeout: 50ms", 4, wire.TurnHung, "did not start in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]entry{"fake": {env: map[string]string{"ACPAGENT_START": c.start}, more: c.more}}, nil)
			end := w.run(turn("ada", "t1", "do: say Hello"))
			if end.Cause != c.cause || !strings.Contains(end.Error, c.reason) {
				t.Errorf("%+v", end)
			}
			if n := w.count(acpagent.Started); n != c.starts && c.start != "silent" { // a process may end before it wrote its log
				t.Errorf("%d processes", n)
			}
		})
	}
}
