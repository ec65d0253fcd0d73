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
	d.mu.Lock()
	defer d.mu.Unlock()
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
		u := &upping{name: "laptop", screen: &screen{out: out, rewrites: true}, Options: Options{Shown: func(s string) string { return s }}}
		c := &console{u: u, over: map[string]bool{}, keys: &keyboard{in: keys}, desks: []desk{machine, atBridge}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = c.run(ctx) }()
		says := func(want ...string) {
			t.Helper()
			time.Sleep(2 * lookEvery)
			synctest.Wait()
			got := out.takes()
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in %q", w, got)
				}
			}
			if len(want) == 0 && got != "" {
				t.Errorf("it says %q", got)
			}
		}
		types := func(text string) { fmt.Fprintln(typing, text) }

		machine.ask("one")
		same := string(bridge.PermissionCommand("laptop", "one"))
		atBridge.ask(same, "cmd_held")
		says("Question 1, agent agent-one (claude):\nmay it one?\n", "Question 2, agent agent-cmd_held (claude):\n", "Question 1, approve one, 1 more? [y/N] ")
		u.say("another agent writes")
		says("\r\x1b[Kdrawbridge: another agent writes\nQuestion 1, approve one, 1 more? [y/N] ")
		types("2 yes")
		says("Question 1, approve one? [y/N] ")
		types("9 y")
		says("no question with the number 9 is open", "Question 1, approve one? [y/N] ")
		types("y n")
		says(`"y n" is no answer`, "Question 1, approve one? [y/N] ")
		types("1")
		says("say y or n for question 1: y 1", "Question 1, approve one? [y/N] ")
		types("what")
		says(`"what" is no answer; type y or n`, "Question 1, approve one? [y/N] ")
		machine.set(func() { machine.away = true })
		says()
		machine.set(func() { machine.away = false })
		types("")
		says() // a no; the bridge lists the question for a moment longer, and it is not shown again
		atBridge.set(func() { atBridge.all = nil })
		says()
		machine.ask("three", "four")
		says("Question 3, approve three, 1 more? [y/N] ")
		machine.set(func() { machine.all = machine.all[1:] })
		says("question 3 (three) is not open any more", "Question 4, approve four? [y/N] ")
		types("y")
		says()
		if got, want := fmt.Sprint(machine.decided, atBridge.decided), "[one false four true] [cmd_held true]"; got != want {
			t.Errorf("decided %s, want %s", got, want)
		}
		machine.ask("five")
		says("Question 5, approve five? [y/N] ")
		typing.Close()
		says("answer question 5 with: approve five")
		stop()
		synctest.Wait()
	})
}
