package turns_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/wire"
)

// newest is the newest process of agent fake.
func (w *world) newest() (pid int) {
	w.Helper()
	for _, l := range w.log("fake") {
		if l.Event == acpagent.Started {
			pid = l.PID
		}
	}
	return pid
}

// freeze stops a process, so that it reads nothing any more, and waits until all of its threads stand still.
func (w *world) freeze(pid int) {
	w.Helper()
	w.must(syscall.Kill(pid, syscall.SIGSTOP))
	w.eventually("the agent stands still", func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		w.must(err)
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return len(tasks) > 0
	})
}

// A process that was killed between two turns may not be noticed before the next turn goes to it. It leaves the turn unread, and a new process
// of the same session gets it, once. A turn that the process has read goes on.
func TestKilledBeforeItReadTheTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for n := range 2 {
		w.answers(turn("ada", fmt.Sprintf("t%d", n), "do: say first"), "first")
		pid, id := w.newest(), fmt.Sprintf("unread%d", n)
		w.freeze(pid)
		ended := w.background(turn("ada", id, "do: say "+id))
		w.eventually("the relay says the turn", func() bool {
			record, err := os.ReadFile(w.recordFile())
			return err == nil && strings.Contains(string(record), `"turn":"`+id+`"`)
		})
		w.must(syscall.Kill(pid, syscall.SIGKILL))
		if end := <-ended; end.Cause != wire.TurnAnswered || end.Text != id {
			t.Errorf("%+v", end)
		}
		if n := w.said("[bridge " + id + "]"); n != 1 {
			t.Errorf("the turn was said %d times", n)
		}
		if w.newest() == pid {
			t.Error("no new process has the session")
		}
	}
	ended := w.background(turn("ada", "read", "do: hang"))
	w.eventually("the agent has the turn", func() bool { return w.said("[bridge read]") == 1 })
	w.killAgent()
	if end := <-ended; end.Cause != wire.TurnAnswered || w.said("[bridge read]") != 2 || w.said("[bridge read] [continue read.1]") != 1 {
		t.Errorf("%+v", end)
	}
}
