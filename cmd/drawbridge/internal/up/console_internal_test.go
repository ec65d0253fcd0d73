package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
)

// fakeDesk has the open questions of a test.
type fakeDesk struct {
	mu      sync.Mutex
	all     []question
	decided []string
	away    bool
	// gate holds an answer until it is closed, nil for none.
	gate chan struct{}
}

func (d *fakeDesk) open(context.Context) ([]question, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, errors.New("away")
	}
	return slices.Clone(d.all), nil
}

func (d *fakeDesk) decide(_ context.Context, q question, yes bool) error {
	if d.gate != nil {
		<-d.gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return errors.New("away")
	}
	d.decided = append(d.decided, fmt.Sprint(q.id, " ", yes))
	d.all = slices.DeleteFunc(d.all, func(o question) bool { return o.id == q.id })
	return nil
}

func (d *fakeDesk) by(q question) string { return "approve " + q.id }

func (d *fakeDesk) ask(ids ...string) {
	d.set(func() {
		for _, id := range ids {
			d.all = append(d.all, question{id: id, key: key(id), agent: "agent-" + id + " (claude)", text: "may it " + id + "?\n", desk: d})
		}
	})
}

// key is that of a question at the bridge, or at the machine.
func key(id string) string {
	if strings.HasPrefix(id, "cmd_") {
		return id
	}
	return string(bridge.PermissionCommand("laptop", id))
}

