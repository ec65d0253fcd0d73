package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/chronicle"
	"drawbridge/bridge/simulation/coverage"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/bridge/simulation/rules"
	"drawbridge/policy"
	"drawbridge/store/memory"
)

// epoch is when every play begins.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Bounds of a play. Whoever does not come to rest within them has failed.
const (
	maxSteps = 6000
	maxDepth = 2
	maxRest  = 30
)

// world is one play. Everything in it runs on one goroutine.
type world struct {
	ctx   context.Context //nolint:containedctx // a world lives exactly as long as the Run that got ctx
	rng   *rand.Rand
	fate  fault.Fate
	start time.Time
	now   time.Time
	// agenda is what happens by itself.
	agenda chronicle.Agenda

	disk     *memory.Disk
	backup   *memory.Disk
	machines []*machine
	cloud    *cloud
	relay    *relay
	user     *user
	oracle   *oracle
	// narrow is true while the allowlist is a shorter one; purse is the budget of trees.
	narrow bool
	purse  int
	// chain is how many turns may follow from one another without a person.
	chain int

	// depth is how many calls are open around what happens now.
	depth int
	// calm is true once nothing goes wrong any more, since when is in calmed.
	calm    bool
	calmed  time.Time
	steps   int
	commits int
	// stepping is true while a handler of the bridge works, and not a person.
	stepping bool
	due      time.Time // of the next work, when it was last looked for
	ids      uint64
	trace    chronicle.Trace
	cover    coverage.Coverage
	failures []string
}

func newWorld(ctx context.Context, seed uint64, c Config) *world {
	w := &world{ctx: ctx, rng: rand.New(rand.NewPCG(seed, 0x6272696467652121)), start: epoch, now: epoch, disk: memory.NewDisk(), cover: coverage.New()}
	w.trace = chronicle.NewTrace(c.Trace)
	w.fate = fault.Draw(w.rng, c.Calm)
	w.chain = []int{40, 40, 40, 40, 4, 1}[w.rng.IntN(6)]
	if w.strikes(fault.SmallBudget, 0.6) {
		w.purse = 1 + w.rng.IntN(len(rules.Budgets)-1)
	}
	w.cloud, w.relay, w.oracle = newCloud(w), newRelay(w), newOracle(w)
	w.user = newUser(w)
	for i := range 1 + w.rng.IntN(2) {
		w.machines = append(w.machines, &machine{w: w, name: fmt.Sprintf("bridge%d", i+1)})
	}
	return w
}

// note writes one line of the trace.
func (w *world) note(words ...string) { w.trace.Add(w.now.Sub(w.start), words) }

// fail records a broken promise.
func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note("FAILURE", text)
	if len(w.failures) < 5 {
		w.failures = append(w.failures, text)
	}
}

func (w *world) happened(what string) { w.cover.Happenings[what]++ }

// span returns a time between two others.
func (w *world) span(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(to-from)/int64(time.Millisecond)+1))*time.Millisecond
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// policy is the allowlist in force.
func (w *world) policy() *policy.Policy {
	return rules.Policies()[rules.Book{Chain: w.chain, Narrow: w.narrow, Purse: w.purse}]
}

// after lets something happen in a while.
func (w *world) after(d time.Duration, do func()) { w.agenda.Add(w.now.Add(d), false, do) }

// afterAll lets an effect take place although nobody waits for it any more.
func (w *world) afterAll(d time.Duration, do func()) { w.agenda.Add(w.now.Add(d), true, do) }

// settleLate lets late effects happen at once. A clock that jumps makes the
// settle time meaningless for what is under way; that hole is documented.
func (w *world) settleLate() {
	for _, do := range w.agenda.TakeLate() {
		do()
	}
}

// move is one thing that can happen now.
type move struct {
	m *machine // nil for the next event
}

// moves returns what can happen now.
func (w *world) moves() []move {
	var all []move
	if at, ok := w.agenda.Next(); ok && !at.After(w.now) {
		all = append(all, move{})
	}
	w.due = w.nextDue()
	if w.due.IsZero() {
		return all
	}
	for _, m := range w.machines {
		if m.usable() && !w.due.After(m.now()) {
			all = append(all, move{m})
		}
	}
	return all
}

func (w *world) nextDue() (next time.Time) {
	err := w.disk.Open().View(w.ctx, func(tx bridge.Tx) (err error) {
		next, err = tx.NextDue(epoch)
		return err
	})
	if err != nil {
		w.fail("next due: %v", err)
	}
	return next
}

// turn lets one thing happen and reports whether there was one.
func (w *world) turn() bool {
	if w.depth == 0 {
		w.reap()
	}
	all := w.moves()
	if len(all) == 0 {
		return false
	}
	next := all[w.rng.IntN(len(all))]
	if next.m != nil {
		next.m.step()
		return true
	}
	w.agenda.Take()()
	return true
}

// advance moves time to the next thing that happens, at most to a limit, and
// reports whether there was one before it. It is called when moves found none.
func (w *world) advance(limit time.Time) bool {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if at, ok := w.agenda.Next(); ok {
		sooner(at)
	}
	for _, m := range w.machines {
		if m.usable() && !w.due.IsZero() {
			sooner(w.due.Add(-m.offset))
		}
	}
	if next.IsZero() || next.After(limit) {
		w.now = later(w.now, limit)
		return false
	}
	w.now = later(w.now, next)
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// until plays on to a time, or until nothing is left to happen.
func (w *world) until(limit time.Time) {
	for len(w.failures) == 0 && w.ctx.Err() == nil {
		if w.turn() {
			if w.steps > maxSteps {
				w.fail("no rest after %d works", w.steps)
			}
			continue
		}
		if !w.advance(limit) {
			return
		}
	}
}

// play is the whole play: faults for a while, then calm until nothing moves,
// then a person settles what only a person can, and then the oracle speaks.
func (w *world) play() {
	for _, m := range w.machines {
		m.boot()
	}
	w.user.begin()
	w.after(w.span(0, time.Minute), w.chaos)
	w.until(w.now.Add(w.span(4*time.Minute, w.fate.Length)))
	w.becalm()
	for range maxRest {
		w.rest()
		if len(w.failures) > 0 || !w.user.settle() {
			break
		}
	}
	if w.ctx.Err() != nil {
		w.fail("cut off: %v", w.ctx.Err())
		return
	}
	if len(w.failures) == 0 {
		w.oracle.judge()
	}
}

// becalm ends all faults: clocks are right again and every machine runs.
func (w *world) becalm() {
	w.settleLate()
	w.calm, w.calmed, w.narrow = true, w.now, false
	w.relay.downUntil = time.Time{}
	w.note("calm")
	for _, m := range w.machines {
		m.offset = 0
	}
}

// rest plays until nothing moves but looks for what cannot be found.
func (w *world) rest() {
	limit := w.now.Add(12 * time.Hour)
	for w.now.Before(limit) && len(w.failures) == 0 && w.ctx.Err() == nil {
		w.until(w.now.Add(10 * time.Minute))
		if _, more := w.agenda.Next(); !more && w.oracle.atRest() {
			return
		}
	}
}
