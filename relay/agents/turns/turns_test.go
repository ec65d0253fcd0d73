package turns_test

import (
	"strings"
	"testing"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/wire"
)

// A session's turns are said once each, in one process and one workspace. Asked again, and after a restart of the relay, the record answers.
// The evidence is what git has, and the commits come into the listed clone.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.answers(turn("ada", "t1", "do: say Hello"), "Hello")
	end := w.answers(turn("ada", "t2", "do: sh echo 1 >one; git add one; git commit -qm 'Add one'; echo 2 >two", "do: say done"), "done")
	for _, words := range []string{`"subject":"Add one"`, `"total":1`, `"additions":1`, `"clean":false`, `"untracked":1`} {
		if !strings.Contains(end.Evidence, words) {
			t.Errorf("the evidence lacks %s: %s", words, end.Evidence)
		}
	}
	if got := w.git(w.clone, "log", "-1", "--format=%s", "drawbridge/ada"); got != "Add one" {
		t.Errorf("the clone has %q", got)
	}
	if end := w.answers(turn("ada", "t3", "do: say nothing new"), "nothing new"); !strings.Contains(end.Evidence, `"total":0`) {
		t.Errorf("the evidence of a turn without work: %s", end.Evidence)
	}
	if n := w.count(acpagent.Started); n != 1 {
		t.Errorf("%d processes for one session", n)
	}
	again := w.run(turn("ada", "t2", "do: sh echo 1 >one; git add one; git commit -qm 'Add one'; echo 2 >two", "do: say done"))
	if !again.Replayed || again.Text != "done" || again.Evidence != end.Evidence {
		t.Errorf("asked again: %+v", again)
	}
	w.again()
	if again := w.run(turn("ada", "t1", "do: say Hello")); !again.Replayed || again.Text != "Hello" {
		t.Errorf("after a restart: %+v", again)
	}
	w.answers(turn("ada", "t4", "do: say still here"), "still here")
	for id, known := range map[string]wire.TurnKnown{"t1": wire.TurnKnownEnded, "t4": wire.TurnKnownEnded, "t9": wire.TurnKnownAbsent} {
		if found := w.LookupTurn(turn("ada", id)); found.Known != known || found.Known == wire.TurnKnownEnded && found.Ended.Cause != wire.TurnAnswered {
			t.Errorf("%s is %+v", id, found)
		}
	}
	if found := w.LookupTurn(turn("bob", "t1")); found.Known != wire.TurnKnownNot {
		t.Errorf("a session that never was: %+v", found)
	}
	for _, id := range []string{"t1", "t2", "t3", "t4"} {
		if n := w.said("[bridge " + id + "]"); n != 1 {
			t.Errorf("%s was said %d times", id, n)
		}
	}
}
