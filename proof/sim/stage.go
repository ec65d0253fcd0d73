package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"drawbridge/proof/memstore"
	"drawbridge/proof/sim/timeline"
)

// epoch is when every play begins.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// stage is what all parts of a play share: time, dice, faults, the store and the
// record. It judges nothing. The parts read and change its fields. Make one with
// newStage. Not for concurrent use.
type stage struct {
	// ctx ends the play early.
	ctx context.Context //nolint:containedctx // a play lives exactly as long as the Run that got ctx
	// rng are the dice.
	rng *rand.Rand
	// fate is which faults strike, and how often.
	fate fate
	// start is when the play began; now is the virtual time, which no clock of a machine has to tell.
	start, now time.Time
	// agenda is what happens by itself.
	agenda timeline.Agenda
	// disk is where all replicas of the bridge keep their store.
	disk *memstore.Disk
	// restored is true once the store was put back to an older copy.
	restored bool
	// purse is the budget of trees, by its place in budgets.
	purse int
	// calm is true once nothing goes wrong any more, since Calmed.
	calm   bool
	calmed time.Time
	// commits counts the transactions of the bridge that changed something.
	commits int
	trace   timeline.Trace
	cover   Coverage
	// failures are the first broken promises, in words.
	failures []string
}

// newStage returns the stage of a seed, at whose beginning nothing has happened.
// trace says whether the lines of what happens are kept, calm that nothing goes wrong.
func newStage(ctx context.Context, seed uint64, trace, calm bool) *stage {
	s := &stage{ctx: ctx, rng: rand.New(rand.NewPCG(seed, 0x6272696467652121)), start: epoch, now: epoch, disk: memstore.NewDisk(),
		trace: timeline.NewTrace(trace), cover: newCoverage()}
	s.fate = drawFate(s.rng, calm)
	return s
}

// note writes one line of the trace.
func (s *stage) note(words ...string) { s.trace.Add(s.now.Sub(s.start), words) }

// fail records a broken promise; of many the first five are kept.
func (s *stage) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.note("FAILURE", text)
	if len(s.failures) < 5 {
		s.failures = append(s.failures, text)
	}
}

// happened counts what is worth knowing to have been reached; see Coverage.
func (s *stage) happened(what string) { s.cover.Happenings[what]++ }

// span draws a time between two others, in whole milliseconds.
func (s *stage) span(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rng.Int64N(int64(to-from)/int64(time.Millisecond)+1))*time.Millisecond
}

// chance draws whether something happens that does so with a probability from 0 to 1.
func (s *stage) chance(p float64) bool { return s.rng.Float64() < p }

// after lets something happen in a while.
func (s *stage) after(d time.Duration, do func()) { s.agenda.Add(s.now.Add(d), false, do) }

// afterAll lets an effect take place although nobody waits for it any more.
func (s *stage) afterAll(d time.Duration, do func()) { s.agenda.Add(s.now.Add(d), true, do) }

// settleLate lets late effects happen at once. A clock that jumps makes the
// settle time meaningless for what is under way; that hole is documented.
func (s *stage) settleLate() {
	for _, do := range s.agenda.TakeLate() {
		do()
	}
}

// pick draws the fault that strikes at one place now, "" for mostly none. It is not
// noted until hit, because it may find nothing to strike.
func (s *stage) pick(kinds []Fault, weight float64) Fault {
	if s.calm || s.fate.rate == 0 || s.rng.Float64() >= s.fate.rate*weight {
		return ""
	}
	kind := kinds[s.rng.IntN(len(kinds))]
	if !s.fate.enabled[kind] {
		return ""
	}
	return kind
}

// strikes draws whether one fault of the world outside strikes, and notes it.
func (s *stage) strikes(kind Fault, chance float64) bool {
	if s.calm || s.fate.rate == 0 || !s.fate.enabled[kind] || s.rng.Float64() >= chance {
		return false
	}
	s.hit(kind)
	return true
}

// hit notes a fault that struck.
func (s *stage) hit(kind Fault) {
	s.cover.Faults[kind]++
	s.note("fault", string(kind))
}

// skewless reports whether the clocks of a play were right all the time.
func (s *stage) skewless() bool {
	return s.cover.Faults[faultClockForward]+s.cover.Faults[faultClockBack] == 0
}

// crashed reports whether a process died, lost its lease or could not record, so that any answer may be lost.
func (s *stage) crashed() bool {
	for _, f := range []Fault{faultCrashBeforeCall, faultCrashAfterCall, faultCrashBeforeCommit, faultCrashAfterCommit, faultCrashAtRest, faultHang, faultStopInCall, faultPanic, faultStoreFails, faultCommitUnknown, faultOverlap, faultPause, faultStalled, faultRestored} {
		if s.cover.Faults[f] > 0 {
			return true
		}
	}
	return false
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
