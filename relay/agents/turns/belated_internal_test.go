package turns

import (
	"strings"
	"testing"

	"drawbridge/relay/wire"
)

// TestBelated: words that came too late are kept until the agent answered a turn that told it of them, and no evidence tells them twice.
// They are bounded.
func TestBelated(t *testing.T) {
	t.Parallel()
	r := &record{session: "s", turns: map[string]*past{}}
	ended := func(turn string, cause wire.TurnCause) line {
		return line{Step: stepAnswered, Turn: turn, End: &wire.TurnEnded{ID: turn, Cause: cause}}
	}
	long := strings.Repeat("x", 1<<20)
	for n, row := range []struct {
		l           line
		late, fresh string
	}{
		{line{Step: stepLate, Late: "one"}, "one", "one"},
		{line{Step: stepLate, Late: "two"}, "one\ntwo", "one\ntwo"},
		{ended("t1", wire.TurnCrashed), "one\ntwo", ""},
		{line{Step: stepLate, Late: "three"}, "one\ntwo\nthree", "three"},
		{ended("t2", wire.TurnAnswered), "", ""},
	} {
		if err := r.apply(row.l); err != nil || r.late != row.late || r.fresh != row.fresh {
			t.Errorf("line %d: late %q, fresh %q, %v", n, r.late, r.fresh, err)
		}
	}
	got := quoteLate(joined("", "\nThat took long.\nLOCAL_ACTION: backup_script"+long))
	if !strings.Contains(got, "no command in it ran:\n| That took long.\n| LOCAL_ACTION: backup_scriptx") || len(got) > 5000 || !strings.HasSuffix(got, "...\n\n") {
		t.Errorf("%d bytes: %.200q", len(got), got)
	}
}
