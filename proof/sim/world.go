package sim

import (
	"context"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// Bounds of a play. Whoever does not come to rest within them has failed.
const (
	maxSteps = 6000
	maxDepth = 2
	maxRest  = 30
)

// The bounds of the promises: what is later than these is the documented hole
// of an API without idempotency keys (facts: Effects over an unreliable API).
const (
	settle = 5 * time.Minute
	// latest is how long after a request left, or was about to, it may take effect.
	latest = 3 * time.Minute
	// lag is how long an effect may stay hidden from look-ups.
	lag = 30 * time.Second
	// skew is how far two replicas' clocks may be apart.
	skew = 20 * time.Second
)

// settleOf is how long a lost request may take effect. A relay's record says it at once.
func settleOf(runtime string) time.Duration {
	if _, _, hosted := hosts(runtime); hosted {
		return 0
	}
	return settle
}

// world is one play. Everything in it runs on one goroutine.
type world struct {
	*stage

	machines []*machine
	cloud    *cloud
	relay    *relay
	laptops  []*laptop
	user     *user
	oracle   *oracle
	// hosting is true in plays with agents on a relay.
	hosting bool
	// narrow is true while the allowlist is a shorter one.
	narrow bool
	// chain is how many turns may follow from one another without a person.
	chain int

	// depth is how many calls are open around what happens now.
	depth int
	steps int
	// stepping is true while a handler of the bridge works, and not a person.
	stepping bool
	due      time.Time // of the next work, when it was last looked for
	ids      uint64
}

func newWorld(ctx context.Context, seed uint64, c Config) *world {
	w := &world{stage: newStage(ctx, seed, c.Trace, c.Calm)}
	w.chain = []int{40, 40, 40, 40, 4, 1}[w.rng.IntN(6)]
	if w.strikes(faultSmallBudget, 0.6) {
		w.purse = 1 + w.rng.IntN(len(budgets)-1)
	}
	w.cloud, w.relay, w.user = newCloud(w), newRelay(w), newUser(w)
	if w.hosting = seed%3 == 0; w.hosting {
		w.fate.drawHosted(w.rng)
		w.laptops = []*laptop{newLaptop(w, hostedRuntime, "laptop"), newLaptop(w, otherRuntime, "desk")}
		w.laptops[0].slots = 1 + w.rng.IntN(2)
	}
	w.oracle = newOracle(w.stage, &w.cloud.truth, &w.user.deeds)
	for i := range 1 + w.rng.IntN(2) {
		w.machines = append(w.machines, &machine{w: w, name: fmt.Sprintf("bridge%d", i+1)})
	}
	return w
}

// policy is the allowlist in force.
func (w *world) policy() *policy.Policy {
	return policies()[book{chain: w.chain, narrow: w.narrow, purse: w.purse}]
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

func (w *world) nextDue() time.Time {
	next, err := w.disk.Open().NextFor(w.ctx, bridge.Claim{Now: w.start})
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
	w.until(w.now.Add(w.span(4*time.Minute, w.fate.length)))
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
	for _, l := range w.laptops {
		l.downUntil = time.Time{}
	}
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
