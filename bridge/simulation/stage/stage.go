// Package stage is what everybody in a play of package simulation shares: the
// virtual time and what will happen in it, the dice, the faults that strike, the
// bridge's store as it truly is, and the record of what happened. It plays no part
// and judges nothing. Rule of thumb: whoever needs chance or time takes it from
// here, or the same seed plays another play.
package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"drawbridge/bridge/simulation/chronicle"
	"drawbridge/bridge/simulation/coverage"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/store/memory"
)

// epoch is when every play begins.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Stage is one play's time, dice and record. Whoever plays reads and moves its
// fields. Make one with New. Not for concurrent use.
type Stage struct {
	// Ctx ends the play early.
	Ctx context.Context //nolint:containedctx // a play lives exactly as long as the Run that got ctx
	// Rng are the dice.
	Rng *rand.Rand
	// Fate is which faults strike, and how often.
	Fate fault.Fate
	// Start is when the play began; Now is the virtual time, which no clock of a machine has to tell.
	Start, Now time.Time
	// Agenda is what happens by itself.
	Agenda chronicle.Agenda
	// Disk is where all replicas of the bridge keep their store.
	Disk *memory.Disk
	// Restored is true once the store was put back to an older copy.
	Restored bool
	// Purse is the budget of trees, by its place in rules.Budgets.
	Purse int
	// Calm is true once nothing goes wrong any more, since Calmed.
	Calm   bool
	Calmed time.Time
	// Commits counts the transactions of the bridge that changed something.
	Commits int
	Trace   chronicle.Trace
	Cover   coverage.Coverage
	// Failures are the first broken promises, in words.
	Failures []string
}

// New returns the stage of a seed, at whose beginning nothing has happened.
// trace says whether the lines of what happens are kept, calm that nothing goes wrong.
func New(ctx context.Context, seed uint64, trace, calm bool) *Stage {
	s := &Stage{Ctx: ctx, Rng: rand.New(rand.NewPCG(seed, 0x6272696467652121)), Start: epoch, Now: epoch, Disk: memory.NewDisk(),
		Trace: chronicle.NewTrace(trace), Cover: coverage.New()}
	s.Fate = fault.Draw(s.Rng, calm)
	return s
}

// Note writes one line of the trace.
func (s *Stage) Note(words ...string) { s.Trace.Add(s.Now.Sub(s.Start), words) }

// Fail records a broken promise; of many the first five are kept.
func (s *Stage) Fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.Note("FAILURE", text)
	if len(s.Failures) < 5 {
		s.Failures = append(s.Failures, text)
	}
}

// Happened counts what is worth knowing to have been reached; see coverage.Coverage.
func (s *Stage) Happened(what string) { s.Cover.Happenings[what]++ }

// Span draws a time between two others, in whole milliseconds.
func (s *Stage) Span(from, to time.Duration) time.Duration {
	return from + time.Duration(s.Rng.Int64N(int64(to-from)/int64(time.Millisecond)+1))*time.Millisecond
}

// Chance draws whether something happens that does so with a probability from 0 to 1.
func (s *Stage) Chance(p float64) bool { return s.Rng.Float64() < p }

// After lets something happen in a while.
func (s *Stage) After(d time.Duration, do func()) { s.Agenda.Add(s.Now.Add(d), false, do) }

// AfterAll lets an effect take place although nobody waits for it any more.
func (s *Stage) AfterAll(d time.Duration, do func()) { s.Agenda.Add(s.Now.Add(d), true, do) }

// SettleLate lets late effects happen at once. A clock that jumps makes the
// settle time meaningless for what is under way; that hole is documented.
func (s *Stage) SettleLate() {
	for _, do := range s.Agenda.TakeLate() {
		do()
	}
}

// Pick draws the fault that strikes at one place now, "" for mostly none. It is not
// noted until Hit, because it may find nothing to strike.
func (s *Stage) Pick(kinds []fault.Kind, weight float64) fault.Kind {
	if s.Calm || s.Fate.Rate == 0 || s.Rng.Float64() >= s.Fate.Rate*weight {
		return ""
	}
	kind := kinds[s.Rng.IntN(len(kinds))]
	if !s.Fate.Enabled[kind] {
		return ""
	}
	return kind
}

// Strikes draws whether one fault of the world outside strikes, and notes it.
func (s *Stage) Strikes(kind fault.Kind, chance float64) bool {
	if s.Calm || s.Fate.Rate == 0 || !s.Fate.Enabled[kind] || s.Rng.Float64() >= chance {
		return false
	}
	s.Hit(kind)
	return true
}

// Hit notes a fault that struck.
func (s *Stage) Hit(kind fault.Kind) {
	s.Cover.Faults[kind]++
	s.Note("fault", string(kind))
}

// Skewless reports whether the clocks of a play were right all the time.
func (s *Stage) Skewless() bool {
	return s.Cover.Faults[fault.ClockForward]+s.Cover.Faults[fault.ClockBack] == 0
}

// Crashed reports whether a process died, lost its lease or could not record, so that any answer may be lost.
func (s *Stage) Crashed() bool {
	for _, f := range []fault.Kind{fault.CrashBeforeCall, fault.CrashAfterCall, fault.CrashBeforeCommit, fault.CrashAfterCommit, fault.CrashAtRest, fault.Hang, fault.StopInCall, fault.Panic, fault.StoreFails, fault.CommitUnknown, fault.Overlap, fault.Pause, fault.Stalled, fault.Restored} {
		if s.Cover.Faults[f] > 0 {
			return true
		}
	}
	return false
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