func (d *fakeDesk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// buffer is an output that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// takes returns what was written since the last call.
func (b *buffer) takes() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

// The console shows every agent's questions with numbers, each once, and takes the answers in any order. No question holds another one.
func TestConsole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, typing := io.Pipe()
		defer typing.Close()
		out, machine, atBridge := &buffer{}, &fakeDesk{}, &fakeDesk{}
		clock, ticks := time.Now(), make(chan time.Time)
		line := &terminal{out: out, now: func() time.Time { return clock }, ended: make(chan struct{}), away: true}
		line.edits(struct {
			io.Reader
			io.Writer
		}{keys, out})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		spoken := &fakeTurns{}
		var ctrlC func() bool
		u := &upping{relayID: "laptop", screen: &screen{out: out, line: line}, own: &ownDesk{},
			Options: Options{End: stop, Shown: func(s string) string { return s }, TakeInterrupts: func(take func() bool) func() { ctrlC = take; return func() {} }}}
		c := &console{u: u, over: map[string]bool{}, heard: map[desk][]question{}, desks: []desk{machine, atBridge, u.own}, lines: line.lines(ctx), focus: "app",
			turns: spoken, interrupts: make(chan struct{}, 1)}
		defer u.TakeInterrupts(c.interrupted)()
		go func() { _ = c.answers(ctx, ticks) }()
		says := func(want ...string) {
			t.Helper()
			for range 2 { // what a line or a question changes is shown at the next look at the latest
				synctest.Wait()
				clock = clock.Add(seenAfter)
				ticks <- clock
			}
			synctest.Wait()
			got := out.takes()
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in %q", w, got)
				}
			}
			if len(want) == 0 && strings.TrimSpace(got) != "" {
				t.Errorf("it says %q", got)
			}
		}
		types := func(text string) { fmt.Fprint(typing, text+"\r") }

		says("app> ")
		machine.ask("one")
		same := string(bridge.PermissionCommand("laptop", "one"))
		atBridge.ask(same, "cmd_held")
		says("Question 1, agent agent-one (claude):\r\nmay it one?\r\n", "\a", "Question 2, agent agent-cmd_held (claude):\r\n", "Question 1, approve one, 1 more? [y/N] ")
		u.say("another agent writes")
		says("drawbridge: another agent writes\r\nQuestion 1, approve one, 1 more? [y/N] ")
		types("2 yes")
		says("Question 1, approve one? [y/N] ")
		types("9 y")
		says("no question with the number 9 is open", "Question 1, approve one? [y/N] ")
		types("y n")
		says(`"y n" is not an answer`, "Question 1, approve one? [y/N] ")
		types("1")
		says("type y or n for question 1, such as: y 1", "Question 1, approve one? [y/N] ")
		types("what")
		says(`"what" is not an answer; type y or n`, "Question 1, approve one? [y/N] ")
		machine.set(func() { machine.away = true })
		says()
		machine.set(func() { machine.away = false })
		types("")
		says("app> ") // a no; the bridge lists the question for a moment longer, and it is not shown again
		atBridge.set(func() { atBridge.all = nil })
		says()
		machine.ask("three", "four")
		says("Question 3, approve three, 1 more? [y/N] ")
		fmt.Fprint(typing, "y")
		says("y")
		machine.set(func() { machine.all = machine.all[1:] })
		says("question 3 (three) is not open any more", "Question 4, approve four? [y/N] y")
		types("")
		says("the question changed while you typed; type y or n again")
		types("y")
		says("app> ")
		if got, want := fmt.Sprint(machine.decided, atBridge.decided), "[one false four true] [cmd_held true]"; got != want {
			t.Errorf("decided %s, want %s", got, want)
		}

		// What is typed stays below what others write, and goes to the agent in focus.
		fmt.Fprint(typing, "look at the")
		says("look at the")
		u.say("an agent answers")
		says("drawbridge: an agent answers\r\napp> look at the")
		types(" tests")
		says("agent app gets your words as its next turn (trn_1)")
		types("y")
		says("no question is open")
		types("@other")
		says("other> ")
		machine.ask("five")
		says("Question 5, approve five? [y/N] ")
		types("what are you doing")
		says("agent other gets your words as its next turn (trn_1)")
		types("@nobody hello")
		says("agent nobody did not get your words: no such agent")
		types("@")
		says("name the agent before your words")
		if got, want := strings.Join(spoken.said, "; "), "app: look at the tests; other: what are you doing; nobody: hello"; got != want {
			t.Errorf("said %s, want %s", got, want)
		}

		// What was typed before a question came answers it in no case: not while the answer before takes long, and not in a paste.
		machine.gate = make(chan struct{})
		types("y")
		types("y")
		types("y")
		machine.ask("six")
		close(machine.gate)
		says("Question 6, approve six? [y/N] ", "the question changed while you typed")
		fmt.Fprint(typing, "\x1b[200~y\x1b[201~")
		types("")
		says("the question changed while you typed")
		fmt.Fprint(typing, "\x1b[200~y\r\ry\x1b[201~")
		types("")
		says("agent other gets your words")
		types("y")
		says("other> ")
		if got, want := fmt.Sprint(machine.decided), "[one false four true five true six true]"; got != want {
			t.Errorf("decided %s, want %s", got, want)
		}
		types(strings.Repeat("w", 5000))
		says("the line is too long and was not sent")
		if got, want := spoken.said[len(spoken.said)-1], "other: y\n\ny"; got != want {
			t.Errorf("said %q, want %q", got, want)
		}

		// Ctrl-C stops the turn of the agent in the prompt, and ends up without one, or while the turn is being stopped.
		spoken.begin("other", "trn_2")
		spoken.begin("agent-seven", "trn_3")
		interrupt := func(takes bool) {
			t.Helper()
			if got := ctrlC(); got != takes {
				t.Errorf("Ctrl-C is taken: %v", got)
			}
		}
		interrupt(true)
		says("stopping the turn of agent other; Ctrl-C again ends drawbridge up")
		interrupt(false)
		spoken.begin("other", "")
		says()
		machine.ask("seven")
		says("Question 7")
		interrupt(true)
		says("stopping the turn of agent agent-seven")
		if got := fmt.Sprint(spoken.stopped); got != "[trn_2 trn_3]" {
			t.Errorf("stopped %s", got)
		}
		spoken.begin("agent-seven", "trn_fast")
		says()
		interrupt(true)
		says("the turn of agent agent-seven was not stopped: it has ended")
		u.screen.lent = true // to a login
		interrupt(false)
		u.screen.lent = false
		if ctx.Err() != nil {
			t.Error("it ended")
		}
		answer := make(chan bool, 1)
		if err := u.own.ask(question{id: "the login", key: "login", agent: "app", text: "log in?"}, func(yes bool) error { answer <- yes; return nil }); err != nil {
			t.Error(err)
		}
		says("Question 8, agent app:\r\nlog in?")
		fmt.Fprint(typing, "\x04")
		says("answer question 7 with: approve seven")
		if yes := <-answer; yes {
			t.Error("nobody who types is a yes")
		}
		machine.ask("eight")
		says("answer it with: approve eight")
		interrupt(false) // nobody can type
		stop()
		synctest.Wait()
	})
}

