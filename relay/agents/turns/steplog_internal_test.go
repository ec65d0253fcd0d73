package turns

import (
	"strings"
	"testing"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/wire"
)

// TestStepLog: the log keeps a bounded number of steps, says when some are missing, hides secrets, and numbers on when the clock does not.
func TestStepLog(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_900_000_000, 0)
	j := newStepLog(func() time.Time { return start }, func(s string) string { return strings.ReplaceAll(s, "secret", "[hidden]") })
	tell := j.teller("s", "/w")
	tell(agents.Step{Kind: agents.StepSays, Text: "outside of a turn"})
	end := j.begin("s", "t")
	say := func(n int) {
		for range n {
			tell(agents.Step{Kind: agents.StepSays, Text: "a secret"})
		}
	}
	say(3)
	first := j.since("s", 0)
	if len(first.Steps) != 3 || first.Missed || first.Turn != "t" || first.Steps[0].Text != "a [hidden]" || first.Steps[0].At != start.UnixMilli() {
		t.Fatalf("%+v", first)
	}
	after := first.Steps[2].Seq
	if l := j.since("s", after); len(l.Steps) != 0 || l.Missed {
		t.Errorf("after the last: %+v", l)
	}
	if l := j.since("s", after-1); len(l.Steps) != 1 || l.Steps[0].Seq != after {
		t.Errorf("after the last but one: %+v", l)
	}
	say(wire.MaxSteps + 1)
	if l := j.since("s", after); len(l.Steps) != wire.MaxSteps || !l.Missed {
		t.Errorf("%d steps, missed %t", len(l.Steps), l.Missed)
	}
	newest := j.last
	j.begin("other", "t2")
	other := j.teller("other", "/w")
	for range maxSteps {
		other(agents.Step{Kind: agents.StepSays, Text: "a step"})
	}
	if l := j.since("s", after); len(l.Steps) != 0 || !l.Missed {
		t.Errorf("forgotten steps: %+v", l)
	}
	if l := j.since("s", newest); len(l.Steps) != 0 || l.Missed {
		t.Errorf("steps of others were forgotten: %+v", l)
	}
	if l := j.since("other", newest); len(l.Steps) != wire.MaxSteps || !l.Missed || len(j.steps) > maxSteps {
		t.Errorf("%d of %d steps", len(l.Steps), len(j.steps))
	}
	if l := j.since("other", j.last+1); len(l.Steps) != wire.MaxSteps {
		t.Errorf("after a number of another relay: %d steps", len(l.Steps))
	}
	tell(agents.Step{Kind: agents.StepUses, Tool: "execute", Text: strings.Repeat("x", maxStep-3) + " secret"})
	if l := j.since("s", newest); len(l.Steps) != 1 || !strings.HasSuffix(l.Steps[0].Text, "x [h...") {
		t.Errorf("a secret where the text is cut: %+v", l)
	}
	end()
	tell(agents.Step{Kind: agents.StepSays, Text: "after the turn"})
	if l := j.since("s", newest); l.Turn != "" || len(l.Steps) != 1 {
		t.Errorf("after the turn: %+v", l)
	}
}