// Without a turn that could be stopped, Ctrl-C ends up.
func TestInterruptAtRest(t *testing.T) {
	t.Parallel()
	for name, spoken := range map[string]*fakeTurns{"no agent": nil, "no turn": {}, "no bridge": {away: true}} {
		ended := false
		c := &console{u: &upping{Options: Options{End: func() { ended = true }}}, turns: spoken}
		if spoken != nil {
			c.focus = "app"
		}
		if c.halt(t.Context()); !ended {
			t.Errorf("%s: it goes on", name)
		}
	}
}

// fakeTurns has the current turns of a test.
type fakeTurns struct {
	mu            sync.Mutex // guards the fields below
	said, stopped []string
	open          map[string]string
	away          bool
}

// begin gives an agent a turn, or takes it away.
func (f *fakeTurns) begin(agent, turn string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]string{}
	}
	f.open[agent] = turn
}

func (f *fakeTurns) say(_ context.Context, agent, text string) (string, error) {
	f.said = append(f.said, agent+": "+text)
	return "trn_1", map[string]error{"nobody": errors.New("no such agent")}[agent]
}

func (f *fakeTurns) current(_ context.Context, agent string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return "", bridge.Errorf(bridge.Unavailable, "the bridge does not answer")
	}
	return f.open[agent], nil
}

func (f *fakeTurns) stop(_ context.Context, turn string) error {
	if turn == "trn_fast" {
		return bridge.Errorf(bridge.Conflict, "it has ended")
	}
	f.stopped = append(f.stopped, turn)
	return nil
}

func (f *fakeTurns) over(_ context.Context, turn string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, open := range f.open {
		if open == turn {
			return false, nil
		}
	}
	return true, nil
}

// In front of the prompt stands what the agents do, in at most half a line. A question takes its place. A status that changes counts as written, so that
// no further line says the same.
func TestStatusLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, typing := io.Pipe()
		defer typing.Close()
		out, machine := &buffer{}, &fakeDesk{}
		line := &terminal{out: out, now: time.Now, ended: make(chan struct{}), away: true}
		line.edits(struct {
			io.Reader
			io.Writer
		}{keys, out})
		u := &upping{screen: &screen{out: out, line: line}, own: &ownDesk{}, Options: Options{Shown: func(s string) string { return s }}}
		var all []string
		c := &console{u: u, over: map[string]bool{}, heard: map[desk][]question{}, desks: []desk{machine}, lines: line.lines(t.Context()), focus: "app",
			doing: func(time.Time) []string { return slices.Clone(all) }}
		synctest.Wait()
		out.takes()
		shows := func(want string, doing ...string) {
			t.Helper()
			u.screen.last = time.Time{}
			all = doing
			c.look(t.Context())
			got := out.takes()
			if !strings.HasSuffix(got, want) || want == "" && got != "" {
				t.Errorf("%q shows %q, want %q", doing, got, want)
			}
			if written := !u.screen.wrote().IsZero(); written != (want != "") {
				t.Errorf("%q counts as written: %t", doing, written)
			}
		}
		shows("app> ")
		shows("")
		shows("[works (1s)] app> ", "app works (1s)")
		shows("", "app works (1s)")
		shows("[works (2s); a-kid starts (0s)] app> ", "a-kid starts (0s)", "app works (2s)")
		shows("[works (2s); kid starts (0s); 2 more] app> ", "app works (2s)", "kid starts (0s)", "other says nothing (1m)", "z works (1s)")
		machine.ask("one")
		shows("Question 1, approve one? [y/N] ", "app waits for an answer (1s)")
		shows("", "app waits for an answer (2s)")
	})
}
